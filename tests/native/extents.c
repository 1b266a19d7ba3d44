/* SPDX-License-Identifier: BSD-3-Clause
 * pysh_extent() against the same sum in 128 bits. */
#include "base/extent.h"

#include <stdio.h>

static int wrong;

static void try(size_t n, size_t stride, size_t block, size_t width) {
    size_t nbytes = 77;
    bool holds = pysh_extent(n, stride, block, width, &nbytes), right = true;
    /* Each factor below 2^64, so two products of two stay below 2^128; the third is not needed once two are too many.
     */
    unsigned __int128 elements = 0, most = PTRDIFF_MAX;

    if (n && block && width) {
        elements = (n > 1 ? (unsigned __int128)(n - 1) * stride : 0) + block;
        right = elements <= most && elements * width <= most;
    }
    if (holds != right || (holds ? nbytes != (size_t)(elements * width) : nbytes != 77)) {
        printf("%zu blocks of %zu every %zu, width %zu: %d, %zu bytes\n", n, block, stride, width, holds, nbytes);
        wrong++;
    }
}

int main(void) {
    static const size_t value[] = {0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   1UL << 31,
                                   (1UL << 32) - 1,
                                   1UL << 32,
                                   (1UL << 41) + 1,
                                   1UL << 60,
                                   (1UL << 61) + 1,
                                   PTRDIFF_MAX,
                                   1UL << 63,
                                   SIZE_MAX - 1,
                                   SIZE_MAX};
    enum { N = sizeof value / sizeof *value };

    for (int n = 0; n < N; n++)
        for (int stride = 0; stride < N; stride++)
            for (int block = 0; block < N; block++)
                for (int width = 0; width < N; width++)
                    try(value[n], value[stride], value[block], value[width]);
    if (!wrong)
        puts("ok");
    return wrong != 0;
}
