/* SPDX-License-Identifier: BSD-3-Clause
 * What a job of a stream does, in the stream's thread. Kernels are the program's: it has given a function that runs the
 * library's, and gives one with each call of its own. */
#include "accel/sim/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu_amo.h"
#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"

#define POLLS_BEFORE_NAP 1000
#define NAP_NS           20000

_Atomic bool pysh_sim_stop;

static ishmemx_kernel_runner_t run_kernel;

int ishmemx_sim_kernels(ishmemx_kernel_runner_t run) {
    run_kernel = run;
    return ISHMEMX_OK;
}

/* ---- queues ---- */

void pysh_sim_queue_init(queue_t *queue) {
    queue->first = NULL;
    queue->last = &queue->first;
}

void pysh_sim_queue_add(queue_t *queue, job_t *job) {
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
}

void pysh_sim_queue_clear(queue_t *queue) {
    while (queue->first) {
        job_t *job = queue->first;
        queue->first = job->next;
        free(job);
    }
    queue->last = &queue->first;
}

/* ---- what a job does ---- */

static void copy_now(const pysh_blocks_t *blocks) {
    for (size_t i = 0; i < blocks->n_blocks; i++)
        memmove((char *)blocks->dest + i * blocks->dest_stride,
                (const char *)blocks->source + i * blocks->source_stride, blocks->nbytes);
}

static void store_now(const job_t *job) {
    switch (job->nbytes) { /* release: pairs with the acquire at the end of a wait for the word */
    case 1:
        __atomic_store_n((uint8_t *)job->dest, (uint8_t)job->value, __ATOMIC_RELEASE);
        break;
    case 2:
        __atomic_store_n((uint16_t *)job->dest, (uint16_t)job->value, __ATOMIC_RELEASE);
        break;
    case 4:
        __atomic_store_n((uint32_t *)job->dest, (uint32_t)job->value, __ATOMIC_RELEASE);
        break;
    default:
        __atomic_store_n((uint64_t *)job->dest, job->value, __ATOMIC_RELEASE);
    }
}

/* For people, so that no order is asked for. */
void pysh_sim_describe_wait(const job_t *job, char *text, size_t capacity) {
    bool narrow = job->nbytes == 4;
    int64_t asked = narrow ? (int32_t)job->value : (int64_t)job->value;
    int64_t seen = narrow ? __atomic_load_n((const int32_t *)job->source, __ATOMIC_RELAXED)
                          : __atomic_load_n((const int64_t *)job->source, __ATOMIC_RELAXED);

    snprintf(text, capacity, "the stream waits for %s %" PRId64 ", seen %" PRId64, pysh_cmp_symbol(job->op), asked,
             seen);
}

/* acquire: pairs with the release of whoever stored or added */
static bool holds(const job_t *job) {
    if (job->nbytes == 4) {
        uint32_t seen = __atomic_load_n((const uint32_t *)job->source, __ATOMIC_ACQUIRE);
        return job->op == ISHMEMX_CMP_EQ ? seen == (uint32_t)job->value : (int32_t)(seen - (uint32_t)job->value) >= 0;
    } else {
        uint64_t seen = __atomic_load_n((const uint64_t *)job->source, __ATOMIC_ACQUIRE);
        return job->op == ISHMEMX_CMP_EQ ? seen == job->value : (int64_t)(seen - job->value) >= 0;
    }
}

static void wait_now(const job_t *job) {
    const struct timespec nap = {.tv_nsec = NAP_NS};

    for (int polls = 0; !holds(job) && !atomic_load(&pysh_sim_stop) && !atomic_load(pysh.alarm); polls++)
        if (polls > POLLS_BEFORE_NAP)
            nanosleep(&nap, NULL);
}

static void amo_now(const job_t *job) {
    uint64_t old = pysh_amo_apply(job->op, job->type, job->dest, job->value, job->cond);

    if (job->source)
        memcpy((void *)(uintptr_t)job->source, &old, pysh_type_nbytes(job->type)); /* the low bytes come first */
}

void pysh_sim_do(const job_t *job) {
    if (job->kind == COPY)
        memmove(job->dest, job->source, job->nbytes);
    else if (job->kind == BLOCKS)
        copy_now(&job->blocks);
    else if (job->kind == STORE)
        store_now(job);
    else if (job->kind == WAIT)
        wait_now(job);
    else if (job->kind == AMO)
        amo_now(job);
    else if (job->kind == CALL)
        job->call((int64_t)job->value);
    else if (run_kernel)
        run_kernel(job->launch.kernel->key, job->launch.blocks, job->launch.threads, job->launch.words);
}
