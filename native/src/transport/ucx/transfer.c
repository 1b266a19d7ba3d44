/* SPDX-License-Identifier: BSD-3-Clause
 * Put, get and atomics, as messages to the owner. A put of few bytes is gone when the call returns; one of many has
 * left its source then. What has been asked for has a token, under which the answer finds it. */
#include "transport/ucx/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "node/wait.h"
#include "transport/ucx/ucx.h"

#define SETTLE_NS (1000 * 1000 * 1000LL) /* for sends of a call that has failed, before the connection is cut */

/* ---- what is asked for ---- */

typedef struct asked {
    _Atomic size_t left; /* bytes, or an answer: 1 */
    char *dest;          /* NULL: a number is asked for */
    uint64_t value;
    size_t nbytes;
    uint32_t use; /* counts its uses: an answer to an earlier one is nobody's */
    bool taken, nbi;
} asked_t;

static asked_t **asked; /* [n_asked], with the mutex */
static uint32_t n_asked, first_free;
static _Atomic int gets_left; /* non-blocking ones */

static asked_t *ask(char *dest, size_t nbytes, bool nbi, uint64_t *token_p) {
    uint32_t i = first_free;

    while (i < n_asked && asked[i]->taken)
        i++;
    if (i == n_asked) {
        asked_t **grown = realloc(asked, (size_t)(n_asked + 1) * sizeof(asked_t *));
        if (grown)
            asked = grown;
        if (!grown || !(asked[i] = calloc(1, sizeof **asked)))
            return NULL;
        n_asked++;
    }
    first_free = i + 1;
    asked[i]->dest = dest;
    asked[i]->nbytes = nbytes;
    asked[i]->nbi = nbi;
    asked[i]->taken = true;
    atomic_store(&asked[i]->left, nbytes);
    *token_p = (uint64_t)asked[i]->use << 32 | (i + 1);
    return asked[i];
}

static asked_t *asked_by(uint64_t token) {
    uint32_t i = (uint32_t)token - 1;

    return i < n_asked && asked[i]->taken && asked[i]->use == token >> 32 ? asked[i] : NULL;
}

static void give_up(uint64_t token) {
    asked_t *found = asked_by(token);
    uint32_t i = (uint32_t)token - 1;

    if (!found)
        return;
    found->use++;
    found->taken = false;
    if (i < first_free)
        first_free = i;
}

void pysh_ucx_forget(void) {
    for (uint32_t i = 0; i < n_asked; i++)
        give_up((uint64_t)asked[i]->use << 32 | (i + 1));
    atomic_store(&gets_left, 0);
}

/* Some of it is here; the last of what nobody waits for by its name makes room. */
static void come(asked_t *got, size_t nbytes, uint64_t token) {
    bool nbi = got->nbi; /* looked at before, as the waiter may go on at once */

    /* release: pairs with the acquire in is_here() */
    if (atomic_fetch_sub_explicit(&got->left, nbytes, memory_order_release) != nbytes)
        return;
    if (nbi) {
        give_up(token);
        atomic_fetch_sub_explicit(&gets_left, 1, memory_order_release); /* pairs with all_flushed() */
    }
    pysh_ucx_wake();
}

void pysh_ucx_on_data(const pysh_ucx_head_t *head, const void *data) {
    asked_t *got = asked_by(head->token);

    if (!got || !got->dest || head->offset > got->nbytes || head->nbytes > got->nbytes - head->offset || !head->nbytes)
        return;
    memcpy(got->dest + head->offset, data, head->nbytes);
    come(got, head->nbytes, head->token);
}

void pysh_ucx_on_done(const pysh_ucx_head_t *head, const void *data) {
    pysh_ucx_peer_t *peer = &pysh_ucx.peer[head->from];
    asked_t *got;

    (void)data;
    if (head->op) { /* to FLUSH */
        if (head->value > peer->flushed && head->value <= peer->asked)
            /* release: pairs with the acquire in all_flushed() */
            __atomic_store_n(&peer->flushed, head->value, __ATOMIC_RELEASE);
        pysh_ucx_wake();
        return;
    }
    if (!(got = asked_by(head->token)) || got->dest)
        return;
    got->value = head->value;
    come(got, 1, head->token);
}

/* ---- waiting ---- */

static bool is_here(const void *of) {
    return atomic_load_explicit(&((const asked_t *)of)->left, memory_order_acquire) == 0;
}

static bool is_sent(const void *of) {
    return atomic_load_explicit(&((const pysh_ucx_done_t *)of)->left, memory_order_acquire) == 0;
}

/* `pe`: whose loss ends the wait. */
static int wait_until(bool (*is_done)(const void *), const void *of, int pe, const char *what) {
    int status = ISHMEMX_OK;
    pysh_wait_t wait;

    if (is_done(of))
        return ISHMEMX_OK;
    pysh_wait_begin(&wait, what);
    while (!is_done(of))
        if ((status = pysh_ucx_lost(pe)) || (status = pysh_wait_pause(&wait)))
            break;
    pysh_wait_end(&wait);
    return is_done(of) ? ISHMEMX_OK : status;
}

/* A call that fails must not leave anything that reads its source. */
static void settle(const pysh_ucx_done_t *done, int pe) {
    int64_t deadline_ns = pysh_now_ns() + SETTLE_NS;

    while (!is_sent(done)) {
        pysh_ucx_progress();
        if (pysh_now_ns() > deadline_ns) {
            pysh_ucx_cut(pe);
            deadline_ns = INT64_MAX;
        }
    }
}

/* ---- put ---- */

static void changes(int pe) {
    pysh_ucx.peer[pe].changes++;
    atomic_store_explicit(&pysh_ucx.outstanding, true, memory_order_relaxed);
}

static void send_pieces(int heap, int64_t dest, const void *source, size_t nbytes, int pe, pysh_ucx_done_t *done) {
    for (size_t at = 0; at < nbytes; at += PYSH_UCX_PIECE) {
        pysh_ucx_head_t head = {
            .kind = PYSH_UCX_PUT, .heap = (uint8_t)heap, .offset = (uint64_t)dest + at, .nbytes = PYSH_UCX_PIECE};
        if (nbytes - at < PYSH_UCX_PIECE)
            head.nbytes = (uint32_t)(nbytes - at);
        pysh_ucx_send(pe, &head, (const char *)source + at, done);
    }
}

int pysh_ucx_put(int heap, int64_t dest, const void *source, size_t nbytes, int pe, bool nbi) {
    pysh_ucx_done_t here = {0};
    int status;

    if (!nbytes)
        return ISHMEMX_OK;
    pysh_ucx_lock();
    changes(pe);
    send_pieces(heap, dest, source, nbytes, pe,
                nbytes <= PYSH_UCX_INSIDE ? NULL
                : nbi                     ? &pysh_ucx.non_blocking
                                          : &here);
    pysh_ucx_unlock();
    if (nbi || nbytes <= PYSH_UCX_INSIDE)
        return pysh_ucx_lost(pe);
    if ((status = wait_until(is_sent, &here, pe, "put")))
        settle(&here, pe);
    return status;
}

/* The order is that of all messages. */
void pysh_ucx_post(int64_t dest, const void *source, size_t nbytes, int pe, bool behind) {
    (void)behind;
    pysh_ucx_lock();
    send_pieces(ISHMEMX_HEAP_HOST, dest, source, nbytes, pe, NULL);
    pysh_ucx_unlock();
}

void pysh_ucx_raise(int64_t dest, uint64_t value, int pe) {
    pysh_ucx_head_t head = {
        .kind = PYSH_UCX_RAISE, .heap = ISHMEMX_HEAP_HOST, .offset = (uint64_t)dest, .value = value};

    pysh_ucx_lock();
    pysh_ucx_send(pe, &head, NULL, NULL);
    pysh_ucx_unlock();
}

/* ---- get, atomics ---- */

/* Sends `head` with a token, and waits for the answer. */
static int ask_and_wait(pysh_ucx_head_t *head, char *dest, size_t nbytes, int pe, const char *what, uint64_t *value_p) {
    asked_t *own;
    int status;

    pysh_ucx_lock();
    if ((own = ask(dest, nbytes, false, &head->token)))
        pysh_ucx_send(pe, head, NULL, NULL);
    pysh_ucx_unlock();
    if (!own)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "%s: no memory to ask PE %d", what, pe);
    status = wait_until(is_here, own, pe, what);
    if (value_p)
        *value_p = own->value;
    pysh_ucx_lock();
    give_up(head->token);
    pysh_ucx_unlock();
    return status;
}

int pysh_ucx_get(int heap, void *dest, int64_t source, size_t nbytes, int pe, bool nbi) {
    pysh_ucx_head_t head = {.kind = PYSH_UCX_GET, .heap = (uint8_t)heap, .offset = (uint64_t)source, .value = nbytes};
    asked_t *own;

    if (!nbytes)
        return ISHMEMX_OK;
    if (!nbi)
        return ask_and_wait(&head, dest, nbytes, pe, "get", NULL);
    pysh_ucx_lock();
    if ((own = ask(dest, nbytes, true, &head.token))) {
        atomic_fetch_add(&gets_left, 1);
        changes(pe); /* flush asks there for an answer, which tells that the PE is alive */
        pysh_ucx_send(pe, &head, NULL, NULL);
    }
    pysh_ucx_unlock();
    if (!own)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "get_nbi: no memory to ask PE %d", pe);
    return pysh_ucx_lost(pe);
}

int pysh_ucx_amo(int heap, int op, int type, int64_t dest, uint64_t value, uint64_t cond, int pe, uint64_t *fetched_p) {
    pysh_ucx_head_t head = {.kind = PYSH_UCX_AMO,
                            .heap = (uint8_t)heap,
                            .op = (uint8_t)op,
                            .type = (uint8_t)type,
                            .offset = (uint64_t)dest,
                            .value = value,
                            .cond = cond};

    if (fetched_p)
        return ask_and_wait(&head, NULL, 1, pe, "atomic operation", fetched_p);
    pysh_ucx_lock();
    changes(pe);
    pysh_ucx_send(pe, &head, NULL, NULL);
    pysh_ucx_unlock();
    return pysh_ucx_lost(pe);
}

/* ---- flush ---- */

bool pysh_ucx_outstanding(void) {
    return atomic_load_explicit(&pysh_ucx.outstanding, memory_order_relaxed);
}

/* Without the mutex. Of `asked` a thread sees at least what it has asked for itself; another's, seen or not, orders
 * nothing. */
static bool is_flushed(int pe) {
    const pysh_ucx_peer_t *peer = &pysh_ucx.peer[pe];

    return __atomic_load_n(&peer->flushed, __ATOMIC_ACQUIRE) >= __atomic_load_n(&peer->asked, __ATOMIC_RELAXED);
}

static bool all_flushed(const void *unused) {
    (void)unused;
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++)
        if (!is_flushed(pe))
            return false;
    return atomic_load_explicit(&gets_left, memory_order_acquire) == 0 && is_sent(&pysh_ucx.non_blocking);
}

/* The first PE that has not answered; the own when there is none, which nobody loses. */
static int first_silent(void) {
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++)
        if (!is_flushed(pe) && atomic_load(&pysh_ucx.peer[pe].failed))
            return pe;
    return pysh_ucx.pe;
}

static void ask_all(void) {
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++) {
        pysh_ucx_peer_t *peer = &pysh_ucx.peer[pe];
        pysh_ucx_head_t head = {.kind = PYSH_UCX_FLUSH, .value = peer->changes};
        if (peer->changes == peer->asked)
            continue;
        __atomic_store_n(&peer->asked, peer->changes, __ATOMIC_RELAXED); /* is_flushed() looks at it */
        pysh_ucx_send(pe, &head, NULL, NULL);
    }
}

int pysh_ucx_flush(void) {
    int status = ISHMEMX_OK;
    pysh_wait_t wait;

    if (!pysh_ucx_outstanding())
        return ISHMEMX_OK;
    pysh_ucx_lock();
    ask_all();
    pysh_ucx_unlock();
    pysh_wait_begin(&wait, "quiet");
    while (!status && !all_flushed(NULL))
        if (!(status = pysh_ucx_lost(first_silent())))
            status = pysh_wait_pause(&wait);
    pysh_wait_end(&wait);
    if (status)
        return status;
    pysh_ucx_lock();
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++)
        if (pysh_ucx.peer[pe].changes != pysh_ucx.peer[pe].flushed)
            goto more; /* another thread's, meanwhile */
    atomic_store_explicit(&pysh_ucx.outstanding, false, memory_order_relaxed);
more:
    pysh_ucx_unlock();
    return ISHMEMX_OK;
}
