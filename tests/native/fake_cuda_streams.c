/* SPDX-License-Identifier: BSD-3-Clause
 * The fake driver's streams, events and graphs: lists of work that one thread works off. */
#include "fake_cuda_parts.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct event {
    stream_t *stream;
    uint64_t asked;
} event_t;

static stream_t *streams, null_stream = {.last = &null_stream.first};
static bool started;

static bool holds(const work_t *work) {
    if (work->nbytes == 4) {
        uint32_t seen = __atomic_load_n((uint32_t *)(uintptr_t)work->source, __ATOMIC_ACQUIRE);
        return work->number ? seen == (uint32_t)work->value : (int32_t)(seen - (uint32_t)work->value) >= 0;
    } else {
        uint64_t seen = __atomic_load_n((uint64_t *)(uintptr_t)work->source, __ATOMIC_ACQUIRE);
        return work->number ? seen == work->value : (int64_t)(seen - work->value) >= 0;
    }
}

static void run(const work_t *work) {
    if (work->kind == COPY) {
        if (fake.slow_us)
            usleep((useconds_t)fake.slow_us);
        memmove((void *)(uintptr_t)work->dest, (void *)(uintptr_t)work->source, work->nbytes);
    } else if (work->kind == PLANE) {
        for (size_t i = 0; i < work->height; i++)
            memmove((char *)(uintptr_t)work->dest + i * work->dest_pitch,
                    (char *)(uintptr_t)work->source + i * work->source_pitch, work->nbytes);
    } else if (work->kind == SET) {
        memset((void *)(uintptr_t)work->dest, (int)work->value, work->nbytes);
    } else if (work->kind == STORE && work->nbytes == 2) {
        __atomic_store_n((uint16_t *)(uintptr_t)work->dest, (uint16_t)work->value, __ATOMIC_RELEASE);
    } else if (work->kind == STORE && work->nbytes == 4) {
        __atomic_store_n((uint32_t *)(uintptr_t)work->dest, (uint32_t)work->value, __ATOMIC_RELEASE);
    } else if (work->kind == STORE) {
        __atomic_store_n((uint64_t *)(uintptr_t)work->dest, work->value, __ATOMIC_RELEASE);
    } else if (work->kind == LIBRARY_KERNEL) {
        fake_run_library_kernel(work);
    } else if (work->kind == KERNEL) {
        fake_run_kernel(work);
    } else if (work->kind == SERVER) {
        fake_run_server(work);
    }
}

static bool held_up(const work_t *work) {
    return (fake.full && (work->kind == KERNEL || work->kind == SERVER)) || (work->kind == WAIT && !holds(work)) ||
           (work->kind == BEHIND && work->first->finished < work->value);
}

static stream_t *runnable(void) {
    for (stream_t *stream = streams; stream; stream = stream->next)
        if (stream->first && !stream->running && !held_up(stream->first))
            return stream;
    return NULL;
}

static void *work_off(void *argument) {
    pthread_mutex_lock(&fake.mutex);
    for (;;) {
        stream_t *stream = runnable();
        work_t *work;
        if (!stream) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += POLL_NS;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_timedwait(&fake.changed, &fake.mutex, &until);
            continue;
        }
        work = stream->first;
        stream->running = true;
        pthread_mutex_unlock(&fake.mutex);
        run(work);
        pthread_mutex_lock(&fake.mutex);
        stream->running = false;
        if (!(stream->first = work->next))
            stream->last = &stream->first;
        stream->finished++;
        free(work);
        pthread_cond_broadcast(&fake.changed);
    }
    return argument;
}

CUresult fake_enqueue(stream_t *stream, work_t work) {
    work_t *copy;
    pthread_t thread;

    UNSAFE();
    if (!(copy = malloc(sizeof *copy)))
        return INVALID_VALUE;
    *copy = work;
    copy->next = NULL;
    pthread_mutex_lock(&fake.mutex);
    while (fake.freeing && work.kind != STORE) /* a stored word gets through: measured on an H200 */
        pthread_cond_wait(&fake.changed, &fake.mutex);
    if (!started && !pthread_create(&thread, NULL, work_off, NULL)) {
        pthread_detach(thread);
        started = true;
    }
    stream = stream ? stream : &null_stream;
    stream = stream->captured_by ? stream->captured_by : stream;
    if (stream->capturing) {
        *stream->captured_last = copy;
        stream->captured_last = &copy->next;
    } else {
        *stream->last = copy;
        stream->last = &copy->next;
        stream->asked++;
    }
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.mutex);
    return SUCCESS;
}

CUresult cuStreamCreate(stream_t **stream, unsigned flags) {
    UNSAFE();
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    (*stream)->last = &(*stream)->first;
    (*stream)->context = fake_context;
    pthread_mutex_lock(&fake.mutex);
    (*stream)->next = streams;
    streams = *stream;
    pthread_mutex_unlock(&fake.mutex);
    return SUCCESS;
}
CUresult cuStreamDestroy_v2(stream_t *stream) {
    UNSAFE();
    pthread_mutex_lock(&fake.mutex);
    while (stream->first)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    for (stream_t **at = &streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    pthread_mutex_unlock(&fake.mutex);
    free(stream);
    return SUCCESS;
}
CUresult cuStreamSynchronize(stream_t *stream) {
    UNSAFE();
    stream = stream ? stream : &null_stream;
    pthread_mutex_lock(&fake.mutex);
    for (uint64_t until = stream->asked; stream->finished < until;)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    pthread_mutex_unlock(&fake.mutex);
    return SUCCESS;
}
CUresult cuCtxSynchronize(void) {
    bool busy = true;

    UNSAFE();
    while (busy) {
        busy = null_stream.finished != null_stream.asked;
        pthread_mutex_lock(&fake.mutex);
        for (const stream_t *stream = streams; !busy && stream; stream = stream->next)
            busy = stream->finished != stream->asked;
        pthread_mutex_unlock(&fake.mutex);
        if (busy)
            usleep(100);
    }
    return SUCCESS;
}
CUresult cuStreamQuery(stream_t *stream) {
    bool done;

    UNSAFE();
    stream = stream ? stream : &null_stream;
    pthread_mutex_lock(&fake.mutex);
    done = stream->finished == stream->asked;
    stream->spoilt |= stream->capturing; /* as on an H200 */
    pthread_mutex_unlock(&fake.mutex);
    return stream->spoilt ? CAPTURE_UNSUPPORTED : done ? SUCCESS : NOT_READY;
}
CUresult cuStreamIsCapturing(stream_t *stream, int *status) {
    *status = stream && stream->capturing;
    return SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(int *other) {
    int old = fake_mode;

    fake_mode = *other;
    *other = old;
    return SUCCESS;
}
/* Copies of as many bytes as the variable says fail, in processes that a test cannot call too. */
CUresult cuMemcpyAsync(CUdeviceptr dest, CUdeviceptr source, size_t nbytes, stream_t *stream) {
    const char *fails = getenv("FAKE_CUDA_FAILS");

    if (fails && nbytes == (size_t)atol(fails))
        return INVALID_VALUE;
    return fake_enqueue(stream, (work_t){.kind = COPY, .dest = dest, .source = source, .nbytes = nbytes});
}
CUresult cuMemsetD8Async(CUdeviceptr dest, unsigned char value, size_t nbytes, stream_t *stream) {
    return fake_enqueue(stream, (work_t){.kind = SET, .dest = dest, .value = value, .nbytes = nbytes});
}
CUresult cuStreamWriteValue64_v2(stream_t *stream, CUdeviceptr dest, uint64_t value, unsigned flags) {
    (void)flags;
    return fake_enqueue(stream, (work_t){.kind = STORE, .dest = dest, .value = value, .nbytes = 8});
}
CUresult cuStreamWriteValue32_v2(stream_t *stream, CUdeviceptr dest, uint32_t value, unsigned flags) {
    (void)flags;
    return fake_enqueue(stream, (work_t){.kind = STORE, .dest = dest, .value = value, .nbytes = 4});
}
CUresult cuMemsetD16Async(CUdeviceptr dest, unsigned short value, size_t count, stream_t *stream) {
    return count == 1 ? fake_enqueue(stream, (work_t){.kind = STORE, .dest = dest, .value = value, .nbytes = 2})
                      : INVALID_VALUE;
}
CUresult cuStreamWaitValue64_v2(stream_t *stream, CUdeviceptr source, uint64_t value, unsigned flags) {
    return fake_enqueue(stream,
                        (work_t){.kind = WAIT, .source = source, .value = value, .nbytes = 8, .number = (int)flags});
}
CUresult cuStreamWaitValue32_v2(stream_t *stream, CUdeviceptr source, uint32_t value, unsigned flags) {
    return fake_enqueue(stream,
                        (work_t){.kind = WAIT, .source = source, .value = value, .nbytes = 4, .number = (int)flags});
}
typedef struct {
    size_t source_x, source_y;
    int source_type;
    const void *source_host;
    CUdeviceptr source;
    void *source_array;
    size_t source_pitch;
    size_t dest_x, dest_y;
    int dest_type;
    void *dest_host;
    CUdeviceptr dest;
    void *dest_array;
    size_t dest_pitch, width, height;
} plane_t;
CUresult cuMemcpy2DAsync_v2(const plane_t *plane, stream_t *stream) {
    if (plane->source_type != 2 || plane->dest_type != 2 || plane->dest_pitch < plane->width ||
        plane->source_pitch < plane->width)
        return INVALID_VALUE;
    return fake_enqueue(stream, (work_t){.kind = PLANE,
                                         .dest = plane->dest,
                                         .source = plane->source,
                                         .nbytes = plane->width,
                                         .height = plane->height,
                                         .dest_pitch = plane->dest_pitch,
                                         .source_pitch = plane->source_pitch});
}
CUresult cuStreamGetCtx(stream_t *stream, void **context) {
    CUresult result = INVALID_HANDLE;

    pthread_mutex_lock(&fake.mutex);
    for (const stream_t *known = streams; known; known = known->next)
        if (known == stream) {
            *context = stream->context;
            result = stream->spoilt ? CAPTURE_INVALIDATED : SUCCESS;
        }
    pthread_mutex_unlock(&fake.mutex);
    return result;
}

CUresult cuEventCreate(event_t **event, unsigned flags) {
    UNSAFE();
    (void)flags;
    *event = calloc(1, sizeof **event);
    return SUCCESS;
}
CUresult cuEventDestroy_v2(event_t *event) {
    UNSAFE();
    free(event);
    return SUCCESS;
}
CUresult cuEventRecord(event_t *event, stream_t *stream) {
    UNSAFE();
    pthread_mutex_lock(&fake.mutex);
    *event = (event_t){.stream = stream, .asked = stream->asked};
    pthread_mutex_unlock(&fake.mutex);
    return SUCCESS;
}
/* Captured work is done in the order in which it came, so that an event of a capture says only whose work it is. */
CUresult cuStreamWaitEvent(stream_t *stream, event_t *event, unsigned flags) {
    UNSAFE();
    (void)flags;
    if (event->stream->captured_by == stream)
        return SUCCESS;
    if (event->stream->capturing) {
        stream->captured_by = event->stream;
        return SUCCESS;
    }
    return fake_enqueue(stream, (work_t){.kind = BEHIND, .first = event->stream, .value = event->asked});
}
CUresult cuEventQuery(event_t *event) {
    bool done;

    UNSAFE();
    pthread_mutex_lock(&fake.mutex);
    done = !event->stream || event->stream->finished >= event->asked;
    pthread_mutex_unlock(&fake.mutex);
    return done ? SUCCESS : NOT_READY;
}

/* ---- graphs: the captured work; what can be launched has its own copy ---- */

CUresult cuStreamBeginCapture_v2(stream_t *stream, int how) {
    (void)how;
    if (!stream || stream->capturing)
        return INVALID_VALUE;
    stream->captured = NULL;
    stream->captured_last = &stream->captured;
    stream->capturing = true;
    return SUCCESS;
}
CUresult cuStreamEndCapture(stream_t *stream, work_t **graph) {
    if (!stream->capturing)
        return INVALID_VALUE;
    stream->capturing = false;
    if (stream->spoilt) {
        stream->spoilt = false;
        return CAPTURE_INVALIDATED;
    }
    for (stream_t *other = streams; other; other = other->next)
        if (other->captured_by == stream)
            other->captured_by = NULL;
    *graph = stream->captured;
    return SUCCESS;
}
typedef struct executable {
    work_t *first;
} executable_t;

static void free_works(work_t *work) {
    while (work) {
        work_t *next = work->next;
        free(work);
        work = next;
    }
}

static work_t *copy_works(const work_t *work) {
    work_t *first = NULL, **last = &first;

    for (; work; work = work->next) {
        *last = malloc(sizeof **last);
        **last = *work;
        last = &(*last)->next;
    }
    *last = NULL;
    return first;
}

CUresult cuGraphInstantiateWithFlags(executable_t **executable, work_t *graph, unsigned long long flags) {
    (void)flags;
    *executable = malloc(sizeof **executable);
    (*executable)->first = copy_works(graph);
    return SUCCESS;
}
/* As the driver: a graph of more or less, or of a cooperative kernel, is not taken. */
CUresult cuGraphExecUpdate_v2(executable_t *executable, work_t *graph, void *told) {
    memset(told, 0, sizeof(int));
    for (const work_t *old = executable->first, *new = graph; old || new; old = old->next, new = new->next)
        if (!old || !new || (new->kind == LIBRARY_KERNEL && new->narrow))
            return INVALID_VALUE;
    free_works(executable->first);
    executable->first = copy_works(graph);
    return SUCCESS;
}
CUresult cuGraphLaunch(executable_t *executable, stream_t *stream) {
    __atomic_add_fetch(&fake.graphs, 1, __ATOMIC_SEQ_CST);
    for (const work_t *work = executable->first; work; work = work->next)
        if (fake_enqueue(stream, *work))
            return INVALID_VALUE;
    return SUCCESS;
}
CUresult cuGraphDestroy(work_t *graph) {
    free_works(graph);
    return SUCCESS;
}
CUresult cuGraphExecDestroy(executable_t *executable) {
    free_works(executable->first);
    free(executable);
    return SUCCESS;
}

/* The null stream is worked off like the others. */
__attribute__((constructor)) static void add_null_stream(void) {
    null_stream.next = streams;
    streams = &null_stream;
}
