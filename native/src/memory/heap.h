/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by heap.c, address.c and release.c: the book of the symmetric heaps. */
#pragma once

#include <pthread.h>
#include <stdio.h>

#include "base/internal.h"
#include "memory/allocator.h"

typedef struct pysh_heaps {
    pthread_mutex_t mutex; /* a finalizer may release in any thread; never held while waiting */
    pysh_allocator_t allocator[ISHMEMX_HEAP_COUNT];
    uint64_t ordinal;                       /* of the last allocation on either heap; equal on all PEs */
    uint64_t max_align[ISHMEMX_HEAP_COUNT]; /* up to which the addresses of a heap are alike on all PEs */
    void *gathered;                         /* [n_pes * PYSH_EXCHANGE_BYTES] for exchange */
} pysh_heaps_t;
extern pysh_heaps_t pysh_heaps;

/* The block that begins at `address`, neither freed nor released; `what` names the routine. */
int pysh_heap_block(const void *address, const char *what, int *heap_p, pysh_block_t *block_p);
void pysh_heap_give(int heap, int64_t offset);

/* ---- address.c ---- */
int pysh_heap_locate(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p);

/* ---- release.c; has, count and forget with the mutex held ---- */
bool pysh_release_has(uint64_t ordinal);
int64_t pysh_release_count(int heap);
void pysh_release_forget(void);
bool pysh_release_pending(void);
/* Collective: frees what every PE has released, in the order of allocation. */
int pysh_release_agree(const char *what, size_t *freed_p);
