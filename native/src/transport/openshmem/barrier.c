/* SPDX-License-Identifier: BSD-3-Clause
 * Barrier of the openshmem conduit, over the PEs' control blocks: the same protocol as
 * agree/arrival.c, with the counter on PE 0 and a release word on every PE. Where all PEs are mapped the
 * last to arrive opens the next epoch; else PE 0 does, which sees the counter without a message. The
 * library's own barrier could not be interrupted, nor tell who is missing. */
#include "transport/openshmem/barrier.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "ishmemx.h"
#include "node/control.h"
#include "node/wait.h"
#include "transport/openshmem/openshmem.h"
#include "transport/openshmem/progress.h"
#include "transport/openshmem/transfer.h"

#define MAX_WITHDRAWALS 10 /* see agree/arrival.c */
/* Between two looks for signals, as in agree/arrival.c; messages to PE 0 when PEs are on several hosts. */
#define HANDLERS_NS     (10 * 1000 * 1000LL)
#define FAR_HANDLERS_NS (250 * 1000 * 1000LL)
#define LEFT_NS         (100 * 1000 * 1000LL)

/* ---- words of the control blocks ---- */

static _Atomic uint64_t *os_mapped(_Atomic uint64_t *word, int pe) {
    return (_Atomic uint64_t *)((char *)pysh_os.peer[pe] + ((char *)word - (char *)pysh_os.control));
}

/* With PEs on several hosts even PE 0 itself counts by the library: one kind of atomic a word. */
static uint64_t word_add(_Atomic uint64_t *word, uint64_t value, int pe) {
    uint64_t old;

    if (pysh_os.direct)
        return atomic_fetch_add(os_mapped(word, pe), value);
    PYSH_OS_LOCK();
    old = pysh_os.library->ulong_atomic_fetch_add((unsigned long *)word, value, pe);
    PYSH_OS_UNLOCK();
    return old;
}

static void word_store(_Atomic uint64_t *word, uint64_t value, int pe) {
    if (pysh_os.direct) {
        atomic_store(os_mapped(word, pe), value);
        return;
    }
    PYSH_OS_LOCK();
    pysh_os.library->ulong_atomic_swap((unsigned long *)word, value, pe); /* complete on return */
    PYSH_OS_UNLOCK();
}

static void word_send(_Atomic uint64_t *word, uint64_t value, int pe) {
    if (pysh_os.direct || pe == pysh_os.pe) {
        atomic_store(os_mapped(word, pe), value);
        pysh_os_wake(pe);
        return;
    }
    PYSH_OS_LOCK();
    pysh_os.library->ulong_atomic_set((unsigned long *)word, value, pe);
    PYSH_OS_UNLOCK();
}

static uint64_t word_compare_swap(_Atomic uint64_t *word, uint64_t cond, uint64_t value, int pe) {
    uint64_t old = cond;

    if (pysh_os.direct) {
        atomic_compare_exchange_strong(os_mapped(word, pe), &old, value);
        return old;
    }
    PYSH_OS_LOCK();
    old = pysh_os.library->ulong_atomic_compare_swap((unsigned long *)word, cond, value, pe);
    PYSH_OS_UNLOCK();
    return old;
}

/* ---- what each PE publishes for an exchange ---- */

const pysh_exchange_t *pysh_os_record(const pysh_exchange_t *own, size_t nbytes, int pe, pysh_exchange_t *copy) {
    if (pysh_os.direct)
        return (const pysh_exchange_t *)((char *)pysh_os.peer[pe] + ((char *)own - (char *)pysh_os.control));
    if (pe == pysh_os.pe)
        return own;
    PYSH_OS_LOCK();
    pysh_os.library->getmem(copy, own, offsetof(pysh_exchange_t, bytes) + nbytes, pe);
    PYSH_OS_UNLOCK();
    return copy;
}

/* Finds a PE that did not come from an exchange when this one did, or the other way round. */
static int mixed_mismatch(const char *what, uint32_t epoch) {
    const pysh_exchange_t *own = &pysh_os.control->slot.exchange[epoch & 1], *theirs = own;
    pysh_exchange_t copy;
    int other = 0;

    for (; other < pysh_os.n_pes; other++) {
        theirs = pysh_os_record(own, 0, other, &copy);
        if ((theirs->epoch == epoch) != (own->epoch == epoch) || other == pysh_os.n_pes - 1)
            break;
    }
    return pysh_exchange_mismatch(theirs, epoch, what, pysh_os.pe, other);
}

/* ---- barrier ---- */

/* 1 + the epoch that this PE could not wait for the end of, nor leave, as all had arrived; 0: none. PE 0, which
 * releases one PE after the other, may be held up by one that stands still. What this PE calls next is in that epoch.
 */
static uint64_t stays_in;

static uint64_t released(void) {
    /* acquire: pairs with the release of the last PE in complete_epoch() */
    return atomic_load_explicit(&pysh_os.control->released, memory_order_acquire) >> PYSH_RELEASE_SHIFT;
}

uint64_t pysh_os_epoch(void) {
    return stays_in ? stays_in - 1 : released();
}

static bool of_epoch(uint64_t arrivals, uint64_t epoch) {
    return arrivals >> PYSH_OS_EPOCH_SHIFT == (uint16_t)epoch;
}

static int count_of(uint64_t arrivals, uint64_t unit) {
    return (int)(arrivals / unit & PYSH_OS_MAX_PES);
}

/* Counts this PE; true when it is the last and opens the next epoch. */
static bool count_in(uint64_t arrival) {
    _Atomic uint64_t *word = &pysh_os.control->arrivals;

    if (pysh_os.direct)
        return count_of(word_add(word, arrival, 0) + arrival, PYSH_OS_ARRIVAL) == pysh_os.n_pes;
    PYSH_OS_LOCK();
    pysh_os.library->ulong_atomic_add((unsigned long *)word, arrival, 0); /* nobody waits for an answer */
    PYSH_OS_UNLOCK();
    return false;
}

/* PE 0 looks whether all have come. */
static bool all_counted(void) {
    return !pysh_os.direct && pysh_os.pe == 0 &&
           count_of(atomic_load(&pysh_os.control->arrivals), PYSH_OS_ARRIVAL) == pysh_os.n_pes;
}

/* Opens the next epoch, for the calling PE last. */
static void complete_epoch(uint64_t epoch) {
    uint64_t arrivals = atomic_load(os_mapped(&pysh_os.control->arrivals, 0));
    int exchanging = count_of(arrivals, PYSH_OS_EXCHANGE);
    uint64_t about = 0;

    if (count_of(arrivals, PYSH_OS_VOTE) == pysh_os.n_pes)
        about |= PYSH_ALL_VOTED;
    if (exchanging && exchanging < pysh_os.n_pes)
        about |= PYSH_MIXED;
    word_store(&pysh_os.control->arrivals, (epoch + 1) << PYSH_OS_EPOCH_SHIFT, 0);
    for (int i = 1; i <= pysh_os.n_pes; i++)
        word_send(&pysh_os.control->released, (epoch + 1) << PYSH_RELEASE_SHIFT | about,
                  (pysh_os.pe + i) % pysh_os.n_pes);
}

/* Takes the arrival back, unless the epoch is complete: then false, and its release is imminent. */
static bool withdraw(uint64_t epoch, uint64_t arrival) {
    uint64_t arrivals = word_add(&pysh_os.control->arrivals, 0, 0), seen;

    for (;; arrivals = seen) {
        if (!of_epoch(arrivals, epoch) || count_of(arrivals, PYSH_OS_ARRIVAL) == pysh_os.n_pes)
            return false;
        seen = word_compare_swap(&pysh_os.control->arrivals, arrivals, arrivals - arrival, 0);
        if (seen == arrivals)
            return true;
    }
}

typedef struct barrier_wait {
    pysh_wait_t wait; /* first: the barrier's functions get its address */
    uint64_t epoch, arrival;
} barrier_wait_t;

static bool os_leave(pysh_wait_t *wait) {
    const barrier_wait_t *barrier = (barrier_wait_t *)wait;

    return withdraw(barrier->epoch, barrier->arrival);
}

static void come_back(pysh_wait_t *wait) {
    const barrier_wait_t *barrier = (barrier_wait_t *)wait;

    if (count_in(barrier->arrival))
        complete_epoch(barrier->epoch);
}

static const pysh_wait_barrier_t near_barrier = {os_leave, come_back, HANDLERS_NS};
static const pysh_wait_barrier_t far_barrier = {os_leave, come_back, FAR_HANDLERS_NS};

/* Who has ended does not arrive; of a barrier that is complete the end may still be on its way. */
static int check_left(const pysh_wait_t *wait) {
    return wait->waited_ns > LEFT_NS ? pysh_os_others_left(false) : ISHMEMX_OK;
}

int pysh_os_arrive(const char *what, uint64_t arrival, bool *all_p) {
    uint64_t epoch = pysh_os_epoch(), about;
    barrier_wait_t barrier = {.epoch = epoch, .arrival = arrival};
    pysh_wait_t *wait = &barrier.wait;
    int attempts = MAX_WITHDRAWALS;
    int status = pysh_os_flush(); /* what was put by the library has arrived before this PE does */

    if (status)
        return status;
    atomic_thread_fence(memory_order_seq_cst);
    if (!stays_in && count_in(arrival)) {
        complete_epoch(epoch);
    } else {
        pysh_wait_begin_barrier(wait, what, pysh_os.direct ? &near_barrier : &far_barrier);
        while (released() == epoch)
            if (all_counted())
                complete_epoch(epoch);
            else if (((status = pysh_wait_pause(wait)) || (status = check_left(wait))) &&
                     (wait->has_left || withdraw(epoch, arrival) || --attempts == 0))
                break;
        pysh_wait_end(wait);
        if (released() == epoch) {
            stays_in = attempts ? 0 : epoch + 1;
            return status;
        }
    }
    stays_in = 0;
    about = atomic_load_explicit(&pysh_os.control->released, memory_order_relaxed);
    if (about & PYSH_MIXED)
        return mixed_mismatch(what, (uint32_t)(epoch + 1));
    if (all_p)
        *all_p = about & PYSH_ALL_VOTED;
    return ISHMEMX_OK;
}
