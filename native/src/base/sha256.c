/* SPDX-License-Identifier: BSD-3-Clause
 * See sha256.h. */
#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void take_block(pysh_sha256_t *hash, const unsigned char *block) {
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, hash->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = s[7] + (rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25)) +
                      ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
        uint32_t t2 = (rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22)) +
                      ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(&s[1], &s[0], 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        hash->state[i] += s[i];
}

void pysh_sha256_begin(pysh_sha256_t *hash) {
    *hash = (pysh_sha256_t){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void pysh_sha256_add(pysh_sha256_t *hash, const void *data, size_t nbytes) {
    const unsigned char *from = data;

    while (nbytes) {
        size_t begun = hash->nbytes % 64, n = 64 - begun < nbytes ? 64 - begun : nbytes;
        memcpy(hash->block + begun, from, n);
        hash->nbytes += n;
        from += n;
        nbytes -= n;
        if (hash->nbytes % 64 == 0)
            take_block(hash, hash->block);
    }
}

void pysh_sha256_end(pysh_sha256_t *hash, unsigned char digest[PYSH_SHA256_BYTES]) {
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = hash->nbytes * 8;
    unsigned char length[8];

    pysh_sha256_add(hash, padding, (119 - hash->nbytes % 64) % 64 + 1);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    pysh_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < PYSH_SHA256_BYTES; i++)
        digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void pysh_hmac_begin(pysh_hmac_t *hmac, const void *key, size_t nbytes) {
    unsigned char inner[64] = {0}, outer[64];

    memcpy(inner, key, nbytes < sizeof inner ? nbytes : sizeof inner);
    for (size_t i = 0; i < sizeof inner; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    pysh_sha256_begin(&hmac->inner);
    pysh_sha256_add(&hmac->inner, inner, sizeof inner);
    pysh_sha256_begin(&hmac->outer);
    pysh_sha256_add(&hmac->outer, outer, sizeof outer);
}

void pysh_hmac_add(pysh_hmac_t *hmac, const void *data, size_t nbytes) {
    pysh_sha256_add(&hmac->inner, data, nbytes);
}

void pysh_hmac_end(pysh_hmac_t *hmac, unsigned char digest[PYSH_SHA256_BYTES]) {
    pysh_sha256_end(&hmac->inner, digest);
    pysh_sha256_add(&hmac->outer, digest, PYSH_SHA256_BYTES);
    pysh_sha256_end(&hmac->outer, digest);
}

bool pysh_digests_equal(const unsigned char *a, const unsigned char *b) {
    unsigned differ = 0;

    for (int i = 0; i < PYSH_SHA256_BYTES; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return !differ;
}
