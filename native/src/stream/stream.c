/* SPDX-License-Identifier: BSD-3-Clause
 * Streams and graphs, and the end of the job for those that still have work. */
#include "stream/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "base/clock.h"
#include "base/state.h"
#include "base/status.h"
#include "base/thread.h"
#include "memory/kernel_faults.h"
#include "node/enter.h"
#include "node/wait.h"
#include "ops/rma.h"

#define MAX_USED   64
#define GIVE_UP_NS 1000000000LL

struct pysh_graph {
    uint64_t job;
    void *graph; /* the accelerator's */
};

static struct {
    pthread_mutex_t mutex;
    void *used[MAX_USED]; /* streams that were given work */
    int n_used;
    void *created[MAX_USED]; /* by us, and not destroyed */
    int n_created;
    _Atomic uint64_t changes; /* of the list, by which some are no longer in it */
    uint64_t job;             /* a number for each: a graph of another one is refused */
    void *own;                /* the library's, for calls that wait */
    int unsettled;            /* why finalize could not wait for one; 0: it could */
} streams = {.mutex = PTHREAD_MUTEX_INITIALIZER, .job = 1};

static __thread void *last_used; /* by this thread: mostly it is the same again */
static __thread uint64_t last_changes = UINT64_MAX;

/* ---- arguments ---- */

/* With the mutex held: where the stream is in the list of `n`, or its end. */
static int place_in(void *const *list, int n, const void *stream) {
    int i = 0;

    while (i < n && list[i] != stream)
        i++;
    return i;
}

static void take_out(void **list, int *n, const void *stream) {
    int place = place_in(list, *n, stream);

    if (place < *n)
        list[place] = list[--*n];
}

/* What finalize has to wait for. When there are more than there is room for, the first is forgotten. */
static void note_use(void *stream) {
    if (stream == last_used && last_changes == streams.changes)
        return;
    pthread_mutex_lock(&streams.mutex);
    if (place_in(streams.used, streams.n_used, stream) == streams.n_used)
        streams.used[streams.n_used < MAX_USED ? streams.n_used++ : 0] = stream;
    last_used = stream;
    last_changes = streams.changes;
    pthread_mutex_unlock(&streams.mutex);
}

static void remember_created(void *stream) {
    pthread_mutex_lock(&streams.mutex);
    if (streams.n_created < MAX_USED) /* a further one is taken for somebody else's */
        streams.created[streams.n_created++] = stream;
    pthread_mutex_unlock(&streams.mutex);
}

/* Is it certainly there? Streams of others may have been destroyed, and then the driver may not be asked about them. */
static bool is_ours(const void *stream) {
    bool found = !pysh.accel->streams->drain || (uintptr_t)stream < 3 || stream == streams.own;

    pthread_mutex_lock(&streams.mutex);
    found = found || place_in(streams.created, streams.n_created, stream) < streams.n_created;
    pthread_mutex_unlock(&streams.mutex);
    return found;
}

static void forget(const void *stream) {
    pthread_mutex_lock(&streams.mutex);
    take_out(streams.created, &streams.n_created, stream);
    take_out(streams.used, &streams.n_used, stream);
    streams.changes++;
    pthread_mutex_unlock(&streams.mutex);
}

int pysh_stream_check(void *stream) {
    int status;

    if (!pysh.accel)
        return pysh_fail(
            ISHMEMX_ERR_UNSUPPORTED,
            "there is no stream: the job runs with device none; use PYSHMEM_DEVICE=sim (needs numba) or cuda");
    if ((status = pysh.accel->streams->check(stream)))
        return status;
    note_use(stream);
    return ISHMEMX_OK;
}

int pysh_stream_reach(const void *address, size_t nbytes, int pe, const char *what, char **peer_p) {
    int heap, status = pysh_peer_address(address, nbytes, pe, what, peer_p, &heap);

    if (status)
        return status;
    if (heap != ISHMEMX_HEAP_DEVICE) /* in the simulator too: a program that runs there runs on GPUs */
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s is on the host heap; operations on a stream take the device heap",
                         what);
    return ISHMEMX_OK;
}

int pysh_stream_local(const void *address, const char *what) {
    if (pysh.accel->cpu_visible || pysh.accel->is_device(address))
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s is not GPU memory; operations on a stream take the device heap", what);
}

/* ---- streams ---- */

int ishmemx_stream_create(void **stream) {
    int status;

    PYSH_ENTER();
    if (!pysh.accel)
        return pysh_stream_check(NULL);
    if (!(status = pysh.accel->streams->create(stream)))
        remember_created(*stream);
    return status;
}

/* What the stream is at, of those that are known to wait. */
static void describe_stream(const void *of, char *text, size_t capacity) {
    pysh.accel->streams->describe((void *)(uintptr_t)of, text, capacity);
}

/* Polls, so that the death of a PE, an interrupt and the timeout end the wait. */
static int stream_finish(void *stream, const char *what) {
    pysh_wait_t wait;
    bool finished = false;
    int status = pysh.accel->streams->finished(stream, &finished);

    if (status || finished)
        return status;
    pysh_wait_begin(&wait, what);
    if (pysh.accel->streams->describe)
        wait.aim = (pysh_wait_aim_t){describe_stream, stream};
    while (!status && !finished && !(status = pysh_wait_pause(&wait)))
        status = pysh.accel->streams->finished(stream, &finished);
    pysh_wait_end(&wait);
    return status;
}

int pysh_stream_wait(void *stream, const char *what) {
    int status = stream_finish(stream, what);

    return status ? status : pysh_enter(); /* what its kernels recorded */
}

/* One for all threads: a team is used by one of them at a time, and kernels of several teams get on with each other in
 * whatever order they are, as long as it is the same on all PEs. */
int pysh_stream_own(void **stream_p) {
    int status = ISHMEMX_OK;

    if (!pysh.accel)
        return pysh_stream_check(NULL);
    pthread_mutex_lock(&streams.mutex);
    if (!streams.own)
        status = pysh.accel->streams->create(&streams.own);
    *stream_p = streams.own;
    pthread_mutex_unlock(&streams.mutex);
    return status;
}

int ishmemx_stream_finish(void *stream) {
    int status;

    PYSH_ENTER();
    return (status = pysh_stream_check(stream)) ? status : pysh_stream_wait(stream, "stream.synchronize");
}

int ishmemx_stream_finished(void *stream, int *finished) {
    bool yes;
    int status;

    PYSH_ENTER();
    if (!(status = pysh_stream_check(stream)) && !(status = pysh.accel->streams->finished(stream, &yes)))
        *finished = yes;
    return status;
}

int ishmemx_stream_destroy(void *stream) {
    int status;

    PYSH_ENTER();
    if ((status = pysh_stream_check(stream)) || (status = stream_finish(stream, "stream.destroy")))
        return status;
    forget(stream);
    return pysh.accel->streams->destroy(stream);
}

int ishmemx_stream_capturing(void *stream, int *capturing) {
    bool yes;
    int status;

    PYSH_ENTER();
    if (!(status = pysh_stream_check(stream)) && !(status = pysh.accel->streams->capturing(stream, &yes)))
        *capturing = yes;
    return status;
}

/* ---- graphs ---- */

int ishmemx_capture_begin(void *stream) {
    int status;

    PYSH_ENTER();
    return (status = pysh_stream_check(stream)) ? status : pysh.accel->streams->capture_begin(stream);
}

int ishmemx_capture_end(void *stream, void **graph) {
    struct pysh_graph *made = malloc(sizeof *made);
    int status;

    if (!made)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a graph");
    made->job = streams.job;
    if (!(status = pysh_enter()) && (status = pysh_stream_check(stream)) != ISHMEMX_ERR_ARGUMENT &&
        pysh.accel) /* a capture that failed is another error, and ends here too */
        status = pysh.accel->streams->capture_end(stream, &made->graph);
    if (status)
        free(made);
    else
        *graph = made;
    return status;
}

int ishmemx_graph_replay(void *graph, void *stream) {
    int status;

    PYSH_ENTER();
    if (((struct pysh_graph *)graph)->job != streams.job)
        return pysh_fail(ISHMEMX_ERR_STATE, "the graph was captured in a job that has ended; capture it again");
    return (status = pysh_stream_check(stream))
               ? status
               : pysh.accel->streams->replay(((struct pysh_graph *)graph)->graph, stream);
}

int ishmemx_graph_drop(void *graph) {
    if (pysh.ready && ((struct pysh_graph *)graph)->job == streams.job) /* else it went with the context */
        pysh.accel->streams->drop(((struct pysh_graph *)graph)->graph);
    free(graph);
    return ISHMEMX_OK;
}

/* ---- the end of the job ---- */

/* What does not end by itself: kernels' waits are ended, and have a moment to see it. */
static void end_waits(void *stream) {
    int64_t deadline = pysh_now_ns() + GIVE_UP_NS;
    bool finished = false;

    pysh_end_kernel_waits();
    while (!finished && pysh_now_ns() < deadline && !pysh.accel->streams->finished(stream, &finished))
        pysh_relax();
}

static _Atomic bool drained;
static int drain_status;

static void *stream_drain(void *unused) {
    (void)unused;
    drain_status = pysh.accel->streams->drain();
    atomic_store(&drained, true); /* with release, for the status */
    return NULL;
}

static int start_drain(pthread_t *thread) {
    int error;

    atomic_store(&drained, false);
    error = pysh_thread_start(thread, "pysh-drain", stream_drain, NULL);
    return error ? pysh_fail(ISHMEMX_ERR_SYSTEM, "no thread that waits for the GPU: %s", strerror(error)) : ISHMEMX_OK;
}

/* Streams of others: a thread waits for all work of the process, so that this one sees deaths, interrupts and the
 * timeout. */
static int finish_others(void) {
    int64_t deadline;
    pthread_t thread;
    pysh_wait_t wait;
    int status = start_drain(&thread);

    if (status)
        return status;
    pysh_wait_begin(&wait, "finalize: work queued on a stream");
    while (!status && !atomic_load(&drained))
        status = pysh_wait_pause(&wait);
    pysh_wait_end(&wait);
    if (status)
        pysh_end_kernel_waits();
    for (deadline = pysh_now_ns() + GIVE_UP_NS; !atomic_load(&drained) && pysh_now_ns() < deadline;)
        pysh_relax();
    if (!atomic_load(&drained)) {
        pthread_detach(thread);
        return status;
    }
    pthread_join(thread, NULL);
    if (!status && drain_status)
        status = pysh_fail(drain_status, "finalize: the work on streams of the GPU has failed");
    return status;
}

int pysh_streams_settle(void) {
    bool others = false;

    for (int i = 0; pysh.accel && i < streams.n_used; i++) {
        void *stream = streams.used[i];
        int status;
        if (!is_ours(stream)) {
            others = true;
            continue;
        }
        if (pysh.accel->streams->check(stream)) /* destroyed: nobody can know of its work */
            continue;
        if ((status = stream_finish(stream, "finalize: work queued on a stream"))) {
            streams.unsettled = streams.unsettled ? streams.unsettled : status;
            end_waits(stream);
        }
    }
    if (others && !streams.unsettled)
        streams.unsettled = finish_others();
    streams.n_used = 0;
    streams.changes++;
    return streams.unsettled;
}

int ishmemx_streams_settle(void) {
    return pysh.ready ? pysh_streams_settle() : ISHMEMX_OK;
}

void pysh_streams_close(void) {
    if (pysh.accel) {
        if (streams.own && !pysh.accel->cpu_visible)
            pysh.accel->streams->destroy(streams.own);
        pysh_kernels_forget();
        pysh.accel->streams->close();
        pysh_host_words_close();
    }
    streams.own = NULL;
    streams.unsettled = ISHMEMX_OK;
    streams.n_used = 0;
    streams.n_created = 0;
    streams.changes++;
    streams.job++;
}
