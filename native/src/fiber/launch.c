/* SPDX-License-Identifier: BSD-3-Clause
 * A launch: the caller's thread is the first worker, and the others live as long as the launch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "fiber/block.h"
#include "fiber/faults.h"
#include "fiber/gridsync.h"
#include "fiber/launch.h"
#include "fiber/rounding.h"
#include "fiber/schedule.h"
#include "fiber/warp.h"

#define MOST_WORKERS 256

static void *launch_work(void *argument) {
    worker_t *worker = argument;

    pysh_thread_faults_begin(worker);
    pysh_worker_run(worker);
    pysh_thread_faults_end(worker);
    return NULL;
}

static int workers_of(const grid_t *grid) {
    int64_t n = grid->launch->workers < MOST_WORKERS ? grid->launch->workers : MOST_WORKERS;

    n = n < grid->n_blocks ? n : grid->n_blocks;
    return n < 1 ? 1 : (int)n;
}

/* As many blocks as there may be threads, and of a grid that fits all: whoever waits for another block then lives
 * beside it. */
static int most_live(const grid_t *grid, int n_workers) {
    int64_t blocks = ishmemx_cpu_most_threads() / grid->n_threads;

    if (grid->n_blocks <= blocks)
        return (int)grid->n_blocks;
    return blocks < n_workers ? 1 : (int)(blocks / n_workers);
}

int32_t pysh_cpu_run(int64_t launch_address, pysh_kernel_t kernel, void *arguments) {
    ishmemx_cpu_launch_t *launch = (ishmemx_cpu_launch_t *)(uintptr_t)launch_address;
    grid_t grid = {.launch = launch, .kernel = kernel, .arguments = arguments, .mutex = PTHREAD_MUTEX_INITIALIZER};
    worker_t first = {0}, *worker = &first;
    int n, started = 1;

    grid.n_blocks = (int64_t)launch->blocks[0] * launch->blocks[1] * launch->blocks[2];
    grid.n_threads = (int64_t)launch->threads[0] * launch->threads[1] * launch->threads[2];
    n = workers_of(&grid);
    if (n > 1 && !(worker = calloc((size_t)n, sizeof *worker))) {
        worker = &first;
        n = 1;
    }
    grid.most_live = most_live(&grid, n);
    for (int i = 0; i < n; i++) {
        worker[i].grid = &grid;
        line_clear(&worker[i].ready);
    }
    worker[0].thread = pthread_self();
    pysh_faults_begin(worker, launch->interruptible);
    while (started < n && !pysh_thread_create(&worker[started].thread, "pysh-kernel", launch_work, &worker[started]))
        started++; /* with fewer it takes longer */
    pysh_worker_run(worker);
    for (int i = 1; i < started; i++)
        pthread_join(worker[i].thread, NULL);
    pysh_faults_end(worker, launch->interruptible);
    launch->end = atomic_load(&grid.stop);
    if (worker != &first)
        free(worker);
    pthread_mutex_destroy(&grid.mutex);
    return launch->code;
}

ishmemx_cpu_thread_t *pysh_cpu_self(void) {
    return &pysh_worker->running->seen;
}

void pysh_cpu_out_of_bounds(const char *what, int64_t index, int64_t axis, int64_t size) {
    const ishmemx_cpu_thread_t *seen = pysh_cpu_self();
    grid_t *grid = pysh_worker->grid;
    ishmemx_cpu_launch_t *launch = grid->launch;

    pthread_mutex_lock(&grid->mutex);
    if (!atomic_load(&grid->stop)) { /* the first one is told */
        snprintf(launch->text, sizeof launch->text, "index %lld is out of bounds for axis %lld with size %lld of %s",
                 (long long)index, (long long)axis, (long long)size, what);
        memcpy(launch->block, seen->block, sizeof launch->block);
        memcpy(launch->thread, seen->thread, sizeof launch->thread);
        pysh_grid_stop(grid, ISHMEMX_CPU_OUT_OF_BOUNDS);
    }
    pthread_mutex_unlock(&grid->mutex);
    pysh_leave();
}

void pysh_cpu_print(const ishmemx_cpu_word_t *words, int64_t count) {
    grid_t *grid = pysh_worker->grid;
    ishmemx_cpu_launch_t *launch = grid->launch;

    pthread_mutex_lock(&grid->mutex);
    if (launch->n_printed + count > grid->printed_room) {
        int64_t room = 2 * (launch->n_printed + count);
        ishmemx_cpu_word_t *more = realloc(launch->printed, (size_t)room * sizeof *more);
        if (more) {
            launch->printed = more;
            grid->printed_room = room;
        }
    }
    if (launch->n_printed + count <= grid->printed_room) {
        memcpy(launch->printed + launch->n_printed, words, (size_t)count * sizeof *words);
        launch->n_printed += count;
    }
    pthread_mutex_unlock(&grid->mutex);
}

void ishmemx_cpu_forget(ishmemx_cpu_launch_t *launch) {
    free(launch->printed);
    launch->printed = NULL;
    launch->n_printed = 0;
}

int64_t ishmemx_cpu_symbol(const char *name) {
#define ROW(_name)                    \
    {                                 \
        #_name, (void (*)(void))_name \
    }
    static const struct {
        const char *name;
        void (*function)(void);
    } rows[] = {
        ROW(pysh_cpu_run),          ROW(pysh_cpu_self),           ROW(pysh_cpu_sync),      ROW(pysh_cpu_sync_count),
        ROW(pysh_cpu_warp),         ROW(pysh_cpu_live_lanes),     ROW(pysh_cpu_grid_sync), ROW(pysh_cpu_yield),
        ROW(pysh_cpu_went_on),      ROW(pysh_cpu_shared),         ROW(pysh_cpu_no_state),  ROW(pysh_cpu_print),
        ROW(ishmemx_leaf_atomic),   ROW(ishmemx_leaf_time_awake), ROW(ishmemx_leaf_now),   ROW(pysh_cpu_out_of_bounds),
        ROW(pysh_cpu_rounded),      ROW(pysh_cpu_rounded_f),      ROW(pysh_cpu_narrowed),  ROW(pysh_cpu_of_integer),
        ROW(pysh_cpu_of_integer_f), ROW(pysh_cpu_meet),           ROW(pysh_cpu_warp_meet),
    };
#undef ROW

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            return (int64_t)(uintptr_t)rows[i].function;
    return 0;
}
