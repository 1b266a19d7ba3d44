/* SPDX-License-Identifier: BSD-3-Clause
 * The symmetric heaps: arenas, and the book of the blocks on them. ishmemx_malloc() and its kin are collectives, see
 * collectives/malloc.c. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "ishmemx.h"
#include "memory/allocator.h"

typedef struct pysh_heaps {
    pthread_mutex_t mutex; /* a finalizer may release in any thread; never held while waiting */
    pysh_allocator_t allocator[ISHMEMX_HEAP_COUNT];
    uint64_t ordinal;                       /* of the last allocation on either heap; equal on all PEs */
    uint64_t max_align[ISHMEMX_HEAP_COUNT]; /* up to which the addresses of a heap are alike on all PEs */
    void *gathered;                         /* [n_pes * PYSH_EXCHANGE_BYTES] for exchange */
    uint64_t *names;                        /* [n_pes]: ishmemx_malloc_names(); behind `gathered` */
} pysh_heaps_t;
extern pysh_heaps_t pysh_heaps;

/* The block that begins at `address`, neither freed nor released; `what` names the routine. */
int pysh_heap_block(const void *address, const char *what, int *heap_p, pysh_block_t *block_p);
/* Frees a block. One of PYSH_GIVE_BACK_BYTES or more gives its pages back to the system, where the CPU alone uses them:
 * on the shm conduit, but for a host heap that is pinned for a GPU. Less is not worth the faults of who takes it next.
 */
#define PYSH_GIVE_BACK_BYTES ((int64_t)4 << 20)
void pysh_heap_give(int heap, int64_t offset);

/* How full it is; all 0: there is no such heap. With the mutex held. */
void pysh_heap_stats_held(int heap, ishmemx_heap_stats_t *stats);

const char *pysh_heap_name(int heap);

int pysh_heap_setup(int heap, int64_t nbytes); /* allocator over an arena */
int pysh_heap_agree(void);                     /* collective, after all set-ups: from here on peers may come */
/* Writes how many blocks of each heap the program still holds: neither freed nor released. */
void pysh_heap_teardown(int64_t *blocks_p);
/* Then, until the second is called: the parts of a heap's arena in which no PE has a block. */
const pysh_extent_t *pysh_heap_holes(int heap, size_t *n_p);
void pysh_heap_forget_holes(void);
/* Of an arena with so large a heap behind its system region. */
int64_t pysh_arena_nbytes(int64_t heap_bytes, int64_t system);
