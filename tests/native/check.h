/* SPDX-License-Identifier: BSD-3-Clause
 * What the C test programs share. */
#pragma once

#include <shmem.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(_holds)                                                                          \
    do {                                                                                       \
        if (!(_holds)) {                                                                       \
            failures++;                                                                        \
            fprintf(stderr, "PE %d: %s:%d: %s\n", shmem_my_pe(), __FILE__, __LINE__, #_holds); \
        }                                                                                      \
    } while (0)

/* The exit status; PE 0 says ok when all PEs are. */
static inline int conclude(void) {
    int me = shmem_my_pe(), *count = (int *)shmem_malloc(2 * sizeof *count), failed;

    count[0] = failures;
    shmem_barrier_all();
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, count + 1, count, 1);
    failed = count[1];
    shmem_finalize();
    if (!failed && me == 0)
        printf("ok\n");
    return failed != 0;
}
