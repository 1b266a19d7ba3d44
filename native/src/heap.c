/* SPDX-License-Identifier: BSD-3-Clause
 * The symmetric heaps: collective allocation over the deterministic allocator, and addresses. Blocks
 * released by garbage collection are in release.c. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "statics.h"

pysh_heaps_t pysh_heaps = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const char *const heap_names[] = {"host", "device"};
static const char *const arena_names[PYSH_ARENA_COUNT] = {"host heap", "device heap", "static variables"};
static const char *const heap_settings[ISHMEMX_HEAP_COUNT] = {"HEAP_SIZE", "DEVICE_HEAP_SIZE"};

/* ---- set-up ---- */

int pysh_heap_setup(int heap, int64_t nbytes) {
    if (!pysh_allocator_init(&pysh_heaps.allocator[heap], pysh.arena[heap].system, nbytes & -PYSH_ALLOCATOR_GRAIN))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for the book of the %s heap", heap_names[heap]);
    return ISHMEMX_OK;
}

int pysh_heap_agree(void) {
    uint64_t mine = 0, *all;
    int status;

    pysh_heaps.gathered = malloc((size_t)pysh.n_pes * PYSH_EXCHANGE_BYTES);
    if (!pysh_heaps.gathered)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to talk to %d PEs", pysh.n_pes);
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        mine |= (uint64_t)(uintptr_t)pysh.arena[heap].base;
    if ((status = pysh.conduit->exchange("init", &mine, pysh_heaps.gathered, sizeof mine)))
        return status;
    all = pysh_heaps.gathered;
    for (int pe = 0; pe < pysh.n_pes; pe++)
        mine |= all[pe];
    pysh_heaps.max_align = (int64_t)(mine & -mine);
    return ISHMEMX_OK;
}

void pysh_heap_teardown(int64_t *blocks_p) {
    pthread_mutex_lock(&pysh_heaps.mutex);
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++) {
        blocks_p[heap] = (int64_t)pysh_heaps.allocator[heap].n_live - pysh_release_count(heap);
        pysh_allocator_destroy(&pysh_heaps.allocator[heap]);
    }
    pysh_release_forget();
    free(pysh_heaps.gathered);
    pysh_heaps.gathered = NULL;
    pysh_heaps.ordinal = 0;
    pthread_mutex_unlock(&pysh_heaps.mutex);
}

/* ---- agreement ---- */

/* What a PE is about to do; equal on all PEs, or the call fails on all. */
typedef struct ask {
    int32_t frees, heap, zero;
    int32_t has_released; /* the only member that may differ */
    uint64_t nbytes, align, ordinal;
} ask_t;

static const char *ask_text(const ask_t *ask, char *text, size_t capacity) {
    unsigned long long nbytes = ask->nbytes, ordinal = ask->ordinal;

    if (ask->frees)
        snprintf(text, capacity, "frees block %llu of %llu bytes on the %s heap", ordinal, nbytes,
                 heap_names[ask->heap & 1]);
    else
        snprintf(text, capacity, "asks for %llu bytes on the %s heap, aligned to %llu%s, as block %llu", nbytes,
                 heap_names[ask->heap & 1], (unsigned long long)ask->align, ask->zero ? ", zeroed" : "", ordinal);
    return text;
}

static bool same(const ask_t *a, const ask_t *b) {
    return a->frees == b->frees && a->heap == b->heap && a->zero == b->zero && a->nbytes == b->nbytes &&
           a->align == b->align && a->ordinal == b->ordinal;
}

/* A barrier after which all PEs know that they agree; *all_released_p (may be NULL): every PE has
 * released blocks. */
static int agree(const char *what, const ask_t *mine, bool *all_released_p) {
    const ask_t *all = pysh_heaps.gathered;
    char first[160], other[160];
    bool all_released = true;
    int status = pysh.conduit->exchange(what, mine, pysh_heaps.gathered, sizeof *mine);

    if (status)
        return status;
    for (int pe = 0; pe < pysh.n_pes; pe++) {
        all_released = all_released && all[pe].has_released;
        if (!same(&all[0], &all[pe]))
            return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: PE 0 %s; PE %d %s", what,
                             ask_text(&all[0], first, sizeof first), pe, ask_text(&all[pe], other, sizeof other));
    }
    if (all_released_p)
        *all_released_p = all_released;
    return ISHMEMX_OK;
}

/* ---- where an address lies ---- */

static int not_symmetric(const void *address, const char *what) {
    return pysh_fail(
        ISHMEMX_ERR_ARGUMENT,
        "%s: %p is not on a symmetric heap (host: %s at %p%s)%s; allocate it with shmem_malloc or pyshmem.empty", what,
        address, pysh_bytes_text(pysh.arena[0].nbytes), (void *)pysh.arena[0].base,
        pysh.arena[1].base ? "; or the device heap" : "", pysh_statics_why_not(address));
}

static int locate(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p) {
    for (int heap = 0; heap < PYSH_ARENA_COUNT; heap++) {
        const pysh_arena_t *arena = &pysh.arena[heap];
        uintptr_t offset = (uintptr_t)address - (uintptr_t)arena->base;

        if (offset >= (uintptr_t)arena->nbytes)
            continue;
        if (nbytes > (uintptr_t)arena->nbytes - offset)
            return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: %zu bytes leave the %s, which end%s %zu bytes behind %p", what,
                             nbytes, arena_names[heap], heap == PYSH_STATICS ? "" : "s",
                             (size_t)((uintptr_t)arena->nbytes - offset), address);
        *heap_p = heap;
        *offset_p = (int64_t)offset;
        return ISHMEMX_OK;
    }
    return not_symmetric(address, what);
}

/* ---- malloc and free ---- */

static int zero_block(int heap, int64_t offset, size_t nbytes) {
    char *block = pysh.arena[heap].base + offset;

    if (!pysh.arena[heap].cpu_visible)
        return pysh.accel->zero(block, nbytes);
    memset(block, 0, nbytes);
    return ISHMEMX_OK;
}

static int exhausted(const ask_t *ask, int64_t refusal) {
    const pysh_allocator_t *allocator = &pysh_heaps.allocator[ask->heap];
    int64_t requested = ask->nbytes > INT64_MAX ? INT64_MAX : (int64_t)ask->nbytes;

    if (refusal == PYSH_ALLOCATOR_NO_METADATA)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for the book of the %s heap", heap_names[ask->heap]);
    return pysh_fail(ISHMEMX_ERR_MEMORY,
                     "symmetric %s heap exhausted: %s requested, %s free, largest block %s; raise PYSHMEM_%s (now %s)",
                     heap_names[ask->heap], pysh_bytes_text(requested),
                     pysh_bytes_text(allocator->nbytes - allocator->used),
                     pysh_bytes_text(pysh_allocator_largest(allocator)), heap_settings[ask->heap],
                     pysh_bytes_text(allocator->nbytes));
}

static int64_t take(const ask_t *ask) {
    int64_t offset, nbytes = ask->nbytes > INT64_MAX ? INT64_MAX : (int64_t)ask->nbytes;

    pthread_mutex_lock(&pysh_heaps.mutex);
    offset = pysh_allocator_take(&pysh_heaps.allocator[ask->heap], nbytes, (int64_t)ask->align, ask->ordinal);
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return offset;
}

void pysh_heap_give(int heap, int64_t offset) {
    pthread_mutex_lock(&pysh_heaps.mutex);
    pysh_allocator_give(&pysh_heaps.allocator[heap], offset);
    pthread_mutex_unlock(&pysh_heaps.mutex);
}

/* One attempt, the same on all PEs: *offset_p is negative when the heap is exhausted; *freed_p counts the
 * released blocks that were freed on this occasion. */
static int attempt(ask_t *ask, int64_t *offset_p, size_t *freed_p) {
    int64_t offset = take(ask);
    bool all_released;
    int status = ISHMEMX_OK;

    *freed_p = 0;
    if (ask->zero && offset >= 0)
        status = zero_block(ask->heap, offset, (size_t)ask->nbytes);
    ask->has_released = pysh_release_pending();
    if (!status)
        status = agree("malloc", ask, &all_released);
    if (!status && all_released)
        status = pysh_release_agree("malloc", freed_p);
    if (status && offset >= 0)
        pysh_heap_give(ask->heap, offset);
    *offset_p = offset;
    return status;
}

static int check_heap(int heap) {
    if (heap < 0 || heap >= ISHMEMX_HEAP_COUNT)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "heap %d is neither host (0) nor device (1)", heap);
    if (!pysh.arena[heap].base)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "there is no device heap: this job has no accelerator; PYSHMEM_DEVICE=sim simulates one");
    return ISHMEMX_OK;
}

int ishmemx_malloc(int heap, size_t nbytes, size_t align, int zero, void **block_p) {
    ask_t ask = {.heap = heap, .zero = zero != 0, .nbytes = nbytes, .align = align ? align : PYSH_ALLOCATOR_GRAIN};
    int64_t offset;
    size_t freed;
    int status;

    PYSH_ENTER();
    if ((status = check_heap(heap)))
        return status;
    if (align & (align - 1))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "align is %zu, not a power of two", align);
    if (align > (size_t)pysh_heaps.max_align)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "align is %zu, more than the %lld to which the heaps themselves are",
                         align, (long long)pysh_heaps.max_align);
    if (nbytes == 0) {
        *block_p = NULL;
        return ISHMEMX_OK;
    }
    if (ask.align < PYSH_ALLOCATOR_GRAIN)
        ask.align = PYSH_ALLOCATOR_GRAIN;
    /* quiet as before every barrier of the library's memory routines */
    if ((status = pysh_quiet()) || (status = pysh_team_claim(&ishmemx_team_world, "malloc")))
        return status;
    ask.ordinal = pysh_heaps.ordinal + 1;
    do /* once more when released blocks made room */
        status = attempt(&ask, &offset, &freed);
    while (!status && offset < 0 && freed > 0);
    if (!status && offset < 0)
        status = exhausted(&ask, offset);
    if (!status) {
        pysh_heaps.ordinal++;
        *block_p = pysh.arena[heap].base + offset;
    }
    pysh_team_unclaim(&ishmemx_team_world);
    return status;
}

int pysh_heap_block(const void *address, const char *what, int *heap_p, pysh_block_t *block_p) {
    const pysh_block_t *found;
    int64_t offset = 0;
    int status = locate(address, 1, what, heap_p, &offset);

    if (status)
        return status;
    if (*heap_p == PYSH_STATICS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: %p is a static variable, not a block of a heap", what, address);
    pthread_mutex_lock(&pysh_heaps.mutex);
    found = pysh_allocator_find(&pysh_heaps.allocator[*heap_p], offset);
    if (!found)
        status = pysh_fail(ISHMEMX_ERR_STATE, "%s: %p is no block of the %s heap; was it freed before?", what, address,
                           heap_names[*heap_p]);
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

int ishmemx_free(void *block) {
    pysh_block_t found;
    ask_t ask = {.frees = true};
    int status;

    PYSH_ENTER();
    if (!block)
        return ISHMEMX_OK;
    if ((status = pysh_heap_block(block, "free", &ask.heap, &found)))
        return status;
    ask.nbytes = (uint64_t)found.nbytes;
    ask.ordinal = found.ordinal;
    if ((status = pysh_quiet()) || (status = pysh_team_claim(&ishmemx_team_world, "free")))
        return status;
    if (!(status = agree("free", &ask, NULL)))
        pysh_heap_give(ask.heap, found.offset);
    pysh_team_unclaim(&ishmemx_team_world);
    return status;
}

/* Each PE moves its own contents between two barriers: that of malloc, and that of free. */
int ishmemx_realloc(void *block, size_t nbytes, void **block_p) {
    pysh_block_t old;
    void *moved;
    size_t kept;
    int heap, status;

    PYSH_ENTER();
    if (!block)
        return ishmemx_malloc(ISHMEMX_HEAP_HOST, nbytes, 0, 0, block_p);
    if ((status = pysh_heap_block(block, "realloc", &heap, &old)))
        return status;
    if (!nbytes) {
        if (!(status = ishmemx_free(block)))
            *block_p = NULL;
        return status;
    }
    if ((status = ishmemx_malloc(heap, nbytes, 0, 0, &moved)))
        return status;
    kept = nbytes < (size_t)old.nbytes ? nbytes : (size_t)old.nbytes;
    if ((status = pysh_copy(moved, block, kept)) || (status = ishmemx_free(block)))
        return status;
    *block_p = moved;
    return ISHMEMX_OK;
}

/* ---- addresses ---- */

/* In checking mode an access must stay inside one allocated block. */
static int check_block(int heap, int64_t offset, size_t nbytes, const char *what) {
    const pysh_block_t *block;
    int status = ISHMEMX_OK;

    if (offset < pysh.arena[heap].system || nbytes == 0)
        return ISHMEMX_OK;
    pthread_mutex_lock(&pysh_heaps.mutex);
    block = pysh_allocator_find(&pysh_heaps.allocator[heap], offset);
    if (!block)
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s lies in a part of the %s heap that is not allocated (freed?)",
                           what, heap_names[heap]);
    else if ((int64_t)nbytes > block->offset + block->nbytes - offset)
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: %zu bytes from byte %lld of a block of %lld bytes", what, nbytes,
                           (long long)(offset - block->offset), (long long)block->nbytes);
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return status;
}

int pysh_heap_find(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p) {
    int status = locate(address, nbytes, what, heap_p, offset_p);

    return status || !pysh.check ? status : check_block(*heap_p, *offset_p, nbytes, what);
}

int ishmemx_ptr(const void *address, int pe, void **peer_p) {
    int64_t offset;
    int heap, status;
    char *peer;

    PYSH_ENTER();
    if ((status = pysh_check_pe(pe, pysh.n_pes)) || (status = pysh_heap_find(address, 1, "ptr", &heap, &offset)))
        return status;
    peer = pysh.arena[heap].peer[pe];
    *peer_p = peer ? peer + offset : NULL;
    return ISHMEMX_OK;
}

int ishmemx_pe_accessible(int pe) {
    return pysh.ready && pe >= 0 && pe < pysh.n_pes;
}

int ishmemx_addr_accessible(const void *address, int pe) {
    if (!ishmemx_pe_accessible(pe))
        return 0;
    for (int heap = 0; heap < PYSH_ARENA_COUNT; heap++)
        if ((uintptr_t)address - (uintptr_t)pysh.arena[heap].base < (uintptr_t)pysh.arena[heap].nbytes)
            return 1;
    return 0;
}

int ishmemx_heap_range(int heap, void **base, int64_t *nbytes) {
    if (heap < 0 || heap >= ISHMEMX_HEAP_COUNT)
        return check_heap(heap);
    *base = pysh.arena[heap].base;
    *nbytes = pysh.arena[heap].nbytes;
    return ISHMEMX_OK;
}

int ishmemx_heap_stats(int heap, ishmemx_heap_stats_t *stats) {
    const pysh_allocator_t *allocator;
    int status;

    PYSH_ENTER();
    if ((status = check_heap(heap)))
        return status;
    allocator = &pysh_heaps.allocator[heap];
    pthread_mutex_lock(&pysh_heaps.mutex);
    *stats = (ishmemx_heap_stats_t){.nbytes = allocator->nbytes,
                                    .used = allocator->used,
                                    .free = allocator->nbytes - allocator->used,
                                    .largest_free = pysh_allocator_largest(allocator),
                                    .allocations = (int64_t)allocator->n_live,
                                    .released = pysh_release_count(heap)};
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return ISHMEMX_OK;
}
