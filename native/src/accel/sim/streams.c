/* SPDX-License-Identifier: BSD-3-Clause
 * A stream's thread takes the jobs of its queue in order. A capture keeps the jobs instead, and a graph is these jobs,
 * to be queued again. */
#include "accel/sim/streams.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/sim/work.h"
#include "base/status.h"
#include "base/thread.h"

typedef struct stream {
    struct stream *next;
    pthread_t thread;
    queue_t queue, captured;
    const job_t *doing;                  /* while it is busy */
    bool capturing, spoilt, busy, leave; /* spoilt: the capture; leave: when the queue is empty */
} stream_t;

static struct {
    pthread_mutex_t mutex; /* for all streams and graphs */
    pthread_cond_t changed;
    stream_t *streams;
} sim = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- streams ---- */

static void *work_off(void *argument) {
    stream_t *stream = argument;

    pthread_mutex_lock(&sim.mutex);
    for (;;) {
        job_t *job = stream->queue.first;
        if (atomic_load(&pysh_sim_stop))
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
        stream->doing = job;
        pthread_mutex_unlock(&sim.mutex);
        pysh_sim_do(job);
        pthread_mutex_lock(&sim.mutex);
        stream->busy = false;
        stream->doing = NULL;
        free(job);
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
    pysh_sim_queue_init(&stream->queue);
    pysh_sim_queue_init(&stream->captured);
    error = pysh_thread_start(&stream->thread, "pysh-stream", work_off, stream);
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

/* With the mutex held, for as long as the stream is used: the one way from a handle to a stream, for another thread may
 * destroy it meanwhile. NULL: it is none, any more, which gone() says. */
static stream_t *find(const void *handle) {
    return *place_of(handle);
}

static int gone(const void *handle) {
    return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                     "stream %p is no stream of the simulator, or has been destroyed; pyshmem.streams.Stream() "
                     "makes one",
                     handle);
}

static int check(void *handle) {
    bool known;

    pthread_mutex_lock(&sim.mutex);
    known = !handle || find(handle);
    pthread_mutex_unlock(&sim.mutex);
    return known ? ISHMEMX_OK : gone(handle);
}

static void end_stream(stream_t *stream) {
    pthread_join(stream->thread, NULL);
    pysh_sim_queue_clear(&stream->queue);
    pysh_sim_queue_clear(&stream->captured);
    free(stream);
}

static int destroy(void *handle) {
    stream_t *stream;

    pthread_mutex_lock(&sim.mutex);
    if ((stream = find(handle))) {
        *place_of(stream) = stream->next;
        stream->leave = true;
        pthread_cond_broadcast(&sim.changed);
    }
    pthread_mutex_unlock(&sim.mutex);
    if (!stream)
        return gone(handle);
    end_stream(stream);
    return ISHMEMX_OK;
}

static void close_streams(void) {
    atomic_store(&pysh_sim_stop, true);
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
    atomic_store(&pysh_sim_stop, false);
}

/* As on GPUs, to ask this of a stream that is being captured fails, and spoils the capture. */
static int finished(void *handle, bool *finished_p) {
    bool captured = false;
    stream_t *stream;

    *finished_p = true;
    if (!handle)
        return ISHMEMX_OK;
    pthread_mutex_lock(&sim.mutex);
    if ((stream = find(handle))) {
        *finished_p = !stream->queue.first && !stream->busy;
        if ((captured = stream->capturing))
            stream->spoilt = true;
    }
    pthread_mutex_unlock(&sim.mutex);
    if (!stream)
        return gone(handle);
    return captured ? pysh_fail(ISHMEMX_ERR_SYSTEM,
                                "stream %p is being captured: what comes on it is done when the graph is replayed, "
                                "and nobody can wait for it before",
                                handle)
                    : ISHMEMX_OK;
}

static int capturing(void *handle, bool *capturing_p) {
    stream_t *stream;

    *capturing_p = false;
    if (!handle)
        return ISHMEMX_OK;
    pthread_mutex_lock(&sim.mutex);
    if ((stream = find(handle)))
        *capturing_p = stream->capturing;
    pthread_mutex_unlock(&sim.mutex);
    return stream ? ISHMEMX_OK : gone(handle);
}

/* With the mutex held. A kernel is a call of the program's, or of the library's. */
static bool is_at_work(const stream_t *stream, bool kernels_wait) {
    if (!stream->doing)
        return stream->queue.first;
    if (stream->doing->kind == KERNEL || stream->doing->kind == CALL)
        return !kernels_wait;
    return stream->doing->kind != WAIT;
}

static bool works(bool kernels_wait) {
    bool found = false;

    pthread_mutex_lock(&sim.mutex);
    for (const stream_t *stream = sim.streams; stream && !found; stream = stream->next)
        found = is_at_work(stream, kernels_wait);
    pthread_mutex_unlock(&sim.mutex);
    return found;
}

static void describe(void *handle, char *text, size_t capacity) {
    const stream_t *stream;

    text[0] = '\0';
    pthread_mutex_lock(&sim.mutex);
    if ((stream = find(handle)) && stream->doing && stream->doing->kind == WAIT)
        pysh_sim_describe_wait(stream->doing, text, capacity);
    pthread_mutex_unlock(&sim.mutex);
}

/* ---- work ---- */

static int enqueue(void *handle, const job_t *job) {
    stream_t *stream;
    job_t *copy;

    if (!handle) {
        pysh_sim_do(job);
        return ISHMEMX_OK;
    }
    if (!(copy = malloc(sizeof *copy)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for work on a stream");
    *copy = *job;
    pthread_mutex_lock(&sim.mutex);
    if ((stream = find(handle))) {
        pysh_sim_queue_add(stream->capturing ? &stream->captured : &stream->queue, copy);
        pthread_cond_broadcast(&sim.changed);
    }
    pthread_mutex_unlock(&sim.mutex);
    if (stream)
        return ISHMEMX_OK;
    free(copy);
    return gone(handle);
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

/* The caller has had the stream checked. */
int ishmemx_sim_call(ishmemx_sim_call_t call, int64_t number, void *stream) {
    return enqueue(stream, &(job_t){.kind = CALL, .call = call, .value = (uint64_t)number});
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
    bool already = false;
    stream_t *stream;

    if (!handle)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the default stream cannot be captured");
    pthread_mutex_lock(&sim.mutex);
    if ((stream = find(handle))) {
        already = stream->capturing;
        stream->capturing = true;
        stream->spoilt = stream->spoilt && already;
    }
    pthread_mutex_unlock(&sim.mutex);
    if (!stream)
        return gone(handle);
    return already ? pysh_fail(ISHMEMX_ERR_STATE, "stream %p is being captured already", handle) : ISHMEMX_OK;
}

static void drop(void *graph) {
    pysh_sim_queue_clear(graph);
    free(graph);
}

static int capture_end(void *handle, void **graph_p) {
    queue_t *graph = malloc(sizeof *graph);
    bool spoilt = false;
    stream_t *stream;

    if (!graph)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a graph");
    pysh_sim_queue_init(graph);
    pthread_mutex_lock(&sim.mutex);
    if ((stream = find(handle))) {
        if (stream->captured.first)
            *graph = stream->captured;
        pysh_sim_queue_init(&stream->captured);
        stream->capturing = false;
        spoilt = stream->spoilt;
    }
    pthread_mutex_unlock(&sim.mutex);
    if (stream && !spoilt) {
        *graph_p = graph;
        return ISHMEMX_OK;
    }
    drop(graph);
    return stream
               ? pysh_fail(ISHMEMX_ERR_SYSTEM, "the capture of stream %p was spoilt by a wait for the stream", handle)
               : gone(handle);
}

static int replay(void *graph, void *stream) {
    int status = ISHMEMX_OK;

    for (const job_t *job = ((queue_t *)graph)->first; !status && job; job = job->next)
        status = enqueue(stream, job);
    return status;
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
    .works = works,
    .describe = describe,
    .close = close_streams,
};
