/* SPDX-License-Identifier: BSD-3-Clause
 * See pools.h. Taking and giving are an allocator's callbacks: they come from any thread, with locks of that library
 * held, so they are local and wait for nobody. The book is as deterministic as the heap's, so PEs that take the same
 * sizes in the same order have the same segments; whether they have is compared later, by the caller. */
#include "memory/pools.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/state.h"
#include "base/status.h"
#include "ishmemx.h"
#include "memory/allocator.h"
#include "node/enter.h"

#define SEGMENT_ALIGN 512 /* of what libraries of GPUs expect of memory */

typedef struct pool {
    struct pool *next;
    int number, gpu; /* gpu -1: any */
    bool ended;      /* its job has: what is left is that its segments come back */
    char *base;
    size_t nbytes;
    pysh_allocator_t book;
    uint64_t taken, agreed; /* the ordinals of the last segment, and of the last that the PEs have compared */
} pool_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all that follows; never held while waiting */
static pool_t *first;
static int last_number;

/* The pool that ishmemx_pool_take() takes from in this thread; 0: none. */
static _Thread_local int in_use;

_Atomic int pysh_n_pools;

static pool_t *pool_of(int number) {
    pool_t *pool = first;

    while (pool && pool->number != number)
        pool = pool->next;
    return pool;
}

static pool_t *pool_at(const void *address) {
    pool_t *pool = first;

    while (pool && (uintptr_t)address - (uintptr_t)pool->base >= pool->nbytes)
        pool = pool->next;
    return pool;
}

static void discard(pool_t *pool) {
    pool_t **link = &first;

    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    atomic_fetch_sub_explicit(&pysh_n_pools, 1, memory_order_relaxed); /* ordered by the mutex */
    pysh_allocator_destroy(&pool->book);
    free(pool);
}

static int no_pool(int number) {
    return pysh_fail(ISHMEMX_ERR_ARGUMENT, "there is no pool %d in this job", number);
}

int ishmemx_pool_open(void *base, size_t nbytes, int gpu, int *pool_p) {
    pool_t *pool;

    PYSH_ENTER();
    pool = calloc(1, sizeof *pool);
    nbytes -= nbytes % PYSH_ALLOCATOR_GRAIN;
    if (!pool || !pysh_allocator_init(&pool->book, 0, (int64_t)nbytes)) {
        free(pool);
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for the book of a pool");
    }
    pool->base = base;
    pool->nbytes = nbytes;
    pool->gpu = gpu;
    pool->book.address = (int64_t)(uintptr_t)base;
    pthread_mutex_lock(&mutex);
    *pool_p = pool->number = ++last_number;
    pool->next = first;
    first = pool;
    atomic_fetch_add_explicit(&pysh_n_pools, 1, memory_order_relaxed);
    pthread_mutex_unlock(&mutex);
    return ISHMEMX_OK;
}

int ishmemx_pool_close(int number) {
    int status = ISHMEMX_OK;
    pool_t *pool;

    pthread_mutex_lock(&mutex);
    pool = pool_of(number);
    if (!pool)
        status = no_pool(number);
    else if (pool->book.n_live)
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "the pool still has %zu segments", pool->book.n_live);
    else
        discard(pool);
    pthread_mutex_unlock(&mutex);
    return status;
}

int ishmemx_pool_use(int number) {
    int before = in_use;

    in_use = number;
    return before;
}

/* NULL: the pool is full, or there is none. */
void *ishmemx_pool_take(size_t nbytes, int gpu, void *stream) {
    char *at = NULL;
    pool_t *pool;

    (void)stream; /* a segment is new: nothing of a stream uses it */
    pthread_mutex_lock(&mutex);
    pool = in_use ? pool_of(in_use) : NULL;
    if (pool && !pool->ended && nbytes && (pool->gpu < 0 || pool->gpu == gpu)) {
        int64_t offset = pysh_allocator_take(&pool->book, (int64_t)nbytes, SEGMENT_ALIGN, pool->taken + 1);
        if (offset >= 0) {
            pool->taken++;
            at = pool->base + offset;
        }
    }
    pthread_mutex_unlock(&mutex);
    return at;
}

void ishmemx_pool_give(void *address, size_t nbytes, int gpu, void *stream) {
    pool_t *pool;

    (void)nbytes, (void)gpu, (void)stream;
    pthread_mutex_lock(&mutex);
    if ((pool = pool_at(address))) {
        pysh_allocator_give(&pool->book, (char *)address - pool->base);
        if (pool->ended && !pool->book.n_live)
            discard(pool);
    }
    pthread_mutex_unlock(&mutex);
}

int ishmemx_pool_segments(int number, int64_t *offsets, int64_t *sizes, int64_t most, uint64_t *taken_p) {
    int n = -1;
    pool_t *pool;

    pthread_mutex_lock(&mutex);
    if ((pool = pool_of(number))) {
        n = (int)pool->book.n_live;
        *taken_p = pool->taken;
        for (int i = 0; i < n && i < most; i++) {
            offsets[i] = pool->book.live[i].offset;
            sizes[i] = pool->book.live[i].nbytes;
        }
    }
    pthread_mutex_unlock(&mutex);
    return n;
}

int ishmemx_pool_agreed(int number, uint64_t taken) {
    int status = ISHMEMX_OK;
    pool_t *pool;

    PYSH_ENTER();
    pthread_mutex_lock(&mutex);
    if ((pool = pool_of(number)) && !pool->ended)
        pool->agreed = taken;
    else
        status = no_pool(number);
    pthread_mutex_unlock(&mutex);
    return status;
}

bool pysh_pool_has_pending(const void *address, size_t nbytes) {
    const pysh_block_t *segment;
    bool pending = false;
    pool_t *pool;

    pthread_mutex_lock(&mutex);
    if ((pool = pool_at(address))) {
        int64_t offset = (const char *)address - pool->base;
        segment = pysh_allocator_find(&pool->book, offset);
        pending =
            !segment || segment->ordinal > pool->agreed || (int64_t)nbytes > segment->offset + segment->nbytes - offset;
    }
    pthread_mutex_unlock(&mutex);
    return pending;
}

int ishmemx_pool_pending(const void *address, size_t nbytes) {
    return pysh_pool_pending(address, nbytes);
}

void pysh_pools_close_all(void) {
    pool_t *pool, *next;

    pthread_mutex_lock(&mutex);
    for (pool = first; pool; pool = next) {
        next = pool->next;
        pool->ended = true;
        if (!pool->book.n_live)
            discard(pool);
    }
    pthread_mutex_unlock(&mutex);
}
