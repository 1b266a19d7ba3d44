/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "accel/engine/engine.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel/engine/queue.h"
#include "accel/engine/spawn.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/say.h"
#include "base/state.h"
#include "base/status.h"

#define MAP_TIMEOUT_S   10
#define STOP_TIMEOUT_NS (2 * 1000000000LL)
#define OF_PROCESS      (1ULL << 63) /* in what pysh_engine_done() is asked about: no token of the accelerator's */
#define ALIVE_NS        1000000      /* between two looks whether the process still lives, while copies are under way */

static struct {
    pthread_mutex_t mutex;      /* for all but the queue's atomics */
    pysh_engine_queue_t *queue; /* NULL: no process */
    char *pieces;               /* behind the queue */
    uint32_t taken;             /* a bit a piece */
    int socket;
    pid_t pid;
    bool gone;    /* it died: copies go by the thread */
    uint64_t low; /* all jobs below are complete */
    uint64_t mark;
    int64_t looked_ns;
    pysh_completion_t reply[PYSH_ENGINE_JOBS]; /* of the job in a slot: where a kernel waits; address NULL: nowhere */
    bool by_caller[PYSH_ENGINE_JOBS];          /* of the same: who started it asks how it ended */
    uint64_t lost[PYSH_ENGINE_JOBS];       /* those below `low` that have failed and whose callers have not asked yet */
    int lost_of[PYSH_ENGINE_JOBS], n_lost; /* their status */
    _Atomic bool busy;                     /* jobs may be under way: what the proxies look at when they poll */
} engine = {.mutex = PTHREAD_MUTEX_INITIALIZER, .socket = -1};

/* ---- start and stop ---- */

static int wait_until_ready(const ishmemx_config_t *config) {
    int64_t timeout_ns = config->init_timeout_ns, deadline = pysh_now_ns() + timeout_ns;
    struct timespec nap = {.tv_nsec = 1000 * 1000};
    char byte;

    for (;;) {
        /* acquire: pairs with the release of the process; its text is there */
        uint32_t state = atomic_load_explicit(&engine.queue->state, memory_order_acquire);
        if (state == PYSH_ENGINE_SERVES)
            return ISHMEMX_OK;
        if (state == PYSH_ENGINE_FAILED)
            return pysh_fail(ISHMEMX_ERR_SYSTEM, "the copy engine's process: %s", engine.queue->text);
        if (recv(engine.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 &&
            atomic_load_explicit(&engine.queue->state, memory_order_acquire) == PYSH_ENGINE_STARTS)
            return pysh_fail(ISHMEMX_ERR_SYSTEM, "the copy engine's process (pid %d) ended before it served",
                             (int)engine.pid);
        if (timeout_ns && pysh_now_ns() > deadline)
            return pysh_fail(ISHMEMX_ERR_TIMEOUT, "the copy engine's process (pid %d) did not begin to serve",
                             (int)engine.pid);
        nanosleep(&nap, NULL);
    }
}

static void name_near(pysh_engine_map_t *map) {
    for (int place = 0; place < ISHMEMX_MAX_NEAR_PES; place++)
        map->near[place] = -1;
    for (int pe = pysh_near_begin(); pe < pysh_near_end(); pe++)
        if (pysh_near(pe) && (pysh.p2p || pe == pysh.pe))
            map->near[pysh_near_place(pe)] = pe;
}

static bool ended(uint64_t number) {
    return atomic_load_explicit(&engine.queue->job[number % PYSH_ENGINE_JOBS].done, memory_order_acquire) == number + 1;
}

/* With the mutex held. All copies that a process has left undone have failed. */
static void bury(void) {
    uint64_t posted = atomic_load(&engine.queue->posted);

    engine.gone = true;
    snprintf(engine.queue->text, sizeof engine.queue->text,
             "the copy engine's process (pid %d) has died; copies go by the proxy's thread from now on",
             (int)engine.pid);
    for (uint64_t number = engine.low; number < posted; number++)
        if (!ended(number)) {
            pysh_engine_job_t *job = &engine.queue->job[number % PYSH_ENGINE_JOBS];
            job->status = ISHMEMX_ERR_SYSTEM;
            atomic_store_explicit(&job->done, number + 1, memory_order_release);
        }
}

/* The answer comes in a few ms; a process that is stuck in the driver is given up. Not with the mutex held: the proxies
 * go on meanwhile. What they peek at on the socket may be the answer: no end. */
static int engine_map(int pe, int64_t at, int64_t nbytes, int fd) {
    pysh_engine_part_t part = {.place = pysh_near_place(pe), .at = at, .nbytes = nbytes};
    struct timeval patience = {.tv_sec = MAP_TIMEOUT_S};
    int32_t answer = ISHMEMX_ERR_SYSTEM;

    if (!engine.queue || engine.gone)
        return ISHMEMX_OK;
    setsockopt(engine.socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (pysh_send_descriptor(engine.socket, NULL, 0, &part, sizeof part, fd) != sizeof part ||
        recv(engine.socket, &answer, sizeof answer, MSG_WAITALL) != sizeof answer) {
        pthread_mutex_lock(&engine.mutex);
        if (!engine.gone)
            bury();
        pthread_mutex_unlock(&engine.mutex);
        return ISHMEMX_OK; /* the proxy's thread copies from now on */
    }
    return answer && fd >= 0 ? pysh_fail(answer, "the copy engine's process: %s", engine.queue->text) : ISHMEMX_OK;
}

static int process_start(const ishmemx_config_t *config) {
    pysh_engine_queue_t *queue;
    int fd[PYSH_ENGINE_FDS] = {0}, arenas = -1;
    int status;

    if ((status = pysh_engine_segment(PYSH_ENGINE_SEGMENT, &queue, &fd[PYSH_ENGINE_FD_QUEUE])))
        return status;
    queue->accelerator = config->accelerator;
    queue->parent = (int)getpid();
    queue->spin = pysh_engine_spin();
    status = pysh.accel->share(&queue->map, &arenas);
    name_near(&queue->map);
    fd[PYSH_ENGINE_FD_ARENAS] = arenas;
    if (!status)
        status = pysh_engine_spawn(fd, &engine.socket, &engine.pid);
    close(fd[PYSH_ENGINE_FD_QUEUE]);
    if (status) {
        munmap(queue, PYSH_ENGINE_SEGMENT);
        return status;
    }
    engine.low = engine.mark = engine.taken = 0, engine.n_lost = 0;
    engine.gone = false;
    engine.pieces = (char *)queue + PYSH_ENGINE_PIECES_AT;
    engine.queue = queue;
    if ((status = wait_until_ready(config)) || (pysh.accel->hand_over && (status = pysh.accel->hand_over(engine_map))))
        pysh_engine_stop();
    return status;
}

int pysh_engine_start(const ishmemx_config_t *config) {
    enum { AUTO, THREAD };
    int64_t where;
    int status = ishmemx_setting_number("ENGINE", &where);

    if (status || where == THREAD)
        return status;
    if (where == AUTO && pysh.accel->cpu_visible) /* no driver, so no lock of a driver to be kept from */
        return ISHMEMX_OK;
    status = process_start(config);
    if (status && where == AUTO) { /* no reason to end a job: the proxy's thread does the same work */
        pysh_sayf(STDERR_FILENO, "PE %d: kernels' copies are started by the proxy's thread, not by a process: %s\n",
                  pysh.pe, ishmemx_error());
        return ISHMEMX_OK;
    }
    return status;
}

/* The end of the socket ends the process; one that is stuck in a call of the driver is killed. */
void pysh_engine_stop(void) {
    int64_t deadline = pysh_now_ns() + STOP_TIMEOUT_NS;
    struct timespec nap = {.tv_nsec = 1000 * 1000};

    if (!engine.queue)
        return;
    shutdown(engine.socket, SHUT_RDWR);
    close(engine.socket);
    while (waitpid(engine.pid, NULL, WNOHANG) == 0) {
        if (pysh_now_ns() > deadline)
            kill(engine.pid, SIGKILL);
        nanosleep(&nap, NULL);
    }
    munmap(engine.queue, PYSH_ENGINE_SEGMENT);
    engine.queue = NULL;
    engine.pieces = NULL;
    engine.socket = -1;
    atomic_store(&engine.busy, false);
}

/* ---- copies ---- */

static bool place_in(const void *address, uint64_t nbytes, int pe, uint64_t *place_p) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)arena->peer[pe]);

    *place_p = (uint64_t)pysh_near_place(pe) << PYSH_ENGINE_PLACE_PE | offset;
    return arena->peer[pe] && offset < (uint64_t)arena->nbytes && nbytes <= (uint64_t)arena->nbytes - offset;
}

static bool place_in_pieces(const void *address, uint64_t nbytes, uint64_t *place_p) {
    uint64_t all = PYSH_ENGINE_PIECES * PYSH_ENGINE_PIECE;
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)engine.pieces);

    *place_p = (uint64_t)PYSH_ENGINE_IN_PIECES << PYSH_ENGINE_PLACE_PE | offset;
    return offset < all && nbytes <= all - offset;
}

/* One end of a copy is at `pe`, the other the caller's; false when that is neither on a device heap nor in a piece. */
static bool engine_place_of(const void *address, uint64_t nbytes, int pe, uint64_t *place_p) {
    return place_in(address, nbytes, pysh.pe, place_p) || place_in(address, nbytes, pe, place_p) ||
           place_in_pieces(address, nbytes, place_p);
}

static bool job_of(pysh_engine_job_t *job, int pe, const void *dest, const void *source, size_t nbytes,
                   const pysh_completion_t *completions, int n_completions) {
    bool mapped = n_completions <= PYSH_ENGINE_COMPLETIONS && engine_place_of(dest, nbytes, pe, &job->dest) &&
                  engine_place_of(source, nbytes, pe, &job->source);

    for (int i = 0; mapped && i < n_completions; i++) {
        mapped = engine_place_of(completions[i].address, 8, pe, &job->completion[i]);
        job->value[i] = completions[i].value;
    }
    job->nbytes = nbytes;
    job->n_completions = n_completions;
    job->pe = pe; /* the channels are by pysh_near_place() too */
    job->status = ISHMEMX_OK;
    return mapped;
}

/* The store of `posted` and the load of `asleep` are sequentially consistent, as the engine's two the other way round
 * are: one of them sees the other. */
static void post(uint64_t number) {
    atomic_store(&engine.queue->posted, number + 1);
    if (atomic_load(&engine.queue->asleep) && atomic_exchange(&engine.queue->asleep, 0))
        syscall(SYS_futex, &engine.queue->asleep, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* With the mutex held, when the slots are all used: the first ones that have been done are free. */
static void skip_done(void) {
    uint64_t posted = atomic_load_explicit(&engine.queue->posted, memory_order_relaxed);

    if (posted - engine.low < PYSH_ENGINE_JOBS)
        return;
    while (engine.low < posted && ended(engine.low) && !engine.queue->job[engine.low % PYSH_ENGINE_JOBS].status)
        engine.low++;
}

int pysh_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const pysh_completion_t *completions,
                     int n_completions, enum pysh_engine_told told, uint64_t *copy_p) {
    pysh_engine_job_t job = {.n_completions = 0}, *slot;
    uint64_t number;

    if (!engine.queue || !job_of(&job, pe, dest, source, nbytes, completions, n_completions))
        return pysh.accel->offload(pe, dest, source, nbytes, completions, n_completions, copy_p);
    pthread_mutex_lock(&engine.mutex);
    if (engine.gone) {
        pthread_mutex_unlock(&engine.mutex);
        return pysh.accel->offload(pe, dest, source, nbytes, completions, n_completions, copy_p);
    }
    number = atomic_load_explicit(&engine.queue->posted, memory_order_relaxed);
    skip_done();
    if (number - engine.low >= PYSH_ENGINE_JOBS) { /* pysh_engine_failure() takes `low` over those that failed */
        pthread_mutex_unlock(&engine.mutex);
        return PYSH_ENGINE_FULL;
    }
    slot = &engine.queue->job[number % PYSH_ENGINE_JOBS];
    atomic_store_explicit(&job.done, number, memory_order_relaxed); /* not n + 1: under way */
    *slot = job;
    engine.reply[number % PYSH_ENGINE_JOBS] =
        told == PYSH_ENGINE_KERNEL ? completions[n_completions - 1] : (pysh_completion_t){.address = NULL};
    engine.by_caller[number % PYSH_ENGINE_JOBS] = told == PYSH_ENGINE_CALLER;
    atomic_store(&engine.busy, true);
    post(number);
    pthread_mutex_unlock(&engine.mutex);
    *copy_p = OF_PROCESS | number;
    return ISHMEMX_OK;
}

/* ---- how far they are ---- */

bool pysh_engine_done(uint64_t copy) {
    uint64_t number = copy & ~OF_PROCESS;
    bool done = true;

    if (!(copy & OF_PROCESS))
        return pysh.accel->offload_done(copy, &done) || done;
    pthread_mutex_lock(&engine.mutex);
    if (engine.queue && number >= engine.low)
        done = ended(number);
    pthread_mutex_unlock(&engine.mutex);
    return done;
}

static void look_after(void) {
    int64_t now = pysh_now_ns();
    char byte;

    if (engine.gone || now - engine.looked_ns < ALIVE_NS)
        return;
    engine.looked_ns = now;
    if (recv(engine.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        bury();
}

/* With the mutex held: what a job that has ended failed of; the second time it is OK. */
static int take_status(uint64_t number) {
    pysh_engine_job_t *job = &engine.queue->job[number % PYSH_ENGINE_JOBS];
    int status = ISHMEMX_OK;

    if (number >= engine.low) { /* its slot is nobody else's yet */
        status = job->status;
        job->status = ISHMEMX_OK;
    }
    for (int i = 0; !status && i < engine.n_lost; i++)
        if (engine.lost[i] == number) {
            status = engine.lost_of[i];
            engine.lost[i] = engine.lost[--engine.n_lost];
            engine.lost_of[i] = engine.lost_of[engine.n_lost];
        }
    return status;
}

int pysh_engine_look(uint64_t copy, bool *done_p) {
    uint64_t number = copy & ~OF_PROCESS;
    int status = ISHMEMX_OK;

    if (!(copy & OF_PROCESS))
        return pysh.accel->offload_done(copy, done_p);
    *done_p = true;
    pthread_mutex_lock(&engine.mutex);
    if (engine.queue) {
        if (number >= engine.low && !ended(number))
            look_after();
        if (number >= engine.low && !ended(number))
            *done_p = false;
        else if ((status = take_status(number)))
            pysh_fail(status, "a copy to or from staging memory: %s", engine.queue->text);
    }
    pthread_mutex_unlock(&engine.mutex);
    return status;
}

bool pysh_engine_failure(pysh_completion_t *reply_p, int *status_p) {
    bool failed = false;

    if (!atomic_load_explicit(&engine.busy, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&engine.mutex);
    while (!failed && engine.low < atomic_load_explicit(&engine.queue->posted, memory_order_relaxed)) {
        if (!ended(engine.low)) {
            look_after();
            if (!ended(engine.low))
                break;
        }
        *status_p = engine.queue->job[engine.low % PYSH_ENGINE_JOBS].status;
        *reply_p = engine.reply[engine.low % PYSH_ENGINE_JOBS];
        if (*status_p && engine.by_caller[engine.low % PYSH_ENGINE_JOBS]) {
            if (engine.n_lost == PYSH_ENGINE_JOBS)
                break; /* until one asks */
            engine.lost[engine.n_lost] = engine.low++;
            engine.lost_of[engine.n_lost++] = *status_p;
            continue;
        }
        if ((failed = *status_p != ISHMEMX_OK))
            pysh_fail(*status_p, "a copy for a kernel: %s", engine.queue->text);
        engine.low++;
    }
    if (engine.low == atomic_load_explicit(&engine.queue->posted, memory_order_relaxed))
        atomic_store_explicit(&engine.busy, false, memory_order_relaxed);
    pthread_mutex_unlock(&engine.mutex);
    return failed;
}

void pysh_engine_mark(void) {
    pysh.accel->offload_mark();
    if (!engine.queue)
        return;
    pthread_mutex_lock(&engine.mutex);
    engine.mark = atomic_load_explicit(&engine.queue->posted, memory_order_relaxed);
    pthread_mutex_unlock(&engine.mutex);
}

int pysh_engine_finished(bool *marked_p, bool *all_p) {
    int status = pysh.accel->offload_finished(marked_p, all_p);

    if (!engine.queue)
        return status;
    pthread_mutex_lock(&engine.mutex); /* `low` is up to date: the proxy has just looked for failures */
    *marked_p = *marked_p && engine.low >= engine.mark;
    *all_p = *all_p && engine.low == atomic_load_explicit(&engine.queue->posted, memory_order_relaxed);
    pthread_mutex_unlock(&engine.mutex);
    return status;
}

/* ---- pieces ---- */

bool pysh_engine_reaches(const void *address, size_t nbytes) {
    uint64_t place;
    bool serves;

    pthread_mutex_lock(&engine.mutex);
    serves = engine.queue && !engine.gone && nbytes <= PYSH_ENGINE_PIECE;
    pthread_mutex_unlock(&engine.mutex);
    return serves && place_in(address, nbytes, pysh.pe, &place);
}

char *pysh_engine_piece(void) {
    char *piece = NULL;

    pthread_mutex_lock(&engine.mutex);
    if (engine.queue && engine.taken != UINT32_MAX) {
        int free = __builtin_ctz(~engine.taken);
        engine.taken |= 1U << free;
        piece = engine.pieces + (size_t)free * PYSH_ENGINE_PIECE;
    }
    pthread_mutex_unlock(&engine.mutex);
    return piece;
}

void pysh_engine_piece_back(const char *piece) {
    pthread_mutex_lock(&engine.mutex);
    if (engine.queue)
        engine.taken &= ~(1U << ((size_t)(piece - engine.pieces) / PYSH_ENGINE_PIECE));
    pthread_mutex_unlock(&engine.mutex);
}
