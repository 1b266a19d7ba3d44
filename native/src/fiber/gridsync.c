/* SPDX-License-Identifier: BSD-3-Clause
 * The grid's barrier, between workers: a block counts when all its live threads have come, or have ended. */
#include <stdio.h>

#include "fiber/gridsync.h"
#include "fiber/schedule.h"

/* With the grid's mutex held. */
static void release_if_complete(grid_t *grid) {
    if (grid->arrived && grid->arrived + grid->done == grid->n_blocks) {
        grid->arrived = 0;
        /* release: pairs with the acquire in pysh_grid_release(), so that all see what was stored before the barrier */
        atomic_fetch_add_explicit(&grid->turn, 1, memory_order_release);
    }
}

/* A thread of the block has come, or has ended; NULL: a whole block has. */
void pysh_grid_check(block_t *block, worker_t *worker) {
    grid_t *grid = worker->grid;

    if (block && (block->at_grid.count != block->live || block->started != block->n))
        return;
    pthread_mutex_lock(&grid->mutex);
    if (!block) {
        grid->done++;
    } else {
        block->came_to_grid = true;
        block->grid_turn = atomic_load_explicit(&grid->turn, memory_order_relaxed);
        grid->arrived++;
    }
    release_if_complete(grid);
    pthread_mutex_unlock(&grid->mutex);
}

bool pysh_grid_release(worker_t *worker) {
    int64_t turn = atomic_load_explicit(&worker->grid->turn, memory_order_acquire);
    bool some = false;

    for (block_t *block = worker->live; block; block = block->next)
        if (block->came_to_grid && block->grid_turn != turn) {
            block->came_to_grid = false;
            line_join(&worker->ready, &block->at_grid);
            worker->yields = worker->idle = 0;
            some = true;
        }
    return some;
}

void pysh_cpu_grid_sync(void) {
    worker_t *worker = pysh_worker;
    fiber_t *self = worker->running;
    grid_t *grid = worker->grid;

    if (grid->n_blocks * grid->n_threads > ishmemx_cpu_most_threads()) {
        snprintf(grid->launch->text, sizeof grid->launch->text,
                 "a grid of %lld threads has no barrier: %lld may live at once",
                 (long long)(grid->n_blocks * grid->n_threads), (long long)ishmemx_cpu_most_threads());
        pysh_grid_stop(grid, ISHMEMX_CPU_FAILED);
        pysh_leave();
    }
    line_add(&self->block->at_grid, self);
    self->at = AT_GRID;
    pysh_grid_check(self->block, worker);
    pysh_wait_in(self, AT_GRID);
}
