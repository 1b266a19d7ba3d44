/* SPDX-License-Identifier: BSD-3-Clause
 * SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYSH_SHA256_BYTES 32

typedef struct pysh_sha256 {
    uint32_t state[8];
    uint64_t nbytes;         /* taken so far */
    unsigned char block[64]; /* the begun one */
} pysh_sha256_t;

void pysh_sha256_begin(pysh_sha256_t *hash);
void pysh_sha256_add(pysh_sha256_t *hash, const void *data, size_t nbytes);
void pysh_sha256_end(pysh_sha256_t *hash, unsigned char digest[PYSH_SHA256_BYTES]);

typedef struct pysh_hmac {
    pysh_sha256_t inner, outer;
} pysh_hmac_t;

/* A key of up to 64 bytes. */
void pysh_hmac_begin(pysh_hmac_t *hmac, const void *key, size_t nbytes);
void pysh_hmac_add(pysh_hmac_t *hmac, const void *data, size_t nbytes);
void pysh_hmac_end(pysh_hmac_t *hmac, unsigned char digest[PYSH_SHA256_BYTES]);
/* In a time that does not depend on where they differ. */
bool pysh_digests_equal(const unsigned char *a, const unsigned char *b);
