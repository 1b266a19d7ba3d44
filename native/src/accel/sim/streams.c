/* SPDX-License-Identifier: BSD-3-Clause
 * A stream's thread takes the jobs of its queue in order. Kernels are the program's: it has given a function that runs
 * them. A capture keeps the jobs instead, and a graph is these jobs, to be queued again. */
#include "accel/sim/streams.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accel/accel.h"
#include "base/cpu_amo.h"
#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "base/thread.h"

#define POLLS_BEFORE_NAP 1000
#define NAP_NS           20000

typedef enum job_kind { COPY, BLOCKS, STORE, WAIT, AMO, KERNEL } job_kind_t;

typedef struct job {
    struct job *next;
    job_kind_t kind;
    int op, type; /* WAIT: op is the comparison */
    void *dest;
    const void *source;
    uint64_t value, cond;
    size_t nbytes;
    pysh_blocks_t blocks;
    pysh_launch_t launch;
} job_t;

typedef struct queue {
    job_t *first, **last;
} queue_t;

typedef struct stream {
    struct stream *next;
    pthread_t thread;
    queue_t queue, captured;
    bool capturing, busy, leave; /* leave: when the queue is empty */
} stream_t;

static struct {
    pthread_mutex_t mutex; /* for all streams and graphs */
    pthread_cond_t changed;
    stream_t *streams;
    _Atomic bool stop; /* the job ends: waits end, and what is queued is dropped */
    ishmemx_kernel_runner_t run_kernel;
} sim = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int ishmemx_sim_kernels(ishmemx_kernel_runner_t run) {
    sim.run_kernel = run;
    return ISHMEMX_OK;
}

/* ---- jobs ---- */

static void queue_add(queue_t *queue, job_t *job) {
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
}

static void queue_clear(queue_t *queue) {
    while (queue->first) {
        job_t *job = queue->first;
        queue->first = job->next;
        free(job);
    }
    queue->last = &queue->first;
}

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

    for (int polls = 0; !holds(job) && !atomic_load(&sim.stop) && !atomic_load(pysh.alarm); polls++)
        if (polls > POLLS_BEFORE_NAP)
            nanosleep(&nap, NULL);
}

static void amo_now(const job_t *job) {
    uint64_t old = pysh_amo_apply(job->op, job->type, job->dest, job->value, job->cond);

    if (job->source)
        memcpy((void *)(uintptr_t)job->source, &old, pysh_type_nbytes(job->type)); /* the low bytes come first */
}

static void run(const job_t *job) {
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
    else if (sim.run_kernel)
        sim.run_kernel(job->launch.kernel->key, job->launch.blocks, job->launch.threads, job->launch.words);
}

/* ---- streams ---- */

static void *work_off(void *argument) {
    stream_t *stream = argument;

    pthread_mutex_lock(&sim.mutex);
    for (;;) {
        job_t *job = stream->queue.first;
        if (atomic_load(&sim.stop))
            break;
        if (!job && stream->leave)
            break;
        if (!job) {
            pthread_cond_wait(&sim.changed, &sim.mutex);
            continue;
        }
        if (!(stream->queue.first = job->next))
            stream->queue.last = &stream->queue.first;
        stream->busy = true;
        pthread_mutex_unlock(&sim.mutex);
        run(job);
        free(job);
        pthread_mutex_lock(&sim.mutex);
        stream->busy = false;
        pthread_cond_broadcast(&sim.changed);
    }
    pthread_mutex_unlock(&sim.mutex);
    return NULL;
}

static int create(void **stream_p) {
    stream_t *stream = calloc(1, sizeof *stream);
    int error;

    if (!stream)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a stream");
    stream->queue.last = &stream->queue.first;
    stream->captured.last = &stream->captured.first;
    error = pysh_thread_start(&stream->thread, work_off, stream);
    if (error) {
        free(stream);
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "starting a stream's thread: %s", strerror(error));
    }
    pthread_mutex_lock(&sim.mutex);
    stream->next = sim.streams;
    sim.streams = stream;
    pthread_mutex_unlock(&sim.mutex);
    *stream_p = stream;
    return ISHMEMX_OK;
}

/* With the mutex held: where the stream is in the list, or the list's end. */
static stream_t **place_of(const void *stream) {
    stream_t **at = &sim.streams;

    while (*at && *at != stream)
        at = &(*at)->next;
    return at;
}

static int check(void *stream) {
    bool known;

    pthread_mutex_lock(&sim.mutex);
    known = !stream || *place_of(stream);
    pthread_mutex_unlock(&sim.mutex);
    return known ? ISHMEMX_OK
                 : pysh_fail(ISHMEMX_ERR_ARGUMENT,
                             "stream %p is no stream of the simulator, or has been destroyed; pyshmem.streams.Stream() "
                             "makes one",
                             stream);
}

static void end_stream(stream_t *stream) {
    pthread_join(stream->thread, NULL);
    queue_clear(&stream->queue);
    queue_clear(&stream->captured);
    free(stream);
}

static int destroy(void *handle) {
    stream_t *stream = handle, **at;

    pthread_mutex_lock(&sim.mutex);
    at = place_of(stream);
    if (*at) {
        *at = stream->next;
        stream->leave = true;
        pthread_cond_broadcast(&sim.changed);
    }
    pthread_mutex_unlock(&sim.mutex);
    end_stream(stream);
    return ISHMEMX_OK;
}

static void close_streams(void) {
    atomic_store(&sim.stop, true);
    for (;;) {
        stream_t *stream;
        pthread_mutex_lock(&sim.mutex);
        if ((stream = sim.streams))
            sim.streams = stream->next;
        pthread_cond_broadcast(&sim.changed);
        pthread_mutex_unlock(&sim.mutex);
        if (!stream)
            break;
        end_stream(stream);
    }
    atomic_store(&sim.stop, false);
}

static int finished(void *handle, bool *finished_p) {
    stream_t *stream = handle;

    pthread_mutex_lock(&sim.mutex);
    *finished_p = !stream || (!stream->queue.first && !stream->busy);
    pthread_mutex_unlock(&sim.mutex);
    return ISHMEMX_OK;
}

static int capturing(void *handle, bool *capturing_p) {
    stream_t *stream = handle;

    *capturing_p = stream && stream->capturing;
    return ISHMEMX_OK;
}

/* ---- work ---- */

static int enqueue(stream_t *stream, const job_t *job) {
    job_t *copy;

    if (!stream) {
        run(job);
        return ISHMEMX_OK;
    }
    if (!(copy = malloc(sizeof *copy)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for work on a stream");
    *copy = *job;
    pthread_mutex_lock(&sim.mutex);
    queue_add(stream->capturing ? &stream->captured : &stream->queue, copy);
    pthread_cond_broadcast(&sim.changed);
    pthread_mutex_unlock(&sim.mutex);
    return ISHMEMX_OK;
}

static int copy(void *dest, const void *source, size_t nbytes, void *stream) {
    return enqueue(stream, &(job_t){.kind = COPY, .dest = dest, .source = source, .nbytes = nbytes});
}

static int copy_blocks(const pysh_blocks_t *blocks, void *stream) {
    return enqueue(stream, &(job_t){.kind = BLOCKS, .blocks = *blocks});
}

static int store(void *address, uint64_t value, size_t nbytes, void *stream) {
    return enqueue(stream, &(job_t){.kind = STORE, .dest = address, .value = value, .nbytes = nbytes});
}

static int wait(const void *address, int cmp, uint64_t value, size_t nbytes, void *stream) {
    return enqueue(stream, &(job_t){.kind = WAIT, .source = address, .op = cmp, .value = value, .nbytes = nbytes});
}

static int amo(int op, int type, void *address, uint64_t value, uint64_t cond, void *fetched, void *stream) {
    return enqueue(
        stream,
        &(job_t){
            .kind = AMO, .op = op, .type = type, .dest = address, .source = fetched, .value = value, .cond = cond});
}

static int launch(const pysh_launch_t *launch, void *stream) {
    return enqueue(stream, &(job_t){.kind = KERNEL, .launch = *launch});
}

static int load(const void *image, const char *name, const int64_t *state, size_t stack, pysh_kernel_t *kernel) {
    (void)image, (void)name, (void)state, (void)stack, (void)kernel;
    return ISHMEMX_OK; /* the program's function has it */
}

static int refill(const pysh_kernel_t *kernel, const int64_t *state) {
    (void)kernel, (void)state;
    return ISHMEMX_OK;
}

/* ---- graphs: a queue whose jobs stay ---- */

static int capture_begin(void *handle) {
    stream_t *stream = handle;
    bool already;

    if (!stream)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the default stream cannot be captured");
    pthread_mutex_lock(&sim.mutex);
    already = stream->capturing;
    stream->capturing = true;
    pthread_mutex_unlock(&sim.mutex);
    return already ? pysh_fail(ISHMEMX_ERR_STATE, "stream %p is being captured already", handle) : ISHMEMX_OK;
}

static int capture_end(void *handle, void **graph_p) {
    stream_t *stream = handle;
    queue_t *graph = malloc(sizeof *graph);

    if (!graph)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a graph");
    pthread_mutex_lock(&sim.mutex);
    *graph = stream->captured;
    if (!graph->first)
        graph->last = &graph->first;
    stream->captured = (queue_t){.last = &stream->captured.first};
    stream->capturing = false;
    pthread_mutex_unlock(&sim.mutex);
    *graph_p = graph;
    return ISHMEMX_OK;
}

static int replay(void *graph, void *stream) {
    int status = ISHMEMX_OK;

    for (const job_t *job = ((queue_t *)graph)->first; !status && job; job = job->next)
        status = enqueue(stream, job);
    return status;
}

static void drop(void *graph) {
    queue_clear(graph);
    free(graph);
}

const pysh_streams_t pysh_sim_streams = {
    .create = create,
    .destroy = destroy,
    .check = check,
    .finished = finished,
    .capturing = capturing,
    .copy = copy,
    .copy_blocks = copy_blocks,
    .store = store,
    .wait = wait,
    .amo = amo,
    .launch = launch,
    .load = load,
    .refill = refill,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .replay = replay,
    .drop = drop,
    .close = close_streams,
};
