/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels compiled for the CPU: each thread of a block is a fiber, and fibers change where threads meet or wait.
 *
 * A block stays on one thread of the process (its worker), so nothing within a block is shared between threads of the
 * process, and these functions need no atomics for it. What blocks of several workers share is in grid_t. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"

#define PYSH_WARP 32

/* What a compiled kernel is: 0, or a code and the exception that the compiler knows by it. */
typedef int32_t (*pysh_kernel_t)(void *arguments, void **exception);

typedef struct block block_t;
typedef struct worker worker_t;

enum { AT_WORK, AT_BLOCK, AT_WARP, AT_GRID, N_PLACES };

typedef struct fiber {
    ishmemx_cpu_thread_t seen;
    void *sp; /* while it does not run */
    struct fiber *next;
    worker_t *worker;
    block_t *block;
    uint64_t result;  /* of the meeting it waited in */
    int at;           /* where it waits */
    const char *call; /* the routine in whose meeting it is, which is for its whole group; NULL: in none */
    char *low;        /* the lowest byte of its stack, above a page that nobody may touch */
    size_t nbytes;
} fiber_t;

typedef struct {
    fiber_t *first, **last;
    int count;
} line_t;

typedef struct {
    uint32_t live, waiting; /* lanes; those that have not started live too */
    uint32_t of_routine;    /* of those that wait: in a meeting that is for the whole warp */
    uint32_t mask[PYSH_WARP];
    int32_t op[PYSH_WARP], operand[PYSH_WARP];
    uint64_t value[PYSH_WARP];
    fiber_t *lane[PYSH_WARP];
} warp_t;

typedef struct {
    int64_t place, nbytes;
    void *memory;
} shared_t;

struct block {
    struct block *next, *before; /* of the worker's live ones */
    int32_t index[3], rank;
    int32_t at[3];        /* the next thread to start */
    int n, started, live; /* threads; those that have not started live too */
    int ones;             /* predicates that held, of the meeting that goes on */
    const char *call;     /* of who waits first, as a fiber's */
    bool is_mixed;        /* others that wait are in other calls */
    line_t waiting, at_grid;
    int64_t grid_turn; /* the grid's, when this block's threads had all come to its barrier */
    bool came_to_grid;
    warp_t *warps;
    fiber_t **fibers; /* by rank; NULL: it has ended, or not started */
    shared_t *shared;
    int n_shared;
    void *dynamic;
};

typedef struct {
    ishmemx_cpu_launch_t *launch;
    pysh_kernel_t kernel;
    void *arguments;
    int64_t n_blocks, n_threads; /* of the grid; of a block */
    int most_live;               /* blocks of a worker */
    _Atomic int64_t next_block;
    _Atomic int stop;      /* an enum ishmemx_cpu_end */
    pthread_mutex_t mutex; /* for what follows, and what is told in the launch */
    _Atomic int64_t turn;  /* of the grid's barrier: release, pairs with the acquire of who waits */
    int64_t arrived, done; /* blocks */
    int64_t printed_room;
} grid_t;

/* What a signal's handler has seen of the thread that a worker runs. */
typedef struct {
    uint64_t state; /* a digest of its registers and stack */
    uint64_t turns; /* the worker's */
    bool in_kernel; /* else in a library's function */
    int32_t block[3], thread[3];
} look_t;

struct worker {
    grid_t *grid;
    pthread_t thread;
    void *sp; /* of the scheduler, while a fiber runs */
    fiber_t *running, *free;
    line_t ready;
    block_t *starting; /* has threads that have not started */
    block_t *live, *spare;
    int n_live;
    int yields;          /* one after the other, with nothing else in between */
    int idle;            /* turns in which all yielded */
    void *handler_stack; /* of signals' handlers; NULL: the thread has one anyway */
    sigset_t mask;       /* of the thread, before it became a worker */
    uint64_t turns;      /* of threads that began or waited, so far */
    _Atomic int asked;   /* another thread wants to see what it does; who takes it down to 0 may write `look` */
    _Atomic int answers; /* release, behind `look`: pairs with the acquire of who asked */
    look_t look;
    struct watched *watched; /* what looks have seen so far; of who looks; freed with the launch */
};

static inline void line_clear(line_t *line) {
    *line = (line_t){.last = &line->first};
}

static inline void line_add(line_t *line, fiber_t *fiber) {
    fiber->next = NULL;
    *line->last = fiber;
    line->last = &fiber->next;
    line->count++;
}

static inline fiber_t *line_take(line_t *line) {
    fiber_t *fiber = line->first;

    if (fiber) {
        line->count--;
        if (!(line->first = fiber->next))
            line->last = &line->first;
    }
    return fiber;
}

/* All of `from` goes to the end of `to`. */
static inline void line_join(line_t *to, line_t *from) {
    if (from->first) {
        *to->last = from->first;
        to->last = from->last;
        to->count += from->count;
    }
    line_clear(from);
}
