/* SPDX-License-Identifier: BSD-3-Clause
 * The copy engine's process: what the program pyshmem-engine runs. It has no PE, no Python and no kernels, only the
 * device heaps, mapped, and the accelerator's copy engine. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "accel/accel.h"
#include "accel/cuda/accel_cuda.h"
#include "accel/engine/queue.h"
#include "accel/sim/accel_sim.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/state.h"
#include "base/status.h"
#include "base/thread.h"

#define YIELDS       200
#define SHORT_NAP_NS (20 * 1000LL)
#define LONG_NAP_NS  (100 * 1000000LL) /* with nothing under way, until woken */

static pysh_engine_queue_t *queue;
static char *base[ISHMEMX_MAX_NEAR_PES + 1]; /* by pysh_near_place(); the last: pieces */

static struct { /* the jobs under way */
    uint64_t number[PYSH_ENGINE_JOBS], token[PYSH_ENGINE_JOBS];
    int n;
} flights;

/* ---- life ---- */

/* A part of a device heap that grows, or its end; false: the socket has ended. */
static bool take_part(void) {
    pysh_engine_part_t part;
    int fd;
    int32_t answer = ISHMEMX_ERR_ARGUMENT;

    if (pysh_receive_descriptor(PYSH_ENGINE_FD_SOCKET, &part, sizeof part, &fd, NULL) != sizeof part)
        return false;
    if (pysh.accel->take && part.place >= 0 && part.place < ISHMEMX_MAX_NEAR_PES)
        answer = pysh.accel->take((int)part.place, part.at, part.nbytes, fd);
    if (fd >= 0)
        close(fd);
    if (answer)
        snprintf(queue->text, sizeof queue->text, "%s", ishmemx_error());
    return send(PYSH_ENGINE_FD_SOCKET, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer;
}

/* Ends the process with its PE: at the end of the socket, or, when a child of the PE's has inherited that, by the
 * descriptor of the PE's process. The copies' thread may be in a call of the driver, so it is not asked. */
static void *watch(void *argument) {
    struct pollfd ends[2] = {{.fd = PYSH_ENGINE_FD_SOCKET, .events = POLLIN}, {.fd = -1, .events = POLLIN}};

#ifdef SYS_pidfd_open
    ends[1].fd = (int)syscall(SYS_pidfd_open, queue->parent, 0);
#endif
    for (;;) {
        int n = poll(ends, 2, -1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0 && !ends[1].revents && take_part())
            continue;
        _exit(0);
    }
    return argument;
}

static void close_others(void) {
#ifdef SYS_close_range
    if (!syscall(SYS_close_range, (unsigned)PYSH_ENGINE_FDS, ~0U, 0))
        return;
#endif
    for (int fd = PYSH_ENGINE_FDS; fd < (int)sysconf(_SC_OPEN_MAX) && fd < 65536; fd++)
        close(fd);
}

static int map_pieces(void) {
    size_t nbytes = PYSH_ENGINE_PIECES * PYSH_ENGINE_PIECE;
    void *pieces =
        mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, PYSH_ENGINE_FD_QUEUE, (off_t)PYSH_ENGINE_PIECES_AT);

    if (pieces == MAP_FAILED)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "memory for data of hosts: %s", strerror(errno));
    base[PYSH_ENGINE_IN_PIECES] = pieces;
    return pysh.accel->host_open(pieces, nbytes);
}

static int join(void) {
    pthread_t watcher;
    int status, error = pysh_thread_start(&watcher, "pysh-watch", watch, NULL);

    if (error)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "starting a thread: %s", strerror(error));
    if (getppid() != queue->parent)
        _exit(0);
    pysh.pe = queue->map.pe;
    pysh.n_pes = queue->map.n_pes;
    pysh.accel = queue->accelerator == ISHMEMX_DEVICE_CUDA ? &pysh_accel_cuda : &pysh_accel_sim;
    status = pysh.accel->join(&queue->map, PYSH_ENGINE_FD_ARENAS, base);
    return status ? status : map_pieces();
}

/* ---- work ---- */

static void *address_of(uint64_t place) {
    return base[place >> PYSH_ENGINE_PLACE_PE] + (place & ((1ULL << PYSH_ENGINE_PLACE_PE) - 1));
}

static void end_job(uint64_t number, int status) {
    pysh_engine_job_t *job = &queue->job[number % PYSH_ENGINE_JOBS];

    if (status) {
        job->status = status;
        snprintf(queue->text, sizeof queue->text, "%s", ishmemx_error());
    }
    atomic_store_explicit(&job->done, number + 1, memory_order_release);
}

static void start_job(uint64_t number) {
    const pysh_engine_job_t *job = &queue->job[number % PYSH_ENGINE_JOBS];
    pysh_completion_t completion[PYSH_ENGINE_COMPLETIONS];
    uint64_t token = 0;
    int status;

    for (int i = 0; i < job->n_completions; i++)
        completion[i] = (pysh_completion_t){.address = address_of(job->completion[i]), .value = job->value[i]};
    status = pysh.accel->offload(job->pe, address_of(job->dest), address_of(job->source), job->nbytes, completion,
                                 job->n_completions, &token);
    if (status) {
        end_job(number, status);
        return;
    }
    flights.number[flights.n] = number;
    flights.token[flights.n++] = token;
}

static bool land(void) {
    bool landed = false;

    for (int i = 0; i < flights.n;) {
        bool done = false;
        int status = pysh.accel->offload_done(flights.token[i], &done);
        if (!status && !done) {
            i++;
            continue;
        }
        end_job(flights.number[i], status);
        flights.n--;
        flights.number[i] = flights.number[flights.n];
        flights.token[i] = flights.token[flights.n];
        landed = true;
    }
    return landed;
}

/* Until woken. `asleep` first, then `posted` once more, both sequentially consistent: see post() in engine.c. */
static void doze(uint64_t taken) {
    struct timespec nap = {.tv_nsec = LONG_NAP_NS};

    atomic_store(&queue->asleep, 1);
    if (atomic_load(&queue->posted) == taken)
        syscall(SYS_futex, &queue->asleep, FUTEX_WAIT, 1, &nap, NULL, 0);
    atomic_store(&queue->asleep, 0);
}

static void server_idle(int64_t polls, uint64_t taken) {
    struct timespec nap = {.tv_nsec = SHORT_NAP_NS};

    if (polls < queue->spin)
        pysh_relax();
    else if (polls < queue->spin + YIELDS)
        sched_yield();
    else if (flights.n)
        nanosleep(&nap, NULL);
    else
        doze(taken);
}

static void server_serve(void) {
    uint64_t taken = 0;
    int64_t polls = 0;

    for (;;) {
        uint64_t posted = atomic_load_explicit(&queue->posted, memory_order_acquire);
        bool moved = taken < posted;
        while (taken < posted)
            start_job(taken++);
        moved = land() || moved;
        polls = moved ? 0 : polls + 1;
        if (!moved)
            server_idle(polls, taken);
    }
}

int ishmemx_engine_main(void) {
    int status;

    close_others();
    queue = mmap(NULL, sizeof *queue, PROT_READ | PROT_WRITE, MAP_SHARED, PYSH_ENGINE_FD_QUEUE, 0);
    if (queue == MAP_FAILED) {
        fprintf(stderr, "pyshmem-engine is started by pyshmem, with PYSHMEM_ENGINE=process\n");
        return 1;
    }
    status = join();
    if (status)
        snprintf(queue->text, sizeof queue->text, "%s", ishmemx_error());
    /* release: pairs with wait_until_ready() */
    atomic_store_explicit(&queue->state, status ? PYSH_ENGINE_FAILED : PYSH_ENGINE_SERVES, memory_order_release);
    if (status)
        return 1;
    server_serve();
    return 0;
}
