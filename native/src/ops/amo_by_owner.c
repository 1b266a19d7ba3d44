/* SPDX-License-Identifier: BSD-3-Clause
 * PEs ask in the owner's host heap, where each has a row for one operation at a time; the owner's proxy looks there. */
#include "ops/amo_by_owner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "accel/accel.h"
#include "agree/agree.h"
#include "base/cpu_amo.h"
#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/place.h"
#include "memory/system_region.h"
#include "node/wait.h"
#include "transport/transport.h"

#define ROW_WORDS (ISHMEMX_MAX_NEAR_PES / 64)

typedef struct row { /* of the PE that asks: all but `answered`, `status`, `wrong` and `old` are its own */
    uint64_t asked;  /* number of its operation, from 1; stored behind the rest */
    uint64_t answered;
    uint64_t value, cond, old;
    int64_t offset;
    int32_t op, type, status;
    int32_t wrong; /* the owner's too: what it refused the operation for, enum pysh_wrong */
} row_t;
_Static_assert(sizeof(row_t) == PYSH_CACHE_LINE, "a line for each PE that asks");
_Static_assert(PYSH_OWNER_AMOS + ISHMEMX_MAX_NEAR_PES * sizeof(row_t) <= PYSH_SYSTEM_BYTES, "in the system region");

/* LEFT: who asked gave up waiting; the row is free again once it has been answered. */
enum { FREE, TAKEN, LEFT };

static struct {
    pthread_mutex_t mutex; /* for `state` and the filling in of a row: no wait under it */
    int state[ISHMEMX_MAX_NEAR_PES];
} asking = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct { /* the owner's side, by its first proxy alone */
    bool begun[ISHMEMX_MAX_NEAR_PES];
    int slot[ISHMEMX_MAX_NEAR_PES]; /* of the accelerator */
} serving;

static bool has_bit(const uint64_t *bits, int pe) {
    return bits[pysh_near_place(pe) / 64] >> (pe % 64) & 1;
}

int pysh_amo_by_owner_open(void) {
    enum { AUTO, OWNER };
    uint64_t (*all)[ROW_WORDS] = calloc((size_t)pysh.n_pes, sizeof *all);
    int64_t how;
    int status = all ? ishmemx_setting_number("P2P_ATOMICS", &how)
                     : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);

    for (int pe = 0; pe < pysh.n_pes; pe++) {
        asking.state[pysh_near_place(pe)] = FREE;
        serving.begun[pysh_near_place(pe)] = false;
        if (!status && how == OWNER && pysh.p2p && pe != pysh.pe && pysh_near(pe))
            pysh_note_by_owner(pe);
    }
    if (!status)
        status = pysh.agree->exchange("init", pysh.by_owner, all, sizeof *all);
    for (int pe = 0; !status && pe < pysh.n_pes; pe++)
        pysh.owns_amos = pysh.owns_amos || (pysh_near(pe) && has_bit(all[pe], pysh.pe));
    free(all);
    return status;
}

bool pysh_amo_is_by_owner(int op, int heap, int pe) {
    return heap == ISHMEMX_HEAP_DEVICE && pysh_near(pe) && has_bit(pysh.by_owner, pe) && op != ISHMEMX_ATOMIC_FETCH &&
           op != ISHMEMX_ATOMIC_SET;
}

/* The row of `asker`, which is near, at `owner`; NULL where this PE does not load and store there. */
static row_t *row_of(int asker, int owner) {
    char *base = pysh.arena[ISHMEMX_HEAP_HOST].peer[owner];

    return base ? (row_t *)(void *)(base + PYSH_OWNER_AMOS) + pysh_near_place(asker) : NULL;
}

/* ---- who asks ---- */

static bool answered(const row_t *row) {
    /* acquire: pairs with the owner's release; `old`, and the operation, are visible with it */
    return __atomic_load_n(&row->answered, __ATOMIC_ACQUIRE) == row->asked;
}

int pysh_amo_by_owner_begin(int op, int type, int64_t offset, uint64_t value, uint64_t cond, int pe) {
    row_t *row = row_of(pysh.pe, pe);
    bool mine;

    if (!row)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "the link to the GPU of PE %d has no native atomic operations, and its host heap, by which it "
                         "would be asked to do them, is not mapped here (conduit %s)",
                         pe, pysh.transport->name);
    pthread_mutex_lock(&asking.mutex);
    mine = asking.state[pysh_near_place(pe)] == FREE || (asking.state[pysh_near_place(pe)] == LEFT && answered(row));
    if (mine) {
        asking.state[pysh_near_place(pe)] = TAKEN;
        row->op = op;
        row->type = type;
        row->offset = offset;
        row->value = value;
        row->cond = cond;
        /* release: pairs with the owner's acquire, which sees the row, and what the caller did before */
        __atomic_store_n(&row->asked, row->asked + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&asking.mutex);
    return mine ? ISHMEMX_OK : PYSH_ENGINE_FULL;
}

int pysh_amo_by_owner_poll(int pe, bool *done_p, uint64_t *fetched_p) {
    const row_t *row = row_of(pysh.pe, pe);
    int status, wrong;

    *done_p = !row || answered(row);
    if (!row)
        return pysh_fail(ISHMEMX_ERR_STATE, "the host heap of PE %d is mapped no more", pe);
    if (!*done_p)
        return ISHMEMX_OK;
    status = pysh_status_told((uint32_t)row->status);
    wrong = row->wrong;
    *fetched_p = row->old;
    pthread_mutex_lock(&asking.mutex);
    asking.state[pysh_near_place(pe)] = FREE;
    pthread_mutex_unlock(&asking.mutex);
    return status ? pysh_fail(status, "PE %d could not do an atomic operation on its device heap for PE %d: %s", pe,
                              pysh.pe, pysh_wrong_text(wrong))
                  : ISHMEMX_OK;
}

static void owner_leave(int pe) {
    pthread_mutex_lock(&asking.mutex);
    asking.state[pysh_near_place(pe)] = LEFT;
    pthread_mutex_unlock(&asking.mutex);
}

int pysh_amo_by_owner(int op, int type, int64_t offset, uint64_t value, uint64_t cond, int pe, const char *what,
                      uint64_t *fetched_p) {
    pysh_wait_t wait;
    uint64_t old = 0;
    bool done = false;
    int status, begun;

    pysh_wait_begin(&wait, what);
    while ((begun = status = pysh_amo_by_owner_begin(op, type, offset, value, cond, pe)) == PYSH_ENGINE_FULL &&
           !(status = pysh_wait_pause(&wait)))
        continue;
    while (!status && !(status = pysh_amo_by_owner_poll(pe, &done, &old)) && !done)
        status = pysh_wait_pause(&wait);
    pysh_wait_end(&wait);
    if (!begun && !done)
        owner_leave(pe);
    if (!status && fetched_p)
        *fetched_p = old;
    return status;
}

/* ---- the owner ---- */

static void owner_answer(row_t *row, int status, enum pysh_wrong wrong, uint64_t old) {
    row->status = status;
    row->wrong = wrong;
    row->old = old;
    __atomic_store_n(&row->answered, row->asked, __ATOMIC_RELEASE); /* pairs with answered() */
}

/* True when it has been answered, or begun. What the row says is read once, and checked before it is done. */
static bool owner_begin(row_t *row, int asker) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];
    int op = row->op, type = row->type, status;
    uint64_t offset = (uint64_t)row->offset;
    enum pysh_wrong wrong = pysh_amo_wrong(op, type, ISHMEMX_HEAP_DEVICE, offset);

    if (wrong) {
        owner_answer(row, ISHMEMX_ERR_ARGUMENT, wrong, 0);
        return true;
    }
    if (arena->cpu_visible) {
        owner_answer(row, ISHMEMX_OK, PYSH_RIGHT,
                     pysh_amo_apply(op, type, arena->base + offset, row->value, row->cond));
        pysh_wake(pysh.pe);
        return true;
    }
    status = pysh.accel->amo_begin(op, type, arena->base + offset, row->value, row->cond,
                                   &serving.slot[pysh_near_place(asker)]);
    serving.begun[pysh_near_place(asker)] = !status;
    if (status && status != PYSH_ENGINE_FULL)
        owner_answer(row, status, PYSH_RIGHT, 0);
    return status != PYSH_ENGINE_FULL;
}

/* True when it is further than before. */
static bool owner_serve(row_t *row, int asker) {
    uint64_t old = 0;
    bool done = false;
    int status;

    if (!serving.begun[pysh_near_place(asker)])
        return owner_begin(row, asker);
    status = pysh.accel->amo_poll(serving.slot[pysh_near_place(asker)], &done, &old);
    if (status || done) {
        serving.begun[pysh_near_place(asker)] = false;
        owner_answer(row, status, PYSH_RIGHT, old);
    }
    return status || done;
}

bool pysh_amo_serve_others(void) {
    bool moved = false;

    for (int pe = pysh_near_begin(); pysh.owns_amos && pe < pysh_near_end(); pe++) {
        row_t *row = row_of(pe, pysh.pe);
        /* acquire: pairs with the release of who asks */
        if (__atomic_load_n(&row->asked, __ATOMIC_ACQUIRE) != row->answered)
            moved = owner_serve(row, pe) || moved;
    }
    return moved;
}
