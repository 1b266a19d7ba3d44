/* SPDX-License-Identifier: BSD-3-Clause */
#include "agree/shared_memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "ishmemx.h"
#include "node/control.h"
#include "node/sleep.h"
#include "node/wait.h"

/* A barrier that fails while it is about to complete, or while another PE decides whether it leaves, waits for that;
 * more than a moment only when the PE that is at it was killed in between. */
#define MAX_WITHDRAWALS 10
/* Between two looks for signals: to leave and to come back is cheap. */
#define HANDLERS_NS (10 * 1000 * 1000LL)

void pysh_shm_wake_all(pysh_control_t *control) {
    if (atomic_load(&control->sleepers))
        for (int pe = 0; pe < control->n_pes; pe++)
            pysh_sleep_wake(&control->slot[pe].sleeping, PYSH_SLEEPS | PYSH_SLEEPS_FOR_MEMORY);
}

/* ---- the barrier of few PEs ---- */

/* tests/model/barrier_model.py has every order of these steps. A PE that waits may leave, for its handlers may take it
 * elsewhere; when it has, nobody passes before it comes back:
 * - the arrival is a plain store, so that the first look need not wait until the others have given the line up. A PE
 *   that leaves may do so after the first look has read it, but then before somebody else's arrival, perhaps this
 *   PE's, is visible: a second look tells, after a fence;
 * - both looks must see the same words, with the count of times left: one that leaves and is back for the second look
 *   was away, and another may have left on the strength of that;
 * - who leaves says LEAVING first. Another that would leave takes that for an arrival, so of two not both go behind the
 *   back of a third that has seen both; who completes does not. */

static bool few_is_there(uint64_t word, uint64_t epoch) {
    return word >> PYSH_ARRIVED_SHIFT == epoch;
}

/* Have all arrived? */
static bool few_complete(pysh_control_t *control, uint64_t epoch, uint64_t *outcome_p) {
    uint64_t seen[PYSH_FEW_PES], all = UINT64_MAX, any = 0;

    for (int pe = 0; pe < control->n_pes; pe++) {
        /* acquire: pairs with the release in few_enter() */
        seen[pe] = atomic_load_explicit(&control->slot[pe].arrived[epoch & 1], memory_order_acquire);
        if (!few_is_there(seen[pe], epoch))
            return false;
        all &= seen[pe];
        any |= seen[pe];
    }
    /* Also between the arrival and the look at `sleepers`; pairs with the exchange in few_withdraw(). */
    atomic_thread_fence(memory_order_seq_cst);
    for (int pe = 0; pe < control->n_pes; pe++)
        if (atomic_load_explicit(&control->slot[pe].arrived[epoch & 1], memory_order_acquire) != seen[pe])
            return false;
    *outcome_p = (all & PYSH_FEW_VOTE ? PYSH_ALL_VOTED : 0) | ((all ^ any) & PYSH_FEW_EXCHANGE ? PYSH_MIXED : 0);
    return true;
}

static void few_take_back(pysh_control_t *control, int pe, uint64_t epoch) {
    control->slot[pe].left++; /* what the next arrival says */
    atomic_store(&control->slot[pe].arrived[epoch & 1], 0);
}

/* Takes the arrival back, unless all others have arrived or may yet find that they have: then false. Of this PE and the
 * last to arrive, one sees what the other has stored: the exchange is a fence here, few_complete() has one. */
static bool few_withdraw(pysh_control_t *control, int pe, uint64_t epoch) {
    _Atomic uint64_t *arrived = &control->slot[pe].arrived[epoch & 1];
    uint64_t word = atomic_exchange(arrived, epoch << PYSH_ARRIVED_SHIFT | PYSH_FEW_LEAVING);

    for (int other = 0; other < control->n_pes; other++)
        if (other != pe &&
            !few_is_there(atomic_load(&control->slot[other].arrived[epoch & 1]) & ~PYSH_FEW_LEAVING, epoch)) {
            few_take_back(control, pe, epoch);
            return true;
        }
    atomic_store(arrived, word);
    pysh_shm_wake_all(control);
    return false;
}

typedef struct few_wait {
    pysh_wait_t wait; /* first: the barrier's functions get its address */
    pysh_control_t *control;
    int pe;
    uint64_t epoch, bits;
} few_wait_t;

static bool few_leave(pysh_wait_t *wait) {
    const few_wait_t *few = (few_wait_t *)wait;

    return few_withdraw(few->control, few->pe, few->epoch);
}

/* True when this PE is the last. */
static bool few_enter(const few_wait_t *few, uint64_t *outcome_p) {
    pysh_control_slot_t *slot = &few->control->slot[few->pe];
    uint64_t left = (slot->left & PYSH_FEW_LEFT_MASK) * PYSH_FEW_LEFT;

    /* release: pairs with the acquire in few_complete() */
    atomic_store_explicit(&slot->arrived[few->epoch & 1], few->epoch << PYSH_ARRIVED_SHIFT | left | few->bits,
                          memory_order_release);
    if (!few_complete(few->control, few->epoch, outcome_p))
        return false;
    pysh_shm_wake_all(few->control);
    return true;
}

static void few_come_back(pysh_wait_t *wait) {
    uint64_t outcome;

    few_enter((few_wait_t *)wait, &outcome);
}

static const pysh_wait_barrier_t few_barrier = {few_leave, few_come_back, HANDLERS_NS};

/* After a pause that failed: is the PE out of the barrier? Where another has been LEAVING for too long, it is dead, and
 * nobody passes any more: out all the same. */
static bool few_give_up(const few_wait_t *few, int *attempts_p) {
    if (few->wait.has_left || few_withdraw(few->control, few->pe, few->epoch))
        return true;
    if (--*attempts_p) {
        nanosleep(&(struct timespec){.tv_nsec = HANDLERS_NS}, NULL);
        return false;
    }
    few_take_back(few->control, few->pe, few->epoch);
    return true;
}

static int few_arrive(pysh_control_t *control, int pe, const char *what, uint64_t bits, uint64_t *outcome_p) {
    uint64_t epoch = ++control->slot[pe].passed;
    few_wait_t few = {.control = control, .pe = pe, .epoch = epoch, .bits = bits};
    int status = ISHMEMX_OK, attempts = MAX_WITHDRAWALS;

    if (few_enter(&few, outcome_p))
        return ISHMEMX_OK;
    pysh_wait_begin_barrier(&few.wait, what, &few_barrier);
    while (!few_complete(control, epoch, outcome_p))
        if ((status = pysh_wait_pause(&few.wait)) && few_give_up(&few, &attempts)) {
            control->slot[pe].passed--;
            break;
        }
    pysh_wait_end(&few.wait);
    if (control->slot[pe].passed != epoch)
        return status;
    /* Of two that arrive at the same time neither may see the other at its first look; others sleep. */
    pysh_shm_wake_all(control);
    return ISHMEMX_OK;
}

/* ---- the barrier of many PEs ---- */

static uint32_t epoch_now(const pysh_control_t *control) {
    /* acquire: pairs with the release of the last PE in complete_epoch() */
    return (uint32_t)(atomic_load_explicit(&control->released, memory_order_acquire) >> PYSH_RELEASE_SHIFT);
}

/* How many PEs added `unit` to the counter. */
static int count_of(uint64_t arrivals, uint64_t unit) {
    return (int)(arrivals / unit & PYSH_MAX_PES);
}

/* The last PE to arrive, with the counter's value, opens the next epoch. */
static void complete_epoch(pysh_control_t *control, uint32_t epoch, uint64_t arrivals) {
    int exchanging = count_of(arrivals, PYSH_EXCHANGE);
    uint64_t next = (uint32_t)(epoch + 1), about = 0;

    if (count_of(arrivals, PYSH_VOTE) == control->n_pes)
        about |= PYSH_ALL_VOTED;
    if (exchanging && exchanging < control->n_pes)
        about |= PYSH_MIXED;
    atomic_store_explicit(&control->arrivals, next << PYSH_EPOCH_SHIFT, memory_order_relaxed);
    /* Sequentially consistent: it must come before the look at `sleepers` in pysh_shm_wake_all(). */
    atomic_store(&control->released, next << PYSH_RELEASE_SHIFT | about);
    pysh_shm_wake_all(control);
}

/* Takes the arrival back, unless the epoch is complete: then false, and its release is imminent. */
static bool withdraw(pysh_control_t *control, uint32_t epoch, uint64_t arrival) {
    uint64_t arrivals = atomic_load(&control->arrivals);

    do {
        if (arrivals >> PYSH_EPOCH_SHIFT != epoch || count_of(arrivals, PYSH_ARRIVAL) == control->n_pes)
            return false;
    } while (!atomic_compare_exchange_weak(&control->arrivals, &arrivals, arrivals - arrival));
    return true;
}

typedef struct many_wait {
    pysh_wait_t wait; /* first, as above */
    pysh_control_t *control;
    uint32_t epoch;
    uint64_t arrival;
} many_wait_t;

static bool many_leave(pysh_wait_t *wait) {
    const many_wait_t *many = (many_wait_t *)wait;

    return withdraw(many->control, many->epoch, many->arrival);
}

/* True when this PE is the last. */
static bool many_enter(const many_wait_t *many) {
    /* acq_rel: the last arrival has seen what every PE stored before its own */
    uint64_t arrivals =
        atomic_fetch_add_explicit(&many->control->arrivals, many->arrival, memory_order_acq_rel) + many->arrival;

    if (count_of(arrivals, PYSH_ARRIVAL) != many->control->n_pes)
        return false;
    complete_epoch(many->control, many->epoch, arrivals);
    return true;
}

static void many_come_back(pysh_wait_t *wait) {
    many_enter((many_wait_t *)wait);
}

static const pysh_wait_barrier_t many_barrier = {many_leave, many_come_back, HANDLERS_NS};

static int many_arrive(pysh_control_t *control, const char *what, uint64_t arrival, uint64_t *outcome_p) {
    uint32_t epoch = epoch_now(control);
    many_wait_t many = {.control = control, .epoch = epoch, .arrival = arrival};
    int status = ISHMEMX_OK;

    if (!many_enter(&many)) {
        pysh_wait_begin_barrier(&many.wait, what, &many_barrier);
        for (int attempts = MAX_WITHDRAWALS; epoch_now(control) == epoch;)
            if ((status = pysh_wait_pause(&many.wait)) &&
                (many.wait.has_left || withdraw(control, epoch, arrival) || --attempts == 0))
                break;
        pysh_wait_end(&many.wait);
        if (epoch_now(control) == epoch)
            return status;
    }
    *outcome_p = atomic_load_explicit(&control->released, memory_order_relaxed);
    return ISHMEMX_OK;
}

/* ---- both ---- */

static bool is_few(const pysh_control_t *control) {
    return control->few;
}

uint32_t pysh_shm_epochs(const pysh_control_t *control, int pe) {
    return is_few(control) ? (uint32_t)control->slot[pe].passed : epoch_now(control);
}

static bool exchanges(const pysh_control_t *control, int pe, uint32_t epoch) {
    return control->slot[pe].exchange[epoch & 1].epoch == epoch;
}

static int mixed_mismatch(const pysh_control_t *control, int pe, const char *what, uint32_t epoch) {
    bool mine = exchanges(control, pe, epoch);
    int other = 0;

    while (other < control->n_pes - 1 && exchanges(control, other, epoch) == mine)
        other++;
    return pysh_exchange_mismatch(&control->slot[other].exchange[epoch & 1], epoch, what, pe, other);
}

int pysh_shm_arrive(pysh_control_t *control, int pe, const char *what, uint64_t arrival, bool *all_p) {
    uint64_t bits = (arrival & PYSH_VOTE ? PYSH_FEW_VOTE : 0) | (arrival & PYSH_EXCHANGE ? PYSH_FEW_EXCHANGE : 0);
    uint64_t about = 0;
    int status =
        is_few(control) ? few_arrive(control, pe, what, bits, &about) : many_arrive(control, what, arrival, &about);

    if (status)
        return status;
    if (about & PYSH_MIXED)
        return mixed_mismatch(control, pe, what, pysh_shm_epochs(control, pe));
    if (all_p)
        *all_p = about & PYSH_ALL_VOTED;
    return ISHMEMX_OK;
}
