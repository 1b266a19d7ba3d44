/* SPDX-License-Identifier: BSD-3-Clause
 * How a PE waits: it spins, then yields its core, then sleeps until it is woken; while it waits slowly
 * it looks for interrupts, dead PEs and its deadline. */
#define _GNU_SOURCE
#include "node/wait.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "accel/accel.h"
#include "base/clock.h"
#include "base/elements.h"
#include "base/interrupt.h"
#include "base/say.h"
#include "base/state.h"
#include "base/status.h"
#include "node/control.h"
#include "node/kernel_waits.h"
#include "node/node.h"
#include "node/polls.h"
#include "node/report.h"

#define YIELD_NS    (200 * 1000LL)
#define MIN_IDLE_NS (50 * 1000LL)
#define MAX_IDLE_NS (1000 * 1000LL)
#define CHECK_NS    (10 * 1000 * 1000LL)
#define LIVENESS_NS (100 * 1000 * 1000LL)
#define MAIN_NS     (1000 * 1000 * 1000LL)
#define PLACE_NS    (50 * 1000 * 1000LL)

/* How long finalize waits for other threads to come out of their waits. */
#define DRAIN_NS (1000 * 1000 * 1000LL)

static _Atomic int n_waiting; /* threads of the program in a wait that did not end at its first look */
static _Thread_local bool to_the_end;
static _Thread_local pysh_wait_t *inside;                      /* the thread's own wait of those, the innermost */
static pthread_mutex_t slow_mutex = PTHREAD_MUTEX_INITIALIZER; /* for the list */
static pysh_wait_t *slow;                                      /* the PE's slow waits, the latest first */

static _Thread_local char given_name[64]; /* of the thread's waits; empty: none */

static void (*_Atomic waiting_progress)(void);

void pysh_wait_set_progress(void (*progress)(void)) {
    atomic_store_explicit(&waiting_progress, progress, memory_order_relaxed);
}

/* ---- waits of other threads end before the job does ---- */

void pysh_wait_to_the_end(bool really) {
    to_the_end = really;
}

bool pysh_waits_to_the_end(void) {
    return to_the_end;
}

static int ended(const pysh_wait_t *wait) {
    if (atomic_load(&pysh.ready) != PYSH_ENDING || to_the_end)
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_STATE, "%s: another thread finalised pyshmem while this one waited", wait->what);
}

const char *pysh_wait_inside(void) {
    return inside ? inside->what : NULL;
}

bool pysh_waits_drain(bool (*busy)(void)) {
    const struct timespec moment = {.tv_nsec = 100 * 1000};
    int64_t deadline = pysh_now_ns() + DRAIN_NS;

    while (atomic_load(&n_waiting) || busy()) {
        if (pysh_now_ns() > deadline)
            return false;
        nanosleep(&moment, NULL);
    }
    return true;
}

/* ---- slow waits ---- */

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void ishmemx_name_waits(const char *name) {
    snprintf(given_name, sizeof given_name, "%s", name ? name : "");
}

const char *pysh_wait_given_name(const char *what) {
    return given_name[0] ? given_name : what;
}

/* "barrier_all", "wait_until (>= 7, seen 5)". */
static const char *named(const pysh_wait_t *wait, char *text, size_t capacity) {
    char aim[96]; /* two numbers of 64 bits and an element's, and room for the routine's name beside it */

    if (given_name[0])
        return given_name;
    if (!wait->aim.describe)
        return wait->what;
    wait->aim.describe(wait->aim.of, aim, sizeof aim);
    if (!aim[0])
        return wait->what;
    snprintf(text, capacity, "%s (%s)", wait->what, aim);
    return text;
}

static int deadline_passed(const pysh_wait_t *wait) {
    char standing[8192], name[PYSH_ACTIVITY_TEXT];

    pysh_report(standing, sizeof standing);
    return pysh_fail(ISHMEMX_ERR_TIMEOUT, "%s took longer than %.3g s (%s); the PEs stand:\n%s",
                     named(wait, name, sizeof name), (double)pysh.timeout_ns * 1e-9,
                     pysh.ready ? "PYSHMEM_TIMEOUT" : "PYSHMEM_INIT_TIMEOUT", standing);
}

static void report_if_long(pysh_wait_t *wait) {
    char name[PYSH_ACTIVITY_TEXT];

    const char *why;

    if (wait->reported ||
        !(why = pysh_report_due(&wait->alone_ns, wait->waited_ns, wait->kind == PYSH_WAITS_FOR_WORDS)))
        return;
    wait->reported = true;
    pysh_report_long_wait(named(wait, name, sizeof name), wait->place, wait->start_ns, why);
}

static int run_handlers(pysh_wait_t *wait) {
    const pysh_wait_barrier_t *barrier = wait->barrier;

    if (!barrier || !pysh_has_interrupt_check())
        return pysh_wait_interrupted(wait->what);
    if (!barrier->leave(wait))
        return ISHMEMX_OK; /* the wait is about to end */
    wait->has_left = pysh_wait_interrupted(wait->what);
    if (wait->has_left)
        return ISHMEMX_ERR_INTERRUPTED;
    barrier->come_back(wait);
    return ISHMEMX_OK;
}

/* A PE that stood still, stopped from a terminal or on a machine that had no time for it, did not wait meanwhile, and
 * those that it waits for may have stood still too. */
static void count_time(pysh_wait_t *wait, int64_t now) {
    int64_t waited_ns = wait->waited_ns + pysh_counted_ns(now - wait->checked_ns);

    /* relaxed: shown_kind() of another thread reads it, and nothing else by it */
    __atomic_store_n(&wait->waited_ns, waited_ns, __ATOMIC_RELAXED);
    wait->checked_ns = now;
}

/* Is the main thread at work, or in a call of the system that is no wait for another thread: asleep, in a read? Where
 * the system does not say it, it is taken for one that waits for this one, as by a future. */
static bool main_is_elsewhere(void) {
    char line[40] = "";
    FILE *file;

    snprintf(line, sizeof line, "/proc/self/task/%d/syscall", (int)getpid());
    if (!(file = fopen(line, "re")))
        return false;
    if (!fgets(line, sizeof line, file))
        line[0] = '\0';
    fclose(file);
    return line[0] && atoi(line) != SYS_futex; /* "running" is 0 */
}

/* Who waits for a future may look up from that now and then, for signals: not at every look of this. */
static bool main_goes_on(void) {
    enum { LOOKS = 10 };
    static int looks; /* in which it was elsewhere, one after the other */

    for (const pysh_wait_t *wait = slow; wait; wait = wait->next_slow)
        if (wait->by_main)
            return false;
    looks = main_is_elsewhere() ? looks + 1 : 0;
    return looks >= LOOKS;
}

/* A PE whose streams go on with something, or its program, may end others' waits by that, whatever is waited for here.
 * With the list's mutex held. */
static pysh_activity_t shown_kind(const pysh_wait_t *wait) {
    bool (*works)(bool kernels_wait) = pysh.accel ? pysh.accel->streams->works : NULL;
    int64_t waited_ns = __atomic_load_n(&wait->waited_ns, __ATOMIC_RELAXED); /* perhaps of another thread's wait */

    if (wait->kind == PYSH_WAITS_FOR_WORDS && waited_ns > MAIN_NS && main_goes_on())
        return PYSH_WAITS;
    if (wait->kind == PYSH_WAITS_FOR_WORDS && works && works(pysh_board_waits(&pysh_node.own->board)))
        return PYSH_WAITS;
    return wait->kind;
}

static void publish_as(const char *name, const char *place, int64_t since_ns, pysh_activity_t kind) {
    char text[PYSH_ACTIVITY_TEXT];

    if (place[0]) {
        size_t used = (size_t)snprintf(text, sizeof text, "%s\n", place);
        memccpy(text + used, name, '\0', sizeof text - used); /* which need not end, where it is long */
    }
    pysh_node_activity(place[0] ? text : name, since_ns, kind);
}

/* What is published is the latest of the slow waits. */
static void publish(void) {
    if (slow)
        publish_as(slow->name, slow->place, slow->start_ns, shown_kind(slow));
    else
        pysh_node_activity(NULL, 0, PYSH_WAITS);
}

void pysh_wait_publish_loop(const char *name, const char *place, int64_t since_ns) {
    pthread_mutex_lock(&slow_mutex);
    if (!slow) /* a wait of another thread says more */
        publish_as(name, place, since_ns, PYSH_POLLS);
    pthread_mutex_unlock(&slow_mutex);
}

/* What a wait sees changes, and what the PE's streams do. To look at that may take long, on a GPU, so nobody is kept
 * from the list meanwhile. */
static void publish_again(pysh_wait_t *wait) {
    char text[PYSH_ACTIVITY_TEXT];
    const char *name;

    if (!wait->aim.describe && wait->by_main && !(pysh.accel && pysh.accel->streams->works))
        return;
    name = named(wait, text, sizeof text);
    pthread_mutex_lock(&slow_mutex);
    snprintf(wait->name, sizeof wait->name, "%s", name);
    if (wait == slow)
        publish();
    pthread_mutex_unlock(&slow_mutex);
}

/* Once, as it takes the program's locks. */
static void find_place(pysh_wait_t *wait) {
    char place[PYSH_PLACE_TEXT];

    if (wait->placed || wait->waited_ns < PLACE_NS)
        return;
    wait->placed = true;
    pysh_tell_place(place, sizeof place);
    pthread_mutex_lock(&slow_mutex);
    memcpy(wait->place, place, sizeof place);
    publish();
    pthread_mutex_unlock(&slow_mutex);
}

/* What can end the wait other than success; each at its own pace. */
static int slow_checks(pysh_wait_t *wait, int64_t now) {
    int status = ISHMEMX_OK;

    if (now >= wait->next_check_ns) {
        wait->next_check_ns = now + CHECK_NS;
        count_time(wait, now);
        find_place(wait);
        publish_again(wait);
        pysh_say_more();
        if (!wait->barrier || now >= wait->next_handlers_ns) {
            wait->next_handlers_ns = wait->barrier ? now + wait->barrier->check_ns : 0;
            status = run_handlers(wait);
        }
        if (!status && atomic_load_explicit(pysh.alarm, memory_order_relaxed))
            status = pysh_node.liveness();
        if (!status && pysh.timeout_ns > 0 && wait->waited_ns > pysh.timeout_ns)
            status = deadline_passed(wait);
        if (!status)
            report_if_long(wait);
    }
    if (!status && now >= wait->next_liveness_ns) {
        wait->next_liveness_ns = now + LIVENESS_NS;
        status = pysh_node.liveness();
        if (!status && wait->members.n_pes > 0)
            status = pysh_node_kernel_mismatch(&wait->members, wait->what, wait->start_ns);
    }
    return status;
}

static void list_slow(pysh_wait_t *wait) {
    char text[PYSH_ACTIVITY_TEXT];

    if (wait->aim.describe)
        wait->kind = PYSH_WAITS_FOR_WORDS;
    else if (wait->barrier) /* who is there changes no words that others wait for, either */
        wait->kind = to_the_end ? PYSH_WAITS_AT_THE_END : PYSH_WAITS_FOR_WORDS;
    snprintf(wait->name, sizeof wait->name, "%s", named(wait, text, sizeof text));
    wait->place[0] = '\0';
    wait->by_main = syscall(SYS_gettid) == getpid();
    pthread_mutex_lock(&slow_mutex);
    wait->next_slow = slow;
    slow = wait;
    publish();
    pthread_mutex_unlock(&slow_mutex);
}

static void unlist_slow(pysh_wait_t *wait) {
    pysh_wait_t **at = &slow;

    pthread_mutex_lock(&slow_mutex);
    while (*at != wait)
        at = &(*at)->next_slow;
    *at = wait->next_slow;
    publish();
    pthread_mutex_unlock(&slow_mutex);
}

/* A wait that is slow from now on, if it was not. */
static int wait_look(pysh_wait_t *wait, int64_t now) {
    int status;

    if (!wait->start_ns) {
        wait->start_ns = wait->checked_ns = now;
        wait->next_check_ns = now + CHECK_NS;
        wait->next_liveness_ns = now + LIVENESS_NS;
        list_slow(wait);
    }
    status = ended(wait);
    return status ? status : slow_checks(wait, now);
}

static int pause_slowly(pysh_wait_t *wait) {
    int64_t now = pysh_now_ns(), elapsed, idle;
    int status = wait_look(wait, now);

    if (status)
        return status;
    elapsed = now - wait->start_ns;
    if (elapsed < YIELD_NS) {
        pysh_node_shares_core(); /* notes where this thread is, for PEs that poll */
        sched_yield();
        return ISHMEMX_OK;
    }
    idle = elapsed / 8;
    pysh_node_idle(wait, idle < MIN_IDLE_NS ? MIN_IDLE_NS : idle > MAX_IDLE_NS ? MAX_IDLE_NS : idle);
    return ISHMEMX_OK;
}

void pysh_wait_begin(pysh_wait_t *wait, const char *what) {
    memset(wait, 0, offsetof(pysh_wait_t, name));
    wait->what = what;
    wait->for_memory = true;
}

void pysh_wait_begin_barrier(pysh_wait_t *wait, const char *what, const pysh_wait_barrier_t *barrier) {
    memset(wait, 0, offsetof(pysh_wait_t, name));
    wait->what = what;
    wait->barrier = barrier;
    wait->members = (pysh_members_t){.slot = PYSH_WORLD_SLOT, .n_pes = pysh.n_pes};
}

static int count_poll(pysh_wait_t *wait) {
    if (wait->polls++ || to_the_end)
        return ISHMEMX_OK;
    wait->outer = inside;
    inside = wait;
    if (pysh_node.awake)
        pysh_node.awake(1);
    atomic_fetch_add(&n_waiting, 1); /* before the look at `ready`, as finalize changes that before it counts */
    return ended(wait);
}

int pysh_wait_look(pysh_wait_t *wait) {
    int status = count_poll(wait);

    return status ? status : wait_look(wait, pysh_now_ns());
}

int pysh_wait_pause(pysh_wait_t *wait) {
    void (*progress)(void) = atomic_load_explicit(&waiting_progress, memory_order_relaxed);
    int status;

    if (progress)
        progress();
    if (pysh_node.progress)
        pysh_node.progress();
    if ((status = count_poll(wait)))
        return status;
    if (wait->polls <= pysh.spin) {
        relax();
        return ISHMEMX_OK;
    }
    return pause_slowly(wait);
}

void pysh_wait_end(pysh_wait_t *wait) {
    if (wait->may_sleep)
        pysh_node_idle_end(wait);
    if (wait->start_ns)
        unlist_slow(wait);
    if (wait->polls && !to_the_end) {
        inside = wait->outer;
        if (pysh_node.awake)
            pysh_node.awake(-1);
        atomic_fetch_sub_explicit(&n_waiting, 1, memory_order_release); /* the last that the wait does */
    }
}
