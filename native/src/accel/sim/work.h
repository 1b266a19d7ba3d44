/* SPDX-License-Identifier: BSD-3-Clause
 * One piece of work on a stream of the simulator: a job, and queues of them. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/streams.h"
#include "ishmemx.h"

typedef enum job_kind { COPY, BLOCKS, STORE, WAIT, AMO, KERNEL, CALL } job_kind_t;

typedef struct job {
    struct job *next;
    job_kind_t kind;
    int op, type; /* WAIT: op is the comparison */
    ishmemx_sim_call_t call;
    void *dest;
    const void *source;
    uint64_t value, cond; /* CALL: value is its number */
    size_t nbytes;
    pysh_blocks_t blocks;
    pysh_launch_t launch;
} job_t;

typedef struct queue {
    job_t *first, **last;
} queue_t;

extern _Atomic bool pysh_sim_stop; /* the job ends: waits end, and what is queued is dropped */

void pysh_sim_queue_init(queue_t *queue);
void pysh_sim_queue_add(queue_t *queue, job_t *job); /* which the queue owns then */
void pysh_sim_queue_clear(queue_t *queue);
void pysh_sim_do(const job_t *job);
/* Of a WAIT: "the stream waits for == 1, seen 0". */
void pysh_sim_describe_wait(const job_t *job, char *text, size_t capacity);
