/* SPDX-License-Identifier: BSD-3-Clause
 * The barrier of few PEs where PEs leave, on a control segment of this process's own: what waits is played here. */
#include "agree/arrival.c"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures, pauses;
static pysh_control_t *control;

#define CHECK(_holds)                                                    \
    do {                                                                 \
        if (!(_holds)) {                                                 \
            failures++;                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #_holds); \
        }                                                                \
    } while (0)

static void reset(int n_pes) {
    memset(control, 0, sizeof *control + PYSH_FEW_PES * sizeof(pysh_control_slot_t));
    control->n_pes = n_pes;
    control->few = 1;
    pauses = 0;
}

static void arrive(int pe, uint64_t epoch) {
    few_wait_t few = {.control = control, .pe = pe, .epoch = epoch};
    uint64_t outcome;

    control->slot[pe].passed = epoch;
    few_enter(&few, &outcome);
}

static bool complete(uint64_t epoch) {
    uint64_t outcome;

    return few_complete(control, epoch, &outcome);
}

static void two_would_leave_at_once(void) {
    reset(3);
    arrive(0, 1);
    arrive(1, 1);
    control->slot[1].arrived[1] = 1ULL << PYSH_ARRIVED_SHIFT | PYSH_FEW_LEAVING; /* in the middle of few_withdraw() */
    CHECK(few_withdraw(control, 0, 1));                                          /* PE 2 is absent */
    arrive(0, 1);
    arrive(2, 1);
    CHECK(!complete(1));
    CHECK(!few_withdraw(control, 0, 1)); /* PE 2 may have seen both */
    CHECK(few_is_there(control->slot[0].arrived[1], 1));
    arrive(1, 1);
    CHECK(complete(1));
}

static void who_was_away_is_another(void) {
    uint64_t first;

    reset(2);
    for (uint64_t epoch = 1; epoch < 5; epoch++) {
        arrive(0, epoch);
        first = control->slot[0].arrived[epoch & 1];
        CHECK(few_withdraw(control, 0, epoch));
        CHECK(control->slot[0].arrived[epoch & 1] == 0);
        arrive(0, epoch);
        CHECK(control->slot[0].arrived[epoch & 1] != first);
        arrive(1, epoch);
        CHECK(complete(epoch));
    }
    control->slot[0].left = PYSH_FEW_LEFT_MASK; /* the count wraps into nothing else */
    arrive(0, 5);
    CHECK(few_withdraw(control, 0, 5));
    arrive(0, 5);
    arrive(1, 5);
    CHECK(complete(5));
}

/* PE 1 was killed while it decided: PE 0's barrier fails, again and again, and must end. */
static void one_is_killed_in_between(void) {
    reset(2);
    control->slot[1].arrived[1] = 1ULL << PYSH_ARRIVED_SHIFT | PYSH_FEW_LEAVING;
    CHECK(pysh_shm_arrive(control, 0, "barrier_all", PYSH_ARRIVAL, NULL) == ISHMEMX_ERR_PEER);
    CHECK(pauses == MAX_WITHDRAWALS);
    CHECK(control->slot[0].passed == 0); /* not counted: a call made again is of the same epoch */
    CHECK(control->slot[0].arrived[1] == 0);
}

int main(void) {
    control = aligned_alloc(PYSH_CACHE_LINE, sizeof *control + PYSH_FEW_PES * sizeof(pysh_control_slot_t));
    two_would_leave_at_once();
    who_was_away_is_another();
    one_is_killed_in_between();
    if (!failures)
        printf("ok\n");
    return failures != 0;
}

/* ---- what the library has around the barrier ---- */

void pysh_sleep_wake(_Atomic uint32_t *word, uint32_t bits) {
    (void)word, (void)bits;
}

void pysh_wait_begin_barrier(pysh_wait_t *wait, const char *what, const pysh_wait_barrier_t *barrier) {
    memset(wait, 0, sizeof *wait);
    wait->what = what;
    wait->barrier = barrier;
}

int pysh_wait_pause(pysh_wait_t *wait) {
    (void)wait;
    pauses++;
    return ISHMEMX_ERR_PEER;
}

void pysh_wait_end(pysh_wait_t *wait) {
    (void)wait;
}

int pysh_fail(int status, const char *format, ...) {
    (void)format;
    return status;
}

void pysh_exchange_begin(pysh_exchange_t *own, uint32_t epoch, const char *routine, const void *mine, size_t nbytes) {
    (void)own, (void)epoch, (void)routine, (void)mine, (void)nbytes;
}

int pysh_exchange_mismatch(const pysh_exchange_t *theirs, uint32_t epoch, const char *what, int pe, int other) {
    (void)theirs, (void)epoch, (void)what, (void)pe, (void)other;
    return ISHMEMX_ERR_MISMATCH;
}
