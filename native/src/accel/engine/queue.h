/* SPDX-License-Identifier: BSD-3-Clause
 * What a PE and the process of its copy engine share: one segment, a ring of jobs in it. The PE's proxies write jobs,
 * the engine takes them in order and ends them in any. Places are a PE and an offset in its device heap, for the two
 * processes map the heaps at different addresses. Behind the queue there are pieces of host memory, for what comes
 * from host heaps and other hosts, or goes there. */
#pragma once

#include <stdatomic.h>

#include "accel/accel.h"
#include "accel/engine/engine.h"

#define PYSH_ENGINE_JOBS        256
#define PYSH_ENGINE_COMPLETIONS 2
#define PYSH_ENGINE_TEXT_BYTES  512
#define PYSH_ENGINE_PLACE_PE    48 /* a place is the PE from this bit on, and the offset below */
#define PYSH_ENGINE_PIECES      32 /* as many as bits in `taken` of engine.c */
#define PYSH_ENGINE_PIECES_AT   ((sizeof(pysh_engine_queue_t) + 4095) & ~(size_t)4095)           /* in the segment */
#define PYSH_ENGINE_SEGMENT     (PYSH_ENGINE_PIECES_AT + PYSH_ENGINE_PIECES * PYSH_ENGINE_PIECE) /* its bytes */
#define PYSH_ENGINE_IN_PIECES   ISHMEMX_MAX_NEAR_PES /* stands for the PE in the place of a piece */

/* Descriptors of the engine's process. */
enum { PYSH_ENGINE_FD_SOCKET = 3, PYSH_ENGINE_FD_QUEUE, PYSH_ENGINE_FD_ARENAS, PYSH_ENGINE_FDS };

enum pysh_engine_state { PYSH_ENGINE_STARTS, PYSH_ENGINE_SERVES, PYSH_ENGINE_FAILED };

/* Job n is in slot n % PYSH_ENGINE_JOBS, which is the PE's again when `done` is n + 1: release by the engine, after
 * the copy and its completions, pairs with the acquire of whoever reuses the slot or waits for the copy. */
typedef struct pysh_engine_job {
    _Atomic uint64_t done;
    uint64_t dest, source, nbytes; /* two places */
    uint64_t completion[PYSH_ENGINE_COMPLETIONS], value[PYSH_ENGINE_COMPLETIONS];
    int32_t n_completions, pe, status;
    char pad[36];
} pysh_engine_job_t;

/* What the socket carries: a part of a PE's device heap, with its descriptor or none; the answer is a status, whose
 * text is in the queue. */
typedef struct pysh_engine_part {
    int64_t place, at, nbytes;
} pysh_engine_part_t;

typedef struct pysh_engine_queue {
    pysh_engine_map_t map;
    int accelerator; /* enum ishmemx_accelerator */
    int parent;      /* the PE's process */
    int64_t spin;    /* polls of an idle engine before it gives its core away */
    _Atomic uint32_t state;
    char text[PYSH_ENGINE_TEXT_BYTES]; /* why it did not start, or what the last job that failed died of */
    /* Jobs written so far: release by the PE pairs with the engine's acquire. */
    _Alignas(64) _Atomic uint64_t posted;
    /* 1 while the engine sleeps on it: see doze() in process.c. */
    _Alignas(64) _Atomic uint32_t asleep;
    _Alignas(64) pysh_engine_job_t job[PYSH_ENGINE_JOBS];
} pysh_engine_queue_t;

_Static_assert(sizeof(pysh_engine_job_t) % 16 == 0, "jobs share no word");
