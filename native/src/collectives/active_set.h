/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives on active sets, which OpenSHMEM deprecates for teams: PE_size PEs from PE_start on, 2**logPE_stride
 * apart. All that they share is pSync, whose words are 0 between calls. */
#pragma once

#include <stddef.h>

typedef struct pysh_set {
    int start, log_stride, size;
    long *sync; /* PYSH_SET_SYNC_WORDS words */
} pysh_set_t;

enum { PYSH_SET_SYNC_WORDS = 4 };

int pysh_set_sync(const pysh_set_t *set);
int pysh_set_broadcast(const pysh_set_t *set, void *dest, const void *source, size_t nbytes, int root);
int pysh_set_collect(const pysh_set_t *set, void *dest, const void *source, size_t nbytes);
/* The same number of bytes from each. */
int pysh_set_fcollect(const pysh_set_t *set, void *dest, const void *source, size_t nbytes);
int pysh_set_alltoalls(const pysh_set_t *set, void *dest, const void *source, ptrdiff_t dest_stride,
                       ptrdiff_t source_stride, size_t nelems, size_t width);
int pysh_set_reduce(const pysh_set_t *set, int op, int type, void *dest, const void *source, size_t nreduce);
