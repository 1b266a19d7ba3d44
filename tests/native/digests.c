/* SPDX-License-Identifier: BSD-3-Clause
 * SHA-256 and HMAC of messages of 0 to 199 bytes, taken in two parts, for another implementation to compare. */
#include "base/sha256.h"

#include <stdio.h>

enum { MOST = 200 };

static void print(const unsigned char *digest, const char *behind) {
    for (int i = 0; i < PYSH_SHA256_BYTES; i++)
        printf("%02x", digest[i]);
    printf("%s", behind);
}

int main(void) {
    unsigned char message[MOST], digest[PYSH_SHA256_BYTES];
    pysh_sha256_t hash;
    pysh_hmac_t hmac;

    for (size_t n = 0; n < MOST; n++) {
        for (size_t i = 0; i < n; i++)
            message[i] = (unsigned char)(i * 7 + n);
        pysh_sha256_begin(&hash);
        pysh_sha256_add(&hash, message, n / 3);
        pysh_sha256_add(&hash, message + n / 3, n - n / 3);
        pysh_sha256_end(&hash, digest);
        print(digest, " ");
        pysh_hmac_begin(&hmac, message, n < 64 ? n : 64);
        pysh_hmac_add(&hmac, message, n);
        pysh_hmac_end(&hmac, digest);
        print(digest, "\n");
    }
    return 0;
}
