/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "shm_barrier.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A barrier that fails while it is about to complete waits for that; more than a moment only when the
 * PE that completes it was killed in between. */
#define MAX_WITHDRAWALS 10

void pysh_shm_wake(pysh_control_t *control, int pe) {
    _Atomic uint32_t *sleeping = &control->slot[pe].sleeping;

    /* No fence between the caller's store and this load: a wake lost to that costs the sleeper at
     * most one idle period. */
    if (atomic_load_explicit(sleeping, memory_order_relaxed) && atomic_exchange(sleeping, 0))
        syscall(SYS_futex, sleeping, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void pysh_shm_wake_all(pysh_control_t *control) {
    if (atomic_load(&control->sleepers))
        for (int pe = 0; pe < control->n_pes; pe++)
            pysh_shm_wake(control, pe);
}

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

static bool exchanges(const pysh_control_t *control, int pe, uint32_t epoch) {
    return control->slot[pe].exchange[epoch & 1].epoch == epoch;
}

/* `pe` called `what`, `other` something else. */
static int call_mismatch(const char *what, int pe, int other) {
    return pysh_fail(ISHMEMX_ERR_MISMATCH,
                     "PE %d called another collective routine while PE %d called %s; all PEs must call the same ones "
                     "in the same order",
                     other, pe, what);
}

static int mixed_mismatch(const pysh_control_t *control, int pe, const char *what, uint32_t epoch) {
    bool mine = exchanges(control, pe, epoch);
    int other = 0;

    while (other < control->n_pes - 1 && exchanges(control, other, epoch) == mine)
        other++;
    return call_mismatch(what, pe, other);
}

int pysh_shm_arrive(pysh_control_t *control, int pe, const char *what, uint64_t arrival, bool *all_p) {
    uint32_t epoch = epoch_now(control);
    /* acq_rel: the last arrival has seen what every PE stored before its own */
    uint64_t arrivals = atomic_fetch_add_explicit(&control->arrivals, arrival, memory_order_acq_rel) + arrival;
    uint64_t about;
    pysh_wait_t wait;
    int status = ISHMEMX_OK;

    if (count_of(arrivals, PYSH_ARRIVAL) == control->n_pes) {
        complete_epoch(control, epoch, arrivals);
    } else {
        pysh_wait_begin(&wait, what);
        for (int attempts = MAX_WITHDRAWALS; epoch_now(control) == epoch;)
            if ((status = pysh_wait_pause(&wait)) && (withdraw(control, epoch, arrival) || --attempts == 0))
                break;
        pysh_wait_end(&wait);
        if (epoch_now(control) == epoch)
            return status;
    }
    about = atomic_load_explicit(&control->released, memory_order_relaxed);
    if (about & PYSH_MIXED)
        return mixed_mismatch(control, pe, what, epoch + 1);
    if (all_p)
        *all_p = about & PYSH_ALL_VOTED;
    return ISHMEMX_OK;
}

/* Each PE publishes, all pass the barrier, each reads. Which buffer, and why one barrier is enough: see
 * pysh_control_slot_t. */
int pysh_shm_exchange(pysh_control_t *control, int pe, const char *what, const void *mine, void *all, size_t nbytes) {
    uint32_t epoch = epoch_now(control) + 1; /* the one that the barrier begins; a fresh slot says 0 */
    pysh_exchange_t *exchange = &control->slot[pe].exchange[epoch & 1];
    int status;

    if (nbytes > sizeof exchange->bytes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: exchange of %zu bytes, more than %zu", what, nbytes,
                         sizeof exchange->bytes);
    exchange->epoch = epoch;
    exchange->nbytes = (uint32_t)nbytes;
    memcpy(exchange->bytes, mine, nbytes);
    if ((status = pysh_shm_arrive(control, pe, what, PYSH_ARRIVAL + PYSH_EXCHANGE, NULL)))
        return status;
    for (int peer = 0; peer < control->n_pes; peer++) {
        exchange = &control->slot[peer].exchange[epoch & 1];
        if (exchange->epoch != epoch || exchange->nbytes != nbytes)
            return call_mismatch(what, pe, peer);
        memcpy((char *)all + (size_t)peer * nbytes, exchange->bytes, nbytes);
    }
    return ISHMEMX_OK;
}
