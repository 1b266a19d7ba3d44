/* SPDX-License-Identifier: BSD-3-Clause
 * Locks: first come, first served. The 8 bytes on each PE are two words. `last`, on the lock's home PE
 * only, tells which PE is at the end of the queue. `place`, on each PE, is its own place in the queue:
 * whether it waits or holds, and who comes after it. All words are 0 while nobody has the lock. A PE whose
 * wait ended early stays in the queue: its next set_lock goes on, or finds that its turn has come. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/address.h"
#include "node/enter.h"
#include "node/polls.h"
#include "node/wait.h"
#include "ops/amo.h"
#include "transport/quiet.h"

#define NEXT    0xffffu /* of `place`: 1 + the PE that comes next */
#define WAITING 0x10000u
#define HOLDING 0x20000u
#define QUEUED  0x40000u /* from set_lock on until it holds; without WAITING its turn has come */

typedef struct lock {
    uint32_t *last, *place;
    int home, heap;
    int64_t offset;
} lock_t;

static int lock_amo(int op, uint32_t *word, uint32_t value, uint32_t cond, int pe, uint32_t *old_p) {
    uint64_t old = 0;
    int status = pysh_amo(op, ISHMEMX_TYPE_UINT32, word, value, cond, pe, "lock", &old);

    *old_p = (uint32_t)old;
    return status;
}

static int own(int op, const lock_t *lock, uint32_t value, uint32_t *old_p) {
    return lock_amo(op, lock->place, value, 0, pysh.pe, old_p);
}

/* Where the lock is, and this PE's place. */
static int lock_find(void *address, lock_t *lock, uint32_t *place_p) {
    int status = pysh_heap_find(address, sizeof(int64_t), "lock", &lock->heap, &lock->offset);

    if (!status)
        status = pysh_type_check_aligned(ISHMEMX_TYPE_INT64, address, "lock");
    if (!status && pysh.n_pes >= (int)NEXT)
        status = pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "locks are for up to %u PEs, the job has %d", NEXT - 1, pysh.n_pes);
    if (status)
        return status;
    lock->last = address;
    lock->place = lock->last + 1;
    lock->home = (int)(lock->offset / PYSH_CACHE_LINE % pysh.n_pes);
    return own(ISHMEMX_ATOMIC_FETCH, lock, 0, place_p);
}

/* Who holds it, if that is a PE whose memory is within reach. */
static void describe(const void *of, char *text, size_t capacity) {
    const lock_t *lock = of;

    text[0] = '\0';
    for (int pe = 0; pe < pysh.n_pes; pe++) {
        char *peer = pysh.arena[lock->heap].cpu_visible && pysh_near(pe) ? pysh.arena[lock->heap].peer[pe] : NULL;
        const _Atomic uint32_t *place = peer ? (const void *)(peer + lock->offset + sizeof *lock->last) : NULL;

        /* relaxed: it is for people to read */
        if (place && atomic_load_explicit(place, memory_order_relaxed) & HOLDING)
            snprintf(text, capacity, "held by PE %d", pe);
    }
}

static int await_place(const lock_t *lock, const char *what, uint32_t mask, bool set, uint32_t *place_p) {
    pysh_wait_t wait;
    int status;

    pysh_wait_begin(&wait, what);
    wait.aim = (pysh_wait_aim_t){describe, lock};
    while (!(status = own(ISHMEMX_ATOMIC_FETCH, lock, 0, place_p)) && !(*place_p & mask) == set)
        if ((status = pysh_wait_pause(&wait)))
            break;
    pysh_wait_end(&wait);
    return status;
}

/* From no place in the queue to `state`, unless another thread of this PE was first. */
static int claim(const lock_t *lock, uint32_t state, uint32_t *before_p) {
    return lock_amo(ISHMEMX_ATOMIC_COMPARE_SWAP, lock->place, state, 0, pysh.pe, before_p);
}

/* With its own place just claimed: to the end of the queue. */
static int queue_up(const lock_t *lock) {
    uint32_t before, ignored;
    int status = lock_amo(ISHMEMX_ATOMIC_SWAP, lock->last, (uint32_t)pysh.pe + 1, 0, lock->home, &before);

    if (status)
        return status;
    if (before)
        return lock_amo(ISHMEMX_ATOMIC_OR, lock->place, (uint32_t)pysh.pe + 1, 0, (int)before - 1, &ignored);
    return own(ISHMEMX_ATOMIC_AND, lock, ~WAITING, &ignored);
}

/* Its turn having come: it holds, unless *place_p is no longer its place; then that is read again. */
static int hold(const lock_t *lock, uint32_t *place_p, bool *held) {
    uint32_t place = *place_p;
    int status = lock_amo(ISHMEMX_ATOMIC_COMPARE_SWAP, lock->place, place | HOLDING, place, pysh.pe, place_p);

    *held = !status && *place_p == place;
    return status;
}

int ishmemx_set_lock(void *address) {
    uint32_t place, before;
    bool held = false;
    lock_t lock;
    int status;

    PYSH_ENTER();
    if ((status = lock_find(address, &lock, &place)))
        return status;
    while (!held) { /* again where another PE came behind, or another thread of this one was first */
        if (place & HOLDING)
            return pysh_fail(ISHMEMX_ERR_STATE, "PE %d holds the lock already; a lock cannot be set twice", pysh.pe);
        before = place;
        if (!place && ((status = claim(&lock, QUEUED | WAITING, &before)) || (!before && (status = queue_up(&lock)))))
            return status;
        if ((status = await_place(&lock, "set_lock", WAITING, false, &place)) ||
            (place & QUEUED && !(place & HOLDING) && (status = hold(&lock, &place, &held))))
            return status;
    }
    return ISHMEMX_OK;
}

static int try_lock(lock_t *lock, uint32_t place, int *acquired) {
    uint32_t before, ignored;
    bool held = false;
    int status;

    *acquired = 0;
    while (place & QUEUED && !(place & (HOLDING | WAITING)) && !held)
        if ((status = hold(lock, &place, &held)))
            return status;
    *acquired = held;
    if (place || (status = claim(lock, HOLDING, &before)) || before)
        return status;
    if ((status = lock_amo(ISHMEMX_ATOMIC_COMPARE_SWAP, lock->last, (uint32_t)pysh.pe + 1, 0, lock->home, &before)))
        return status;
    *acquired = !before;
    return before ? own(ISHMEMX_ATOMIC_SET, lock, 0, &ignored) : ISHMEMX_OK;
}

int ishmemx_test_lock(void *address, int *acquired) {
    uint32_t place;
    lock_t lock;
    int status;

    PYSH_ENTER();
    if ((status = lock_find(address, &lock, &place)) || (status = try_lock(&lock, place, acquired)))
        return status;
    if (pysh_poll_due(PYSH_POLL_TEST))
        pysh_polled("test_lock", (uint64_t)*acquired, (pysh_wait_aim_t){describe, &lock});
    return ISHMEMX_OK;
}

int ishmemx_clear_lock(void *address) {
    uint32_t place, last, ignored;
    lock_t lock;
    int status;

    PYSH_ENTER();
    if ((status = lock_find(address, &lock, &place)))
        return status;
    if (!(place & HOLDING))
        return pysh_fail(ISHMEMX_ERR_STATE, "PE %d does not hold the lock; only the PE that set it clears it", pysh.pe);
    if ((status = pysh_quiet()))
        return status;
    if (!(place & NEXT)) { /* nobody is known to come next: perhaps nobody does */
        if ((status = lock_amo(ISHMEMX_ATOMIC_COMPARE_SWAP, lock.last, 0, (uint32_t)pysh.pe + 1, lock.home, &last)))
            return status;
        if (last == (uint32_t)pysh.pe + 1)
            return own(ISHMEMX_ATOMIC_SET, &lock, 0, &ignored);
        if ((status = await_place(&lock, "clear_lock", NEXT, true, &place)))
            return status;
    }
    if ((status = own(ISHMEMX_ATOMIC_SET, &lock, 0, &ignored)))
        return status;
    return lock_amo(ISHMEMX_ATOMIC_AND, lock.place, ~WAITING, 0, (int)(place & NEXT) - 1, &ignored);
}
