/* SPDX-License-Identifier: BSD-3-Clause
 * A block: its barrier, its shared memory, and who of it waits where. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fiber/block.h"
#include "fiber/schedule.h"

/* ---- the barrier ---- */

/* All who wait go on; the counts are those of this meeting until the next one ends, which needs all of them again. */
static void release(block_t *block, worker_t *worker) {
    block->of_routine = 0;
    line_join(&worker->ready, &block->waiting);
    worker->yields = worker->idle = 0;
}

/* The running thread comes last to the program's barrier: others must not be in a routine's. */
static void refuse_others(const block_t *block) {
    if (!block->of_routine)
        return;
    pysh_worker->running->at = AT_BLOCK;
    pysh_block_refuse(block, -1);
    pysh_leave();
}

int64_t pysh_cpu_sync_count(int32_t predicate) {
    worker_t *worker = pysh_worker;
    fiber_t *self = worker->running;
    block_t *block = self->block;

    block->ones += predicate != 0;
    if (block->waiting.count + 1 == block->live) {
        refuse_others(block);
        int64_t counted = block->ones | (int64_t)block->live << 32;

        for (fiber_t *fiber = block->waiting.first; fiber; fiber = fiber->next)
            fiber->result = (uint64_t)counted;
        block->ones = 0;
        release(block, worker);
        return counted;
    }
    line_add(&block->waiting, self);
    pysh_wait_in(self, AT_BLOCK);
    return (int64_t)self->result;
}

void pysh_cpu_sync(void) {
    worker_t *worker = pysh_worker;
    fiber_t *self = worker->running;
    block_t *block = self->block;

    if (block->waiting.count + 1 == block->live) {
        refuse_others(block);
        block->ones = 0;
        release(block, worker);
        return;
    }
    line_add(&block->waiting, self);
    pysh_wait_in(self, AT_BLOCK);
}

void pysh_cpu_meet(void) {
    worker_t *worker = pysh_worker;
    fiber_t *self = worker->running;
    block_t *block = self->block;

    self->of_routine = true;
    if (block->live < block->n ||
        (block->waiting.count + 1 == block->live && block->of_routine < block->waiting.count)) {
        self->at = AT_BLOCK;
        pysh_block_refuse(block, -1);
        pysh_leave();
    }
    if (block->waiting.count + 1 == block->live) {
        block->ones = 0;
        release(block, worker);
    } else {
        block->of_routine++;
        line_add(&block->waiting, self);
        pysh_wait_in(self, AT_BLOCK);
    }
    self->of_routine = false;
}

/* A thread has ended: those that waited for it go on, unless a routine needs it. */
void pysh_block_check(block_t *block, worker_t *worker) {
    if (block->of_routine) {
        pysh_block_refuse(block, -1);
        return;
    }
    if (block->waiting.count && block->waiting.count == block->live) {
        int64_t counted = block->ones | (int64_t)block->live << 32;

        for (fiber_t *fiber = block->waiting.first; fiber; fiber = fiber->next)
            fiber->result = (uint64_t)counted;
        block->ones = 0;
        release(block, worker);
    }
}

/* ---- shared memory ---- */

int64_t pysh_cpu_shared(int64_t place, int64_t nbytes) {
    block_t *block = pysh_worker->running->block;
    shared_t *more;

    for (int i = 0; i < block->n_shared; i++)
        if (block->shared[i].place == place && block->shared[i].nbytes == nbytes)
            return (int64_t)(uintptr_t)block->shared[i].memory;
    more = realloc(block->shared, (size_t)(block->n_shared + 1) * sizeof *more);
    if (more) {
        block->shared = more;
        more += block->n_shared;
        *more = (shared_t){place, nbytes, NULL};
        if (!posix_memalign(&more->memory, 128, (size_t)nbytes + 1)) {
            block->n_shared++;
            return (int64_t)(uintptr_t)more->memory;
        }
    }
    snprintf(pysh_worker->grid->launch->text, sizeof pysh_worker->grid->launch->text,
             "no memory for %lld bytes of a block's shared memory", (long long)nbytes);
    pysh_grid_stop(pysh_worker->grid, ISHMEMX_CPU_FAILED);
    pysh_leave();
}

/* ---- its life ---- */

void pysh_block_free(block_t *block) {
    for (int i = 0; i < block->n_shared; i++)
        free(block->shared[i].memory);
    free(block->shared);
    free(block->dynamic);
    free(block->warps);
    free(block->fibers);
    free(block);
}

static block_t *block_make(const grid_t *grid) {
    size_t n = (size_t)grid->n_threads;
    block_t *block = calloc(1, sizeof *block);

    if (!block)
        return NULL;
    block->warps = calloc((n + PYSH_WARP - 1) / PYSH_WARP, sizeof *block->warps);
    block->fibers = calloc(n, sizeof *block->fibers);
    if (!block->warps || !block->fibers ||
        posix_memalign(&block->dynamic, 128, (size_t)grid->launch->shared_bytes + 1)) {
        pysh_block_free(block);
        return NULL;
    }
    return block;
}

/* False: no memory. Of the memory of a block that has ended the next one has what that left in it, as on a GPU. */
bool pysh_block_begin(worker_t *worker, int64_t rank) {
    const grid_t *grid = worker->grid;
    const int32_t *blocks = grid->launch->blocks;
    block_t *block = worker->spare;
    int n = (int)grid->n_threads;

    if (block)
        worker->spare = block->next;
    else if (!(block = block_make(grid)))
        return false;
    block->index[0] = (int32_t)(rank % blocks[0]);
    block->index[1] = (int32_t)(rank / blocks[0] % blocks[1]);
    block->index[2] = (int32_t)(rank / blocks[0] / blocks[1]);
    block->rank = (int32_t)rank;
    memset(block->at, 0, sizeof block->at);
    block->n = block->live = n;
    block->started = block->ones = block->of_routine = 0;
    block->came_to_grid = false;
    line_clear(&block->waiting);
    line_clear(&block->at_grid);
    for (int i = 0; i < n; i += PYSH_WARP) {
        block->warps[i / PYSH_WARP].live = n - i < PYSH_WARP ? (1u << (n - i)) - 1 : ~0u;
        block->warps[i / PYSH_WARP].waiting = block->warps[i / PYSH_WARP].of_routine = 0;
    }
    block->before = NULL;
    if ((block->next = worker->live))
        block->next->before = block;
    worker->live = worker->starting = block;
    worker->n_live++;
    return true;
}

void pysh_block_end(worker_t *worker, block_t *block) {
    if (block->before)
        block->before->next = block->next;
    else
        worker->live = block->next;
    if (block->next)
        block->next->before = block->before;
    worker->n_live--;
    block->next = worker->spare;
    worker->spare = block;
}

/* ---- for reports ---- */

static size_t say(char *text, size_t capacity, size_t at, const char *format, int a, int b) {
    int more = at < capacity ? snprintf(text + at, capacity - at, format, a, b) : 0;

    return at + (size_t)(more > 0 ? more : 0);
}

void pysh_block_tell(const block_t *block, char *text, size_t capacity) {
    static const char *const place[N_PLACES] = {
        [AT_WORK] = "", [AT_BLOCK] = "syncthreads", [AT_WARP] = "a warp's meeting", [AT_GRID] = "the grid's barrier"};
    size_t at = (size_t)snprintf(text, capacity, "block (%d, %d, %d):", (int)block->index[0], (int)block->index[1],
                                 (int)block->index[2]);

    for (int where = AT_BLOCK; where < N_PLACES; where++) {
        const char *before = " threads ";

        for (int i = 0; i < block->n; i++) {
            int first = i;
            while (i < block->n && block->fibers[i] && block->fibers[i]->at == where)
                i++;
            if (i == first)
                continue;
            at = say(text, capacity, at, before[0] == ',' ? ", %d" : " threads %d", first, 0);
            if (i - 1 > first)
                at = say(text, capacity, at, "-%d", i - 1, 0);
            before = ", ";
        }
        if (before[0] == ',' && at < capacity)
            at += (size_t)snprintf(text + at, capacity - at, " at %s;", place[where]);
    }
    if (block->live < block->n)
        at = say(text, capacity, at, " %d of its %d have ended;", block->n - block->live, block->n);
    if (at && at < capacity)
        text[at - 1] = 0; /* the last semicolon */
}

/* Ranks of the threads from `first` on that wait for their block or warp, in a routine or not: " 0-3, 7". */
static size_t tell_ranks(const block_t *block, int first, int n, bool of_routine, char *text, size_t capacity,
                         size_t at) {
    bool any = false;

    for (int i = first; i < n; i++) {
        int begin = i;

        while (i < n && block->fibers[i] && (block->fibers[i]->at == AT_BLOCK || block->fibers[i]->at == AT_WARP) &&
               block->fibers[i]->of_routine == of_routine)
            i++;
        if (i == begin)
            continue;
        at = say(text, capacity, at, any ? ", %d" : " %d", begin, 0);
        if (i - 1 > begin)
            at = say(text, capacity, at, "-%d", i - 1, 0);
        any = true;
    }
    return at;
}

void pysh_block_refuse(const block_t *block, int warp) {
    grid_t *grid = pysh_worker->grid;
    ishmemx_cpu_launch_t *launch = grid->launch;
    int first = warp < 0 ? 0 : warp * PYSH_WARP;
    int n = warp < 0 || first + PYSH_WARP > block->n ? block->n : first + PYSH_WARP;
    uint32_t all = n - first < PYSH_WARP ? (1u << (n - first)) - 1 : ~0u;
    bool ended = warp < 0 ? block->live < block->n : block->warps[warp].live != all;
    char *text = launch->text;
    size_t capacity = sizeof launch->text, at = 0;

    pthread_mutex_lock(&grid->mutex);
    if (!atomic_load(&grid->stop)) { /* the first one is told */
        memcpy(launch->block, block->index, sizeof launch->block);
        if (ended)
            at = say(text, capacity, at, " is for all %d threads of ", n - first, 0);
        else
            at = say(text, capacity, at, "threads of ", 0, 0);
        if (warp >= 0)
            at = say(text, capacity, at, "warp %d of ", warp, 0);
        at = say(text, capacity, at, "block %d", block->rank, 0);
        if (ended) {
            at = say(text, capacity, at, " together, but threads have ended without it; in it:", 0, 0);
            tell_ranks(block, first, n, true, text, capacity, at);
        } else {
            at = say(text, capacity, at, " meet in different calls, each of which is for all of them together: threads",
                     0, 0);
            at = tell_ranks(block, first, n, false, text, capacity, at);
            at = say(text, capacity, at, " in a barrier; the others, threads", 0, 0);
            at = tell_ranks(block, first, n, true, text, capacity, at);
            say(text, capacity, at, ", in ", 0, 0);
        }
        pysh_grid_stop(grid, ISHMEMX_CPU_NOT_ALL);
    }
    pthread_mutex_unlock(&grid->mutex);
}
