/* SPDX-License-Identifier: BSD-3-Clause
 * See node.h. */
#include "node/node.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/state.h"
#include "base/status.h"
#include "node/control.h"
#include "node/kernel_waits.h"
#include "node/sleep.h"
#include "node/wait.h"

/* Messages from other hosts are served slowly while this PE sleeps: it does so late, and briefly. */
#define REMOTE_AWAKE_NS (1000 * 1000 * 1000LL)
#define REMOTE_IDLE_NS  (100 * 1000LL)

pysh_node_t pysh_node;

int pysh_node_open(int n_pes) {
    struct pysh_control_slot **slot = calloc((size_t)n_pes, sizeof(struct pysh_control_slot *));

    if (!slot)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a table of %d PEs", n_pes);
    pysh_node = (pysh_node_t){.n_pes = n_pes, .slot = slot};
    return ISHMEMX_OK;
}

void pysh_node_close(void) {
    free(pysh_node.slot);
    pysh_node = (pysh_node_t){.n_pes = 0};
}

/* ---- waiting ---- */

void pysh_node_activity(const char *what, int64_t since_ns, pysh_activity_t kind) {
    pysh_control_set_activity(pysh_node.own, what, since_ns, kind);
}

void pysh_node_idle(pysh_wait_t *wait, int64_t ns) {
    if (pysh_node.linger && pysh_node.linger())
        return;
    if (pysh_node.remote && pysh_now_ns() - wait->start_ns < REMOTE_AWAKE_NS) {
        sched_yield();
        return;
    }
    if (!wait->may_sleep && pysh_node.sleepers) /* before the caller's next look: pairs with pysh_shm_wake_all() */
        atomic_fetch_add(pysh_node.sleepers, 1);
    if (pysh_node.asleep)
        pysh_node.asleep(1);
    pysh_sleep(&pysh_node.own->sleeping, wait, pysh_node.remote && ns > REMOTE_IDLE_NS ? REMOTE_IDLE_NS : ns);
    if (pysh_node.asleep)
        pysh_node.asleep(-1);
}

void pysh_node_idle_end(pysh_wait_t *wait) {
    pysh_sleep_end(&pysh_node.own->sleeping, wait);
    if (pysh_node.sleepers)
        atomic_fetch_sub(pysh_node.sleepers, 1);
}

void pysh_wake(int pe) {
    if (pysh_node.slot[pe])
        pysh_sleep_wake(&pysh_node.slot[pe]->sleeping, PYSH_SLEEPS_FOR_MEMORY);
}

bool pysh_node_shares_core(void) {
    return pysh_control_shares_core(pysh_node.own, pysh_node.slot, pysh_node.n_pes);
}

/* ---- kernels ---- */

/* relaxed: reports look again and again before anything follows */
void pysh_node_launches(int change) {
    atomic_fetch_add_explicit(&pysh_node.own->launches, change, memory_order_relaxed);
}

int pysh_node_kernel_waits(pysh_kernel_wait_t *wait) {
    int status = pysh_node.liveness();

    return status ? status : pysh_board_post(&pysh_node.own->board, wait);
}

int pysh_node_kernel_mismatch(const pysh_members_t *members, const char *what, int64_t since_ns) {
    return pysh_board_mismatch(pysh_node.slot, members, what, since_ns);
}

/* ---- reports ---- */

bool pysh_node_claim_report(int64_t since_ns) {
    int pe = 0;

    while (!pysh_node.slot[pe]) /* the first PE of this host: its own at the latest */
        pe++;
    return pysh_control_claim_report(&pysh_node.slot[pe]->reported_ns, since_ns);
}

bool pysh_node_nobody_left(bool *over_p, bool polls_too) {
    bool polls = false;

    *over_p = false;
    for (int pe = 0; pe < pysh_node.n_pes; pe++) {
        pysh_standing_t standing = pysh_node.slot[pe] ? pysh_control_standing(pysh_node.slot[pe]) : PYSH_GOES_ON;
        if (standing == PYSH_GOES_ON)
            return false;
        *over_p = *over_p || standing == PYSH_IS_OVER;
        polls = polls || standing == PYSH_IS_POLLING;
    }
    return *over_p || polls_too || !polls;
}

void pysh_node_describe(char *text, size_t capacity) {
    char line[512];
    size_t used = 0;

    text[0] = 0;
    for (int pe = 0; pe < pysh_node.n_pes && used < capacity; pe++) {
        const pysh_control_slot_t *slot = pysh_node.slot[pe];
        const char *next = pe ? "\n" : "";
        if (!slot) {
            used += (size_t)snprintf(text + used, capacity - used, "%sPE %d: on host %s, not known from here", next, pe,
                                     pysh_node.host(pe));
            continue;
        }
        pysh_control_describe_slot(slot, line, sizeof line);
        used += (size_t)snprintf(text + used, capacity - used, "%sPE %d (pid %d): %s", next, pe,
                                 (int)atomic_load(&slot->pid), line);
    }
}

void pysh_node_abort(int code, const char *why) {
    char reason[512];

    snprintf(reason, sizeof reason, "PE %d gave up with code %d%s%s", pysh.pe, code, why && !*why ? "" : ": ",
             why ? why : "shmem_global_exit");
    pysh_node.abort(why ? PYSH_ABORT_BY_PE : PYSH_GLOBAL_EXIT | (code & 0xff), reason);
}
