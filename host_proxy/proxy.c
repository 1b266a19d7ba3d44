/* SPDX-License-Identifier: BSD-3-Clause
 * The proxy: a thread for each ring, which takes requests in ticket order and answers in any. It never takes
 * Python's lock, allocates no device memory and uses streams of its own, so that a spinning kernel cannot stop it. */
#define _GNU_SOURCE
#include "host_proxy/proxy.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "accel/accel.h"
#include "am/am.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/say.h"
#include "base/state.h"
#include "base/status.h"
#include "base/thread.h"
#include "host_proxy/ring.h"
#include "host_proxy/rings.h"
#include "node/enter.h"
#include "node/wait.h"
#include "ops/amo_by_owner.h"

#define SPIN_ALONE      20000 /* polls before an idle proxy gives its core away, about a millisecond */
#define SPIN_SHARED     50
#define YIELDS          200
#define MIN_SLEEP_NS    (20 * 1000LL)
#define MAX_SLEEP_NS    (1000 * 1000LL)
#define AM_SLEEP_NS     (100 * 1000LL) /* where other nodes may ask for something */
#define STOP_TIMEOUT_NS (2 * 1000000000LL)
#define STOP_GRACE_NS   (1000000000LL) /* for a user's handler that has begun before */
#define LAST_LINES_NS   (1000000000LL) /* for what nobody has read yet */
#define KERNEL_END_NS   (200 * 1000000LL)
#define BATCH           64 /* requests before copies and quiets are looked at */

static struct {
    int n_rings;
    uint64_t slots;
    int64_t spin; /* polls of an idle proxy */
    pysh_ring_t *ring;
} proxy;

/* ---- configuration ---- */

int pysh_proxy_configure(void) {
    int64_t rings, slots;
    int status;

    if ((status = ishmemx_setting_number("RINGS", &rings)) || (status = ishmemx_setting_number("RING_SLOTS", &slots)) ||
        (status = ishmemx_setting_number("PROXY_SPIN", &proxy.spin)))
        return status;
    if (slots & (slots - 1))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "PYSHMEM_RING_SLOTS is %lld, not a power of two", (long long)slots);
    proxy.n_rings = (int)rings;
    proxy.slots = (uint64_t)slots;
    return ISHMEMX_OK;
}

static int64_t device_nbytes_of_ring(void) {
    return ((int64_t)sizeof(pysh_ring_device_t) + 2 * (int64_t)proxy.slots * 8 + 4095) & -4096;
}

int64_t pysh_proxy_device_nbytes(void) {
    return proxy.n_rings * device_nbytes_of_ring();
}

/* ---- one ring ---- */

/* acquire: each word pairs with the sender's store of it, behind the fence over what the request hands over. */
static bool proxy_take(pysh_ring_t *ring, uint64_t ticket, pysh_request_t *request) {
    const pysh_slot_t *slot = &ring->slots[ticket & ring->mask];
    uint64_t phase = pysh_ring_phase(ticket, ring->log2_n);
    pysh_slot_t copy;

    copy.word[PYSH_SLOT_WORDS - 1] = __atomic_load_n(&slot->word[PYSH_SLOT_WORDS - 1], __ATOMIC_ACQUIRE);
    if (copy.word[PYSH_SLOT_WORDS - 1] >> 56 != phase)
        return false;
    for (int i = 0; i < PYSH_SLOT_WORDS - 1; i++)
        copy.word[i] = __atomic_load_n(&slot->word[i], __ATOMIC_ACQUIRE);
    return pysh_request_unpack(&copy, phase, request);
}

/* release: pairs with the sender's load; the slots below have been copied out. */
static void publish(pysh_ring_t *ring, uint64_t head) {
    if (ring->published == head)
        return;
    ring->published = head;
    __atomic_store_n(&ring->control->consumed, head, __ATOMIC_RELEASE);
    pysh_ring_count(&ring->stats.credits, 1);
}

/* False: not now, for want of room. */
static bool proxy_serve(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    pysh_outcome_t result = pysh_ring_handle(ring, ticket, request);

    if (result.pending || result.again)
        return !result.again;
    pysh_ring_answer(ring, ticket, request, result.value, result.status);
    return true;
}

/* Up to BATCH requests, one once it is time to stop, so that the deadline is looked at behind each; how many. */
static int serve_some(pysh_ring_t *ring) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    pysh_request_t request;
    int n = 0;

    while (n < BATCH && pysh_flight_room(ring) && !(n && atomic_load_explicit(&ring->stop, memory_order_relaxed))) {
        if (proxy_take(ring, head, &request)) {
            if (!proxy_serve(ring, head, &request))
                break;
        } else if (!pysh_ring_given_up(ring, head)) {
            break;
        }
        head++;
        n++;
        /* release: pairs with pysh_proxy_drain(), which then sees what the request did */
        atomic_store_explicit(&ring->head, head, memory_order_release);
        if (head - ring->published >= ring->credit)
            publish(ring, head);
    }
    if (n == BATCH &&
        proxy_take(ring, head + ring->mask, &request)) /* full to the last slot: senders wait for credit */
        pysh_ring_count(&ring->stats.stalls, 1);
    return n;
}

static void proxy_idle(int64_t polls) {
    int64_t turn = polls - proxy.spin - YIELDS;
    struct timespec nap = {.tv_nsec = turn > 12 ? MAX_SLEEP_NS : MIN_SLEEP_NS << (turn > 0 ? turn / 2 : 0)};

    if (pysh_am_is_open() && nap.tv_nsec > AM_SLEEP_NS)
        nap.tv_nsec = pysh_am_busy() ? MIN_SLEEP_NS : AM_SLEEP_NS;
    if (polls < proxy.spin)
        pysh_relax();
    else if (turn < 0)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

/* Whether the slot has been written for its ticket. It keeps the phase until the next lap. */
static bool written(const pysh_ring_t *ring, uint64_t ticket) {
    uint64_t first = __atomic_load_n(&ring->slots[ticket & ring->mask].word[0], __ATOMIC_ACQUIRE);

    return first >> 56 == pysh_ring_phase(ticket, ring->log2_n) || pysh_ring_last_skipped(ring, ticket) > ticket;
}

/* Requests that wait, or copies that no quiet has completed yet? */
static bool under_way(pysh_ring_t *ring) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire); /* pairs with serve_some() */

    /* acquire: pairs with step_quiet(); what it completed is visible */
    return written(ring, head) || (atomic_load_explicit(&ring->in_flight, memory_order_acquire) &&
                                   __atomic_load_n(&ring->control->acked, __ATOMIC_ACQUIRE) < head);
}

/* release: pairs with the acquire in pysh_ring_wanted(). A word of its own, for the host's atomics and a GPU's stores
 * do not know of each other. */
static void ask_quiet(pysh_ring_t *ring, uint64_t target) {
    uint64_t wanted = atomic_load_explicit(&ring->wanted, memory_order_relaxed);

    while (wanted < target && !atomic_compare_exchange_weak_explicit(&ring->wanted, &wanted, target,
                                                                     memory_order_release, memory_order_relaxed))
        continue;
}

/* Once it has been told to stop, the thread ends when nothing is under way, or at the deadline: a kernel that goes
 * on sending, or a copy that never ends, must not keep it. */
static bool proxy_finished(pysh_ring_t *ring, int64_t *deadline) {
    if (!atomic_load_explicit(&ring->stop, memory_order_acquire)) /* pairs with pysh_proxy_stop() */
        return false;
    if (!*deadline)
        *deadline = pysh_now_ns() + STOP_TIMEOUT_NS;
    if (!ring->n_flights && !under_way(ring))
        return true;
    ask_quiet(ring, atomic_load_explicit(&ring->head, memory_order_relaxed));
    return pysh_now_ns() > *deadline;
}

static void *proxy_run(void *argument) {
    pysh_ring_t *ring = argument;
    int64_t polls = 0, deadline = 0;

    pysh_wait_to_the_end(true); /* kernels are served until the job has ended */
    pysh.accel->thread_begin();
    while (!proxy_finished(ring, &deadline)) {
        int served = serve_some(ring);
        bool moved = pysh_ring_progress(ring);
        if (ring == proxy.ring)
            moved = pysh_amo_serve_others() || moved;
        if (served || moved) {
            polls = 0;
            continue;
        }
        publish(ring, atomic_load_explicit(&ring->head, memory_order_relaxed));
        if (polls > proxy.spin + YIELDS)
            pysh_ring_watch();
        proxy_idle(polls++);
    }
    return NULL;
}

/* ---- start and stop ---- */

static int64_t spin_choose(void) {
    if (proxy.spin >= 0)
        return proxy.spin;
    return 2 * pysh.n_pes <= pysh_cores() ? SPIN_ALONE : SPIN_SHARED;
}

static int ring_open(pysh_ring_t *ring, char *device) {
    size_t slots_bytes = proxy.slots * sizeof(pysh_slot_t);
    size_t control_bytes = sizeof(pysh_ring_control_t) + proxy.slots * (sizeof(pysh_cell_t) + sizeof(uint64_t));
    void *slots, *control;
    int status;

    *ring = (pysh_ring_t){.n = proxy.slots,
                          .mask = proxy.slots - 1,
                          .log2_n = (unsigned)__builtin_ctzll(proxy.slots),
                          .overdue = UINT64_MAX / 2};
    ring->credit = ring->n / 2 < PYSH_RING_CREDIT ? ring->n / 2 : PYSH_RING_CREDIT;
    ring->device = (pysh_ring_device_t *)(void *)device;
    if ((status = pysh.accel->shared_alloc(slots_bytes, &slots, &ring->slots_seen)))
        return status;
    ring->slots = pysh.accel->cpu_visible ? slots : memset(slots, 0, slots_bytes); /* the simulator's is zero */
    if ((status = pysh.accel->shared_alloc(control_bytes, &control, &ring->control_seen)))
        return status;
    ring->control = pysh.accel->cpu_visible ? control : memset(control, 0, control_bytes);
    if (!pysh.arena[ISHMEMX_HEAP_DEVICE].cpu_visible) {
        void *seen;
        status = pysh.accel->shared_alloc(PYSH_PIECE_BYTES, &ring->stage, &seen);
    }
    return status;
}

static int thread_start(pysh_ring_t *ring) {
    char name[16];
    int error;

    snprintf(name, sizeof name, "pysh-proxy%u", (unsigned)(ring - proxy.ring) % 1000);
    error = pysh_thread_start(&ring->thread, name, proxy_run, ring);

    ring->started = !error;
    return error ? pysh_fail(ISHMEMX_ERR_SYSTEM, "starting a proxy thread: %s", strerror(error)) : ISHMEMX_OK;
}

int pysh_proxy_start(char *device) {
    int status = ISHMEMX_OK;

    proxy.ring = aligned_alloc(PYSH_CACHE_LINE, ((size_t)proxy.n_rings * sizeof *proxy.ring + PYSH_CACHE_LINE - 1) /
                                                    PYSH_CACHE_LINE * PYSH_CACHE_LINE);
    if (!proxy.ring)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for %d rings", proxy.n_rings);
    memset(proxy.ring, 0, (size_t)proxy.n_rings * sizeof *proxy.ring);
    proxy.spin = spin_choose();
    for (int k = 0; !status && k < proxy.n_rings; k++)
        status = ring_open(&proxy.ring[k], device + k * device_nbytes_of_ring());
    if (!status && (!pysh.accel->cpu_visible || pysh.owns_amos))
        status = pysh_proxy_wake();
    if (status)
        pysh_proxy_stop();
    return status;
}

int pysh_proxy_wake(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* any thread may be the first to launch a kernel */
    int status = ISHMEMX_OK;

    pthread_mutex_lock(&mutex);
    for (int k = 0; !status && proxy.ring && k < proxy.n_rings; k++)
        if (!proxy.ring[k].started)
            status = thread_start(&proxy.ring[k]);
    pthread_mutex_unlock(&mutex);
    return status;
}

/* Waits for the thread; false when a user's handler keeps it for longer than *left_p: then it is left behind, and
 * takes nothing of the ring's with it. */
static bool joined(pysh_ring_t *ring, int64_t *left_p) {
    struct timespec nap = {.tv_nsec = MAX_SLEEP_NS};

    for (;;) {
        int64_t before = pysh_now_ns();

        if (pthread_tryjoin_np(ring->thread, NULL) == 0)
            return true;
        nanosleep(&nap, NULL);
        *left_p -= pysh_counted_ns(pysh_now_ns() - before); /* the handler stood still, too */
        if (*left_p < 0 && atomic_compare_exchange_strong(&ring->calls, &(int){PYSH_RING_CALLS}, PYSH_RING_LEFT)) {
            pthread_detach(ring->thread);
            pysh_sayf(STDERR_FILENO,
                      "PE %d: a handler that a kernel called has not returned; its thread is left behind\n", pysh.pe);
            return false;
        }
    }
}

static void ring_close(pysh_ring_t *ring) {
    if (ring->slots)
        pysh.accel->shared_free(ring->slots);
    if (ring->control)
        pysh.accel->shared_free(ring->control);
    if (ring->stage)
        pysh.accel->shared_free(ring->stage);
}

void pysh_proxy_stop(void) {
    int64_t left = STOP_TIMEOUT_NS + STOP_GRACE_NS;
    bool all = true;

    for (int k = 0; proxy.ring && k < proxy.n_rings; k++)
        atomic_store_explicit(&proxy.ring[k].stop, true, memory_order_release);
    for (int k = 0; proxy.ring && k < proxy.n_rings; k++)
        proxy.ring[k].started = proxy.ring[k].started && !joined(&proxy.ring[k], &left);
    for (int k = 0; proxy.ring && k < proxy.n_rings; k++) { /* when all have ended, who watch each other's rings */
        if (proxy.ring[k].started)
            all = false;
        else
            ring_close(&proxy.ring[k]);
    }
    if (all) /* a thread that is left behind looks at its ring once more */
        free(proxy.ring);
    proxy.ring = NULL;
    pysh_say_rest(LAST_LINES_NS);
}

/* ---- what others ask ---- */

/* The tickets that are written now. Later ones are not waited for: a kernel that keeps sending must not hold the
 * host's quiet up for ever. */
static uint64_t written_so_far(pysh_ring_t *ring) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire), ticket = head;

    while (ticket - head < ring->n && written(ring, ticket))
        ticket++;
    return ticket;
}

static int proxy_drain(pysh_ring_t *ring) {
    uint64_t target = written_so_far(ring);
    pysh_wait_t wait;
    int status = ISHMEMX_OK;

    ask_quiet(ring, target);
    pysh_wait_begin(&wait, "quiet");
    /* acquire: pairs with step_quiet() */
    while (!status && __atomic_load_n(&ring->control->acked, __ATOMIC_ACQUIRE) < target)
        status = pysh_wait_pause(&wait);
    pysh_wait_end(&wait);
    return status;
}

int pysh_proxy_drain(void) {
    int status = ISHMEMX_OK;

    for (int k = 0; !status && proxy.ring && k < proxy.n_rings; k++)
        if (under_way(&proxy.ring[k]))
            status = proxy_drain(&proxy.ring[k]);
    /* A request that failed meanwhile is this call's error, not that of the next. */
    if (!status && proxy.ring && __atomic_load_n(&pysh.fault[1].kind, __ATOMIC_RELAXED))
        status = pysh_enter();
    return status;
}

/* A program that ends at once behind a kernel has no quiet that would wait for an idle proxy to wake up; on a GPU,
 * whose host notices the end of a kernel later than the proxy does a request, it is not needed. */
void pysh_proxy_kernel_ends(void) {
    const struct timespec nap = {.tv_nsec = MIN_SLEEP_NS};
    int64_t end = 0;

    for (int k = 0; proxy.ring && pysh.accel->cpu_visible && k < proxy.n_rings; k++) {
        pysh_ring_t *ring = &proxy.ring[k];
        /* relaxed: raised by the calling thread, which ran the kernel. acquire: pairs with serve_some() */
        uint64_t sent = __atomic_load_n(&ring->device->pending, __ATOMIC_RELAXED);
        while (atomic_load_explicit(&ring->head, memory_order_acquire) < sent) {
            int64_t now = pysh_now_ns();
            end = end ? end : now + KERNEL_END_NS;
            if (now > end)
                return;
            nanosleep(&nap, NULL);
        }
    }
}

void pysh_proxy_state(int64_t *words) {
    words[ISHMEMX_STATE_RINGS] = proxy.ring ? proxy.n_rings : 0;
    words[ISHMEMX_STATE_RING_SLOTS] = (int64_t)proxy.slots;
    words[ISHMEMX_STATE_RING_LOG2] = __builtin_ctzll(proxy.slots | 1ULL << 63);
    for (int k = 0; proxy.ring && k < proxy.n_rings; k++) {
        int64_t *word = &words[ISHMEMX_STATE_RING + 4 * k];
        word[0] = (int64_t)(intptr_t)proxy.ring[k].slots_seen;
        word[1] = (int64_t)(intptr_t)proxy.ring[k].control_seen;
        word[2] = (int64_t)(intptr_t)proxy.ring[k].device;
    }
}

pysh_ring_t *pysh_proxy_rings(int *n_rings_p) {
    *n_rings_p = proxy.ring ? proxy.n_rings : 0;
    return proxy.ring;
}
