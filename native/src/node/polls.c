/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "node/polls.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/state.h"
#include "node/node.h"
#include "node/report.h"
#include "node/wait.h"

_Thread_local unsigned pysh_polls;

/* To look where the others are takes a line of each; where there are many, it is done less often. */
static bool shares_core(unsigned times) {
    enum { CHEAP_PES = 16 };
    static _Thread_local bool shares;
    unsigned every = 1 + (unsigned)pysh.n_pes / CHEAP_PES;

    if (times % every == 0)
        shares = pysh_node_shares_core();
    return shares;
}

/* Where no PE is on the core, whoever takes it is a stranger who keeps it for milliseconds: seldom then. */
void pysh_give_way(void) {
    enum { SELDOM = 1024 };
    static _Thread_local unsigned times;

    pysh_polls = 0;
    times++;
    if (pysh.crowded || shares_core(times) || times % SELDOM == 0)
        sched_yield();
}

/* ---- loops that cannot end any more ---- */

#define LOOK_NS (10 * 1000 * 1000LL)
/* A loop does nothing else when it takes no longer than this of the core for each test, or next to nothing of the time,
 * as one that sleeps in between. */
#define TEST_NS    (20 * 1000LL)
#define IDLE_SHARE 10
/* From when on others are shown that this PE is in a loop of tests. */
#define SHOWN_NS (1000 * 1000 * 1000LL)

/* The thread's loop of tests: since when, when it was looked at and how much of the core it had taken by then. */
static _Thread_local struct loop {
    uint64_t found;
    int64_t since_ns, waited_ns, looked_ns, used_ns, alone_ns;
    int64_t tests; /* since that look */
    unsigned step; /* tests from one to the next */
    bool shown, reported;
    char place[PYSH_PLACE_TEXT];
} loop;

static int64_t used_ns(void) {
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000000000LL + used.tv_nsec;
}

static void begin_again(uint64_t found, int64_t now) {
    if (loop.shown)
        pysh_wait_publish_loop(NULL, "", 0);
    loop = (struct loop){.found = found, .since_ns = now, .looked_ns = now, .used_ns = used_ns(), .step = loop.step};
}

/* A loop that sleeps is looked at after fewer tests. */
static void set_step(int64_t passed, unsigned count) {
    int64_t most = PYSH_POLL_MOST / count, step = passed > 0 ? loop.tests * 2 * LOOK_NS / passed : most;

    loop.step = step < 1 ? 1 : step > most ? (unsigned)most : (unsigned)step;
}

static void show(const char *what, pysh_wait_aim_t aim) {
    char seen[96], name[PYSH_ACTIVITY_TEXT];
    const char *why;

    aim.describe(aim.of, seen, sizeof seen);
    snprintf(name, sizeof name, seen[0] ? "a loop of %s (%s)" : "a loop of %s", what, seen);
    if (!loop.shown)
        pysh_tell_place(loop.place, sizeof loop.place);
    pysh_wait_publish_loop(name, loop.place, loop.since_ns);
    loop.shown = true;
    if (!loop.reported && (why = pysh_report_loop_due(&loop.alone_ns, loop.waited_ns))) {
        loop.reported = true;
        pysh_report_long_loop(name, loop.place, loop.since_ns, why);
    }
}

/* `count`: of each, as PYSH_POLL_TEST. */
static void polled(const char *what, uint64_t found, unsigned count, pysh_wait_aim_t aim) {
    int64_t now, passed, used;

    pysh_give_way();
    loop.tests += loop.step ? loop.step : PYSH_POLL_MOST / count;
    now = pysh_now_ns();
    passed = now - loop.looked_ns;
    if (found != loop.found || !loop.looked_ns) {
        begin_again(found, now);
    } else if (passed >= LOOK_NS) {
        used = used_ns();
        set_step(passed, count);
        if (used - loop.used_ns > loop.tests * TEST_NS && used - loop.used_ns > passed / IDLE_SHARE) {
            begin_again(found, now);
        } else {
            loop.waited_ns += pysh_counted_ns(passed);
            loop.looked_ns = now;
            loop.used_ns = used;
            loop.tests = 0;
            if (loop.waited_ns >= SHOWN_NS)
                show(what, aim);
        }
    }
    if (loop.step)
        pysh_polls = PYSH_POLL_MOST - loop.step * count;
}

void pysh_polled(const char *what, uint64_t found, pysh_wait_aim_t aim) {
    polled(what, found, PYSH_POLL_TEST, aim);
}

static void describe_read(const void *of, char *text, size_t capacity) {
    snprintf(text, capacity, "of PE %d, the same again", *(const int *)of);
}

/* A program may read many words in turn: only what is the same word each time is a loop. */
void pysh_polled_read(const char *what, const void *word, int pe, uint64_t seen) {
    enum { SPREAD = 0x9e3779b1, SHIFTS = 61 };
    uint64_t found = (((uint64_t)(uintptr_t)word * SPREAD) ^ seen) * SPREAD + (uint64_t)pe;

    polled(what, found, PYSH_POLL_READ, (pysh_wait_aim_t){describe_read, &pe});
    if (!pysh_polls) /* of words that are read in turn another one is the next to be seen */
        pysh_polls = (unsigned)loop.looked_ns % SHIFTS;
}
