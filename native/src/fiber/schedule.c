/* SPDX-License-Identifier: BSD-3-Clause
 * Which fiber of a worker runs next. A fiber that waits goes straight to the next one; to the scheduler only when there
 * is none, or when all of them did nothing but look in vain.
 *
 * Threads that never wait follow each other on one stack, which costs a call each. A stack more is taken when a thread
 * waits and another has to start. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fiber/block.h"
#include "fiber/calls.h"
#include "fiber/gridsync.h"
#include "fiber/schedule.h"
#include "fiber/stacks.h"
#include "fiber/switch.h"
#include "fiber/warp.h"

#define YIELDS_OF_CORE 16 /* idle turns before the worker sleeps instead */
#define NAP_NS         20000
#define LONGEST_NAP_NS 500000

_Thread_local worker_t *pysh_worker;

void pysh_grid_stop(grid_t *grid, int end) {
    int expected = 0;

    atomic_compare_exchange_strong(&grid->stop, &expected, end);
}

/* ---- a thread's life ---- */

static void schedule_begin(fiber_t *self, worker_t *worker, block_t *block) {
    const ishmemx_cpu_launch_t *launch = worker->grid->launch;
    ishmemx_cpu_thread_t *seen = &self->seen;

    worker->turns++;
    if (self->block != block) {
        memcpy(seen->block, block->index, sizeof seen->block);
        memcpy(seen->threads, launch->threads, sizeof seen->threads);
        memcpy(seen->blocks, launch->blocks, sizeof seen->blocks);
        seen->block_rank = block->rank;
        seen->n_threads = block->n;
        seen->n_blocks = (int32_t)worker->grid->n_blocks;
        seen->module = launch->module;
        seen->dynamic = (int64_t)(uintptr_t)block->dynamic;
        seen->dynamic_bytes = launch->shared_bytes;
        self->block = block;
    }
    memcpy(seen->thread, block->at, sizeof seen->thread);
    seen->rank = block->started;
    seen->call = 0;
    block->fibers[block->started] = self;
    if (++block->at[0] == launch->threads[0]) {
        block->at[0] = 0;
        if (++block->at[1] == launch->threads[1]) {
            block->at[1] = 0;
            block->at[2]++;
        }
    }
    if (++block->started == block->n)
        worker->starting = NULL;
}

static void schedule_end(fiber_t *self, worker_t *worker, block_t *block) {
    warp_t *warp = &block->warps[self->seen.rank / PYSH_WARP];

    block->fibers[self->seen.rank] = NULL;
    warp->live &= ~(1u << self->seen.rank % PYSH_WARP);
    worker->yields = worker->idle = 0;
    if (--block->live == 0) {
        self->block = NULL;
        pysh_block_end(worker, block);
        pysh_grid_check(NULL, worker);
        return;
    }
    if (warp->waiting)
        pysh_warp_check(block, self->seen.rank / PYSH_WARP, worker);
    if (block->waiting.count)
        pysh_block_check(block, worker);
    if (block->at_grid.count)
        pysh_grid_check(block, worker);
}

static void failed(const fiber_t *self, grid_t *grid, int32_t code, void *exception) {
    ishmemx_cpu_launch_t *launch = grid->launch;

    pthread_mutex_lock(&grid->mutex);
    if (!launch->code) { /* the first one is told */
        launch->code = code;
        launch->exception = (int64_t)(uintptr_t)exception;
        memcpy(launch->block, self->seen.block, sizeof launch->block);
        memcpy(launch->thread, self->seen.thread, sizeof launch->thread);
    }
    pthread_mutex_unlock(&grid->mutex);
    pysh_grid_stop(grid, ISHMEMX_CPU_RAISED);
}

static void go_to_next(fiber_t *self, worker_t *worker);

/* What a fresh stack begins with. It never returns: a stack without a thread is given back, and begins again here. */
static void live(void) {
    worker_t *worker = pysh_worker;
    fiber_t *self = worker->running;
    grid_t *grid = worker->grid;
    block_t *block;

    while ((block = worker->starting) && !atomic_load_explicit(&grid->stop, memory_order_relaxed)) {
        void *exception = NULL;
        int32_t code;

        schedule_begin(self, worker, block);
        code = grid->kernel(grid->arguments, &exception);
        if (code)
            failed(self, grid, code, exception);
        schedule_end(self, worker, block);
    }
    self->next = worker->free;
    worker->free = self;
    go_to_next(self, worker);
    __builtin_unreachable();
}

/* ---- who is next ---- */

static fiber_t *fresh(worker_t *worker) {
    fiber_t *fiber = pysh_fiber_take(worker);

    if (!fiber) {
        snprintf(worker->grid->launch->text, sizeof worker->grid->launch->text,
                 "no memory for the stacks of a kernel's threads");
        pysh_grid_stop(worker->grid, ISHMEMX_CPU_FAILED);
        return NULL;
    }
    fiber->worker = worker;
    fiber->block = NULL;
    fiber->at = AT_WORK;
    fiber->call = NULL;
    fiber->sp = pysh_fresh_sp((char *)fiber, live);
    return fiber;
}

/* NULL: the scheduler. */
static fiber_t *next(worker_t *worker) {
    if (atomic_load_explicit(&worker->grid->stop, memory_order_relaxed))
        return NULL;
    return worker->starting ? fresh(worker) : line_take(&worker->ready);
}

static void go_to_next(fiber_t *self, worker_t *worker) {
    fiber_t *other = next(worker);

    worker->running = other;
    pysh_switch(&self->sp, other ? other->sp : worker->sp);
}

void pysh_wait_in(fiber_t *self, int at) {
    self->at = at;
    go_to_next(self, self->worker);
    self->at = AT_WORK;
}

void pysh_leave(void) {
    worker_t *worker = pysh_worker;
    fiber_t *self = worker->running;

    worker->running = NULL;
    pysh_switch(&self->sp, worker->sp);
    __builtin_unreachable();
}

void pysh_cpu_yield(void) {
    worker_t *worker = pysh_worker;
    fiber_t *self = worker->running;

    worker->turns++;
    line_add(&worker->ready, self);
    if (++worker->yields >= worker->ready.count && !worker->starting) {
        worker->running = NULL;
        pysh_switch(&self->sp, worker->sp);
    } else {
        go_to_next(self, worker);
    }
}

void pysh_cpu_went_on(void) {
    pysh_worker->yields = pysh_worker->idle = 0;
}

void pysh_cpu_no_state(void) {
    pysh_grid_stop(pysh_worker->grid, ISHMEMX_CPU_NO_STATE);
    pysh_leave();
}

/* ---- the scheduler ---- */

/* Takes the next block of the grid; false: there is none, or as many live as may. */
static bool start_block(worker_t *worker) {
    grid_t *grid = worker->grid;
    int64_t rank;

    if (worker->n_live >= grid->most_live ||
        atomic_load_explicit(&grid->next_block, memory_order_relaxed) >= grid->n_blocks)
        return false;
    rank = atomic_fetch_add_explicit(&grid->next_block, 1, memory_order_relaxed);
    if (rank >= grid->n_blocks)
        return false;
    if (!pysh_block_begin(worker, rank)) {
        snprintf(grid->launch->text, sizeof grid->launch->text, "no memory for a block of a kernel");
        pysh_grid_stop(grid, ISHMEMX_CPU_FAILED);
    }
    worker->yields = worker->idle = 0;
    return true;
}

/* All look in vain: the core is for others, other PEs' kernels and proxies among them. */
static void nap(worker_t *worker) {
    struct timespec time = {.tv_nsec = NAP_NS};
    int more = ++worker->idle - YIELDS_OF_CORE;

    ishmemx_leaf_time_awake(); /* the clock of waits leaves out what passes without a look at it */
    if (more <= 0) {
        sched_yield();
        return;
    }
    for (; more > 8 && time.tv_nsec < LONGEST_NAP_NS; more -= 8)
        time.tv_nsec *= 2;
    nanosleep(&time, NULL);
}

/* Nothing is ready. A block whose threads are not all at the grid's barrier waits for itself. */
static bool stuck(worker_t *worker) {
    for (const block_t *block = worker->live; block; block = block->next)
        if (!block->came_to_grid) {
            grid_t *grid = worker->grid;
            pthread_mutex_lock(&grid->mutex);
            if (!atomic_load(&grid->stop)) {
                pysh_block_tell(block, grid->launch->text, sizeof grid->launch->text);
                pysh_grid_stop(grid, ISHMEMX_CPU_FAILED);
            }
            pthread_mutex_unlock(&grid->mutex);
            return true;
        }
    return false;
}

/* Nothing is ready: whether there is more to do. */
static bool find_work(worker_t *worker) {
    if (pysh_grid_release(worker) || start_block(worker))
        return true;
    if (!worker->live || stuck(worker))
        return false;
    nap(worker);
    return true;
}

static void schedule_drop(worker_t *worker) {
    while (worker->live) {
        block_t *block = worker->live;
        for (int i = 0; i < block->n; i++)
            if (block->fibers[i]) {
                block->fibers[i]->next = worker->free;
                worker->free = block->fibers[i];
            }
        worker->live = block->next;
        pysh_block_free(block);
    }
    while (worker->spare) {
        block_t *block = worker->spare;
        worker->spare = block->next;
        pysh_block_free(block);
    }
    pysh_fibers_return(worker);
}

void pysh_worker_run(worker_t *worker) {
    pysh_worker = worker;
    while (!atomic_load_explicit(&worker->grid->stop, memory_order_relaxed)) {
        if (!worker->starting && !worker->ready.first) {
            if (!find_work(worker))
                break;
        } else if (!worker->starting && worker->yields >= worker->ready.count) {
            if (!pysh_grid_release(worker) && !start_block(worker))
                nap(worker);
            worker->yields = 0;
        }
        if ((worker->running = next(worker)))
            pysh_switch(&worker->sp, worker->running->sp);
    }
    pysh_worker = NULL;
    schedule_drop(worker);
}
