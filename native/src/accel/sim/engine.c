/* SPDX-License-Identifier: BSD-3-Clause */
#include "accel/sim/engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "base/status.h"
#include "base/thread.h"
#include "ishmemx.h"

#define MAX_COMPLETIONS 2

typedef struct job {
    struct job *next;
    void *dest;
    const void *source;
    size_t nbytes;
    pysh_completion_t completion[MAX_COMPLETIONS];
    int n_completions;
} job_t;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t asked;
    pthread_t thread;
    bool running, stop;
    job_t *first, **last;
    uint64_t started, mark;
    _Atomic uint64_t finished;
} engine = {.mutex = PTHREAD_MUTEX_INITIALIZER, .asked = PTHREAD_COND_INITIALIZER};

static job_t *next_job(void) {
    job_t *job;

    pthread_mutex_lock(&engine.mutex);
    while (!engine.first && !engine.stop)
        pthread_cond_wait(&engine.asked, &engine.mutex);
    job = engine.first;
    if (job && !(engine.first = job->next))
        engine.last = &engine.first;
    pthread_mutex_unlock(&engine.mutex);
    return job;
}

static void *work(void *argument) {
    job_t *job;

    (void)argument;
    while ((job = next_job())) {
        memmove(job->dest, job->source, job->nbytes);
        /* release: pairs with whoever waits for the completion, and then reads what was copied */
        for (int i = 0; i < job->n_completions; i++)
            __atomic_store_n((uint64_t *)job->completion[i].address, job->completion[i].value, __ATOMIC_RELEASE);
        atomic_fetch_add_explicit(&engine.finished, 1, memory_order_release);
        free(job);
    }
    return NULL;
}

/* With the mutex held. */
static int start(void) {
    int error;

    if (engine.running)
        return 0;
    engine.stop = false;
    engine.last = &engine.first;
    error = pysh_thread_start(&engine.thread, "pysh-engine", work, NULL);
    engine.running = !error;
    return error;
}

int pysh_sim_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const pysh_completion_t *completions,
                         int n_completions, uint64_t *token_p) {
    job_t *job = malloc(sizeof *job);
    int error;

    (void)pe;
    if (!job)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a copy of %zu bytes", nbytes);
    *job = (job_t){.dest = dest, .source = source, .nbytes = nbytes, .n_completions = n_completions};
    memcpy(job->completion, completions, (size_t)n_completions * sizeof *completions);
    pthread_mutex_lock(&engine.mutex);
    if (!(error = start())) {
        *engine.last = job;
        engine.last = &job->next;
        *token_p = ++engine.started;
        pthread_cond_signal(&engine.asked);
    }
    pthread_mutex_unlock(&engine.mutex);
    if (!error)
        return ISHMEMX_OK;
    free(job);
    return pysh_fail(ISHMEMX_ERR_SYSTEM, "starting the copy engine's thread: %s", strerror(error));
}

int pysh_sim_engine_done(uint64_t token, bool *done_p) {
    *done_p = atomic_load_explicit(&engine.finished, memory_order_acquire) >= token;
    return ISHMEMX_OK;
}

void pysh_sim_engine_mark(void) {
    pthread_mutex_lock(&engine.mutex);
    engine.mark = engine.started;
    pthread_mutex_unlock(&engine.mutex);
}

int pysh_sim_engine_finished(bool *marked_p, bool *all_p) {
    uint64_t finished = atomic_load_explicit(&engine.finished, memory_order_acquire);

    pthread_mutex_lock(&engine.mutex);
    *marked_p = finished >= engine.mark;
    *all_p = finished >= engine.started;
    pthread_mutex_unlock(&engine.mutex);
    return ISHMEMX_OK;
}

void pysh_sim_engine_complete(void *address, uint64_t value) {
    __atomic_store_n((uint64_t *)address, value, __ATOMIC_RELEASE);
}

void pysh_sim_engine_stop(void) {
    pthread_mutex_lock(&engine.mutex);
    engine.stop = true;
    pthread_cond_signal(&engine.asked);
    pthread_mutex_unlock(&engine.mutex);
    if (engine.running)
        pthread_join(engine.thread, NULL); /* what was asked for is done first */
    engine.running = false;
}
