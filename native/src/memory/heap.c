/* SPDX-License-Identifier: BSD-3-Clause
 * The book of the symmetric heaps, over the deterministic allocator. */
#include "memory/heap.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/address.h"
#include "memory/allocator.h"
#include "memory/release.h"
#include "node/node.h"
#include "transport/transport.h"

pysh_heaps_t pysh_heaps = {.mutex = PTHREAD_MUTEX_INITIALIZER};

const char *pysh_heap_name(int heap) {
    static const char *const names[ISHMEMX_HEAP_COUNT] = {"host", "device"};

    return names[heap];
}

/* ---- set-up ---- */

int64_t pysh_arena_nbytes(int64_t heap_bytes, int64_t system) {
    int64_t usable = heap_bytes > INT64_MAX / 2 ? INT64_MAX / 2 : heap_bytes;

    return system + ((usable + 4095) & -4096);
}

int pysh_heap_setup(int heap, int64_t nbytes) {
    pysh_arena_t *arena = &pysh.arena[heap];

    if (!pysh_allocator_init(&pysh_heaps.allocator[heap], arena->system, nbytes & -PYSH_ALLOCATOR_GRAIN))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for the book of the %s heap", pysh_heap_name(heap));
    pysh_heaps.allocator[heap].address = (int64_t)(intptr_t)arena->base;
    arena->first = arena->base + arena->system;
    arena->usable = (uint64_t)(nbytes - arena->system);
    return ISHMEMX_OK;
}

/* What a PE tells the others: where its heaps lie, and whether it maps its node's host arenas. */
enum { MAPS_NODE = ISHMEMX_HEAP_COUNT, WORDS };

static bool maps_node(void) {
    for (int pe = 0; pe < pysh.n_pes; pe++)
        if (pysh_near(pe) && !pysh.arena[ISHMEMX_HEAP_HOST].peer[pe])
            return false;
    return true;
}

int pysh_heap_agree(void) {
    uint64_t mine[WORDS], *all;
    int status;

    pysh_heaps.gathered = calloc((size_t)pysh.n_pes, PYSH_EXCHANGE_BYTES + sizeof *pysh_heaps.names);
    if (!pysh_heaps.gathered)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to talk to %d PEs", pysh.n_pes);
    pysh_heaps.names = (uint64_t *)(void *)((char *)pysh_heaps.gathered + (size_t)pysh.n_pes * PYSH_EXCHANGE_BYTES);
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        mine[heap] = (uint64_t)(uintptr_t)pysh.arena[heap].base;
    mine[MAPS_NODE] = maps_node();
    if ((status = pysh.agree->exchange("init", mine, pysh_heaps.gathered, sizeof mine)))
        return status;
    all = pysh_heaps.gathered;
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++) {
        uint64_t differ = 1ULL << 62;
        for (int pe = 0; pe < pysh.n_pes; pe++)
            differ |= all[WORDS * pe + heap] ^ all[heap];
        pysh_heaps.max_align[heap] = differ & -differ;
    }
    pysh.nodes_mapped = true;
    for (int pe = 0; pe < pysh.n_pes; pe++)
        pysh.nodes_mapped = pysh.nodes_mapped && all[WORDS * pe + MAPS_NODE];
    return ISHMEMX_OK;
}

/* Of a job that is being taken down. */
static struct {
    pysh_extent_t *extent;
    size_t n;
} holes[ISHMEMX_HEAP_COUNT];

const pysh_extent_t *pysh_heap_holes(int heap, size_t *n_p) {
    *n_p = holes[heap].n;
    return holes[heap].extent;
}

void pysh_heap_forget_holes(void) {
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++) {
        free(holes[heap].extent);
        holes[heap].extent = NULL;
        holes[heap].n = 0;
    }
}

void pysh_heap_teardown(int64_t *blocks_p) {
    pthread_mutex_lock(&pysh_heaps.mutex);
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++) {
        blocks_p[heap] = (int64_t)pysh_heaps.allocator[heap].n_live - pysh_release_count(heap);
        holes[heap].extent = pysh_heaps.allocator[heap].hole;
        holes[heap].n = pysh_heaps.allocator[heap].n_holes;
        pysh_heaps.allocator[heap].hole = NULL;
        pysh_allocator_destroy(&pysh_heaps.allocator[heap]);
    }
    pysh_release_forget();
    free(pysh_heaps.gathered);
    pysh_heaps.gathered = NULL;
    pysh_heaps.names = NULL;
    pysh_heaps.ordinal = 0;
    pthread_mutex_unlock(&pysh_heaps.mutex);
}

/* ---- blocks ---- */

/* The pages of a heap that a GPU has pinned stay: it goes on by their old addresses. */
static bool only_cpu(int heap) {
    return pysh.arena[heap].cpu_visible && (!pysh.accel || pysh.accel->cpu_visible);
}

/* In a collective call of the world team: no thread of this PE takes the block before its pages are gone, and no other
 * PE stores to it before all have taken it. */
void pysh_heap_give(int heap, int64_t offset) {
    const pysh_block_t *block;
    int64_t nbytes;

    pthread_mutex_lock(&pysh_heaps.mutex);
    block = pysh_allocator_find(&pysh_heaps.allocator[heap], offset);
    nbytes = block ? block->nbytes : 0;
    pysh_allocator_give(&pysh_heaps.allocator[heap], offset);
    pthread_mutex_unlock(&pysh_heaps.mutex);
    if (nbytes >= PYSH_GIVE_BACK_BYTES && only_cpu(heap) && pysh.transport->give_back)
        pysh.transport->give_back(pysh.arena[heap].base + offset, (size_t)nbytes);
}

void pysh_heap_stats_held(int heap, ishmemx_heap_stats_t *stats) {
    const pysh_allocator_t *allocator = &pysh_heaps.allocator[heap];

    *stats = (ishmemx_heap_stats_t){.nbytes = allocator->nbytes,
                                    .used = allocator->used,
                                    .free = allocator->nbytes - allocator->used,
                                    .largest_free = pysh_allocator_largest(allocator),
                                    .allocations = (int64_t)allocator->n_live,
                                    .released = pysh_release_count(heap),
                                    .memory = pysh.arena[heap].grows ? pysh.arena[heap].mapped : allocator->nbytes};
}

int pysh_heap_block(const void *address, const char *what, int *heap_p, pysh_block_t *block_p) {
    const pysh_block_t *found;
    int64_t offset = 0;
    int status = pysh_heap_locate(address, 1, what, heap_p, &offset);

    if (status)
        return status;
    if (*heap_p == PYSH_STATICS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: %p is a static variable, not a block of a heap", what, address);
    pthread_mutex_lock(&pysh_heaps.mutex);
    found = pysh_allocator_find(&pysh_heaps.allocator[*heap_p], offset);
    if (!found)
        status = pysh_fail(ISHMEMX_ERR_STATE, "%s: %p is no block of the %s heap; was it freed before?", what, address,
                           pysh_heap_name(*heap_p));
    else if (found->offset != offset)
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: %p is %lld bytes inside a block; pass its first byte", what,
                           address, (long long)(offset - found->offset));
    else if (pysh_release_has(found->ordinal))
        status = pysh_fail(ISHMEMX_ERR_STATE, "%s: the block at %p was released before", what, address);
    else
        *block_p = *found;
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return status;
}
