/* SPDX-License-Identifier: BSD-3-Clause
 * A block: its barrier, and its shared memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fiber/block.h"
#include "fiber/calls.h"
#include "fiber/schedule.h"

/* ---- the barrier ---- */

/* All who wait go on; the counts are those of this meeting until the next one ends, which needs all of them again. */
static void release(block_t *block, worker_t *worker) {
    block->call = NULL;
    block->is_mixed = false;
    line_join(&worker->ready, &block->waiting);
    worker->yields = worker->idle = 0;
}

static void refuse(block_t *block, fiber_t *self) {
    line_add(&block->waiting, self);
    pysh_refuse(block, -1);
    pysh_leave();
}

/* A thread comes to the program's barrier. Is it the last one? Others must not be in a routine's. */
static bool comes_last(block_t *block, fiber_t *self) {
    if (block->call)
        block->is_mixed = true;
    if (block->waiting.count + 1 < block->live)
        return false;
    if (block->is_mixed)
        refuse(block, self);
    return true;
}

int64_t pysh_cpu_sync_count(int32_t predicate) {
    worker_t *worker = pysh_worker;
    fiber_t *self = worker->running;
    block_t *block = self->block;

    block->ones += predicate != 0;
    if (comes_last(block, self)) {
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

    if (comes_last(block, self)) {
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
    const fiber_t *first = block->waiting.first;

    self->call = pysh_call_of(self);
    if (!first)
        block->call = self->call;
    else if (!pysh_is_same_call(block->call, self->call))
        block->is_mixed = true;
    else if (pysh_gives_other(first, self)) {
        pysh_refuse_given(block, -1, first, self);
        pysh_leave();
    }
    if (block->live < block->n || (block->waiting.count + 1 == block->live && block->is_mixed))
        refuse(block, self);
    if (block->waiting.count + 1 == block->live) {
        block->ones = 0;
        release(block, worker);
    } else {
        line_add(&block->waiting, self);
        pysh_wait_in(self, AT_BLOCK);
    }
    self->call = NULL;
}

/* A thread has ended: those that waited for it go on, unless a routine needs it. */
void pysh_block_check(block_t *block, worker_t *worker) {
    if (block->call || block->is_mixed) {
        pysh_refuse(block, -1);
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
    block->started = block->ones = 0;
    block->call = NULL;
    block->is_mixed = false;
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
