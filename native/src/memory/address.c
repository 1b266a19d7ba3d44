/* SPDX-License-Identifier: BSD-3-Clause
 * Where an address lies: on which heap or among the static variables, in which block, and where at a peer. */
#include "memory/address.h"

#include <pthread.h>
#include <stdint.h>

#include "base/state.h"
#include "base/status.h"
#include "memory/allocator.h"
#include "memory/heap.h"
#include "memory/place.h"
#include "memory/pools.h"
#include "memory/registered.h"
#include "memory/static_share.h"

static const char *const arena_names[PYSH_ARENA_COUNT] = {"host heap", "device heap", "static variables"};

static int not_symmetric(const void *address, const char *what) {
    if (pysh_registered_any(address, 1))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "%s: %p is registered memory, which put and get of the host reach, and nothing else; here it "
                         "is to be of a symmetric heap (pyshmem.empty), or all of it registered",
                         what, address);
    return pysh_fail(
        ISHMEMX_ERR_ARGUMENT,
        "%s: %p is not on a symmetric heap (host: %s at %p%s)%s; allocate it with shmem_malloc or pyshmem.empty", what,
        address, pysh_bytes_text(pysh.arena[0].nbytes), (void *)pysh.arena[0].base,
        pysh.arena[1].base ? "; or the device heap" : "", pysh_statics_why_not(address));
}

int pysh_heap_locate(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p) {
    for (int heap = 0; heap < PYSH_ARENA_COUNT; heap++) {
        const pysh_arena_t *arena = &pysh.arena[heap];
        uintptr_t offset = (uintptr_t)address - (uintptr_t)arena->base;
        size_t left;

        if (offset >= (uintptr_t)arena->nbytes)
            continue;
        left = pysh_place_bytes(heap);
        left = offset < left ? left - offset : 0;
        if (nbytes > left)
            return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: %zu bytes leave the %s, which end%s %zu bytes behind %p", what,
                             nbytes, arena_names[heap], heap == PYSH_STATICS ? "" : "s", left, address);
        *heap_p = heap;
        *offset_p = (int64_t)offset;
        return ISHMEMX_OK;
    }
    return not_symmetric(address, what);
}

/* In checking mode an access must stay inside one allocated block. */
static int check_block(int heap, int64_t offset, size_t nbytes, const char *what) {
    const pysh_block_t *block;
    int status = ISHMEMX_OK;

    pthread_mutex_lock(&pysh_heaps.mutex);
    block = pysh_allocator_find(&pysh_heaps.allocator[heap], offset);
    if (!block)
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s lies in a part of the %s that is not allocated (freed?)", what,
                           arena_names[heap]);
    else if ((int64_t)nbytes > block->offset + block->nbytes - offset)
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: %zu bytes from byte %lld of a block of %lld bytes", what, nbytes,
                           (long long)(offset - block->offset), (long long)block->nbytes);
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return status;
}

int pysh_own_heap_find(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p) {
    int status = pysh_heap_locate(address, nbytes, what, heap_p, offset_p);

    if (status || !pysh.check || *offset_p < pysh.arena[*heap_p].system || !nbytes)
        return status;
    return check_block(*heap_p, *offset_p, nbytes, what);
}

int pysh_heap_find(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p) {
    int status = pysh_own_heap_find(address, nbytes, what, heap_p, offset_p);

    if (!status && nbytes && *heap_p < ISHMEMX_HEAP_COUNT && *offset_p < pysh.arena[*heap_p].system)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "%s: %p is in the first %s of the %s, which are the library's own; what a program may use "
                         "begins at %p, and comes from shmem_malloc or pyshmem.empty",
                         what, address, pysh_bytes_text(pysh.arena[*heap_p].system), arena_names[*heap_p],
                         (void *)pysh.arena[*heap_p].first);
    if (!status && pysh_pool_pending(address, nbytes))
        return pysh_fail(
            ISHMEMX_ERR_ARGUMENT,
            "%s: %p is memory of a pool that the PEs have not compared yet: leave the block of the pool, or "
            "call its rendezvous(), first",
            what, address);
    return status;
}
