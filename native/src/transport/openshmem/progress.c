/* SPDX-License-Identifier: BSD-3-Clause
 * How a PE of the openshmem conduit waits, serves the others meanwhile, notices who is gone, and aborts. */
#define _GNU_SOURCE
#include "transport/openshmem/progress.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/status.h"
#include "base/thread.h"
#include "ishmemx.h"
#include "node/control.h"
#include "node/kernel_waits.h"
#include "node/node.h"
#include "node/sleep.h"
#include "node/wait.h"
#include "transport/openshmem/hosts.h"
#include "transport/openshmem/openshmem.h"

#define BACKGROUND_NS   (200 * 1000LL)
#define BETWEEN_JOBS_NS (2 * 1000 * 1000LL)
#define ABORT_ATTEMPTS  200

/* ---- progress ---- */

void pysh_os_progress(void) {
    if (pthread_mutex_trylock(&pysh_os.mutex))
        return;
    if (pysh_os.library->progress)
        pysh_os.library->progress();
    else /* a routine that every implementation makes progress in */
        pysh_os.library->long_test((long *)&pysh_os.control->released, 1, 0);
    PYSH_OS_UNLOCK();
}

static struct {
    bool started;
    pthread_t thread;
    _Atomic bool stop;
} background;

/* PEs on other hosts may ask for memory of this one while it computes, and still when it has finalised: they read in
 * their finalize what it has left for them, and a network without hardware for that needs this host's CPU. So the
 * thread ends with the library, not with the job; between jobs it looks seldom. */
static void *os_serve(void *unused) {
    const _Atomic uint32_t *state = &pysh_os.control->slot.state;

    while (!atomic_load(&background.stop)) {
        bool in_job = atomic_load_explicit(state, memory_order_relaxed) == PYSH_PE_RUNNING;
        const struct timespec period = {.tv_nsec = in_job ? BACKGROUND_NS : BETWEEN_JOBS_NS};
        if (!pysh_openshmem_is_over(pysh_os.library))
            pysh_os_progress();
        nanosleep(&period, NULL);
    }
    return unused;
}

int pysh_os_serve_in_background(void) {
    int why = pysh_thread_start(&background.thread, "pysh-conduit", os_serve, NULL);

    if (why)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "the thread that serves other hosts: %s", strerror(why));
    background.started = true;
    return ISHMEMX_OK;
}

void pysh_os_serve_no_more(void) {
    if (!background.started)
        return;
    atomic_store(&background.stop, true);
    pthread_join(background.thread, NULL);
    background.started = false;
}

/* ---- waiting ---- */

void pysh_os_wake(int pe) {
    if (pysh_os.peer[pe])
        pysh_sleep_wake(&pysh_os.peer[pe]->slot.sleeping, PYSH_SLEEPS | PYSH_SLEEPS_FOR_MEMORY);
}

static int peer_lost(int pe, const char *how) {
    char during[PYSH_ACTIVITY_TEXT + 32];

    pysh_control_during(&pysh_os.control->slot, during, sizeof during);
    if (!pysh_os.peer[pe])
        return pysh_fail(ISHMEMX_ERR_PEER, "PE %d on host %s %s%s", pe, pysh_os_host(pe), how, during);
    return pysh_fail(ISHMEMX_ERR_PEER, "PE %d (pid %d) %s%s", pe, (int)atomic_load(&pysh_os.peer[pe]->slot.pid), how,
                     during);
}

static bool process_ended(const pysh_control_slot_t *slot) {
    pysh_process_t process = pysh_control_process(slot);

    return pysh_process_ended(&process);
}

/* Deaths on other hosts are noticed by the launcher, which ends the job. */
int pysh_os_liveness(void) {
    int left = -1;

    /* acquire: pairs with the fence in pysh_os_abort() */
    if (atomic_load_explicit(&pysh_os.control->aborted, memory_order_acquire))
        return pysh_fail(ISHMEMX_ERR_PEER, "the job is being aborted: %s", pysh_os.control->why);
    for (int pe = 0; pe < pysh_os.n_pes; pe++) {
        const pysh_control_slot_t *slot = pysh_os.peer[pe] ? &pysh_os.peer[pe]->slot : NULL;
        bool ended = slot && pe != pysh_os.pe && process_ended(slot);

        /* After the look at the process: a PE that ended without having said so has died. */
        if (slot && atomic_load_explicit(&slot->state, memory_order_acquire) == PYSH_PE_FINALIZED)
            left = pe;
        else if (ended)
            return peer_lost(pe, "died");
    }
    if (left >= 0)
        return peer_lost(left, "finalised");
    return pysh_os.n_pes > 1 ? pysh_os_others_left(true) : ISHMEMX_OK;
}

void pysh_os_tell_left(void) {
    struct timespec limit;
    bool locked;

    /* release: pairs with the acquire in pysh_os_others_left() */
    atomic_store_explicit(&pysh_os.control->slot.state, PYSH_PE_LEFT, memory_order_release);
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec++;
    locked = pthread_mutex_timedlock(&pysh_os.mutex, &limit) == 0; /* a handler may exit() inside of the library */
    for (int pe = 0; locked && pe < pysh_os.n_pes; pe++)
        if (!pysh_os.peer[pe])
            pysh_os.library->uint_atomic_set((unsigned *)&pysh_os.control->left, (unsigned)pysh_os.pe + 1, pe);
    if (locked)
        PYSH_OS_UNLOCK();
}

int pysh_os_others_left(bool all) {
    int n = 0, last = (int)atomic_load(&pysh_os.control->left) - 1;

    if (last >= 0 && !all)
        return peer_lost(last, "ended without finalize");

    for (int pe = 0; pe < pysh_os.n_pes; pe++)
        /* acquire: pairs with the release in leave_job() */
        if (pysh_os.peer[pe] &&
            atomic_load_explicit(&pysh_os.peer[pe]->slot.state, memory_order_acquire) == PYSH_PE_LEFT) {
            last = pe;
            n++;
        }
    if (n == 0 || (all && n < pysh_os.n_pes - 1))
        return ISHMEMX_OK;
    return peer_lost(last, "ended without finalize");
}

/* ---- abort ---- */

static void abort_mapped(int pe, const char *reason, uint32_t word) {
    pysh_os_control_t *peer = pysh_os.peer[pe];

    if (atomic_load(&peer->aborted))
        return;
    memcpy(peer->why, reason, sizeof peer->why);
    /* release: pairs with the acquire in pysh_os_liveness() */
    atomic_store_explicit(&peer->aborted, word, memory_order_release);
    pysh_os_wake(pe);
}

/* Does not wait for the others: they may serve nobody any more. */
static void abort_remote(int pe, const char *reason, uint32_t word) {
    PYSH_OS_LOCK();
    pysh_os.library->putmem(pysh_os.control->why, reason, sizeof pysh_os.control->why, pe);
    pysh_os.library->fence();
    pysh_os.library->putmem((void *)&pysh_os.control->aborted, &word, sizeof word, pe);
    PYSH_OS_UNLOCK();
}

void pysh_os_abort(uint32_t word, const char *why) {
    const struct timespec moment = {.tv_nsec = 1000 * 1000};
    char reason[sizeof pysh_os.control->why] = "";
    bool remote = false;

    pysh_os.unfit = true;
    snprintf(reason, sizeof reason, "%s", why);
    for (int pe = 0; pe < pysh_os.n_pes; pe++) {
        if (pysh_os.peer[pe]) {
            abort_mapped(pe, reason, word);
        } else {
            abort_remote(pe, reason, word);
            remote = true;
        }
    }
    for (int i = 0; remote && i < ABORT_ATTEMPTS; i++) {
        pysh_os_progress();
        nanosleep(&moment, NULL);
    }
}

const _Atomic uint32_t *pysh_os_alarm(void) {
    return &pysh_os.control->aborted;
}
