/* SPDX-License-Identifier: BSD-3-Clause
 * Each PE tells PE 0 that it has arrived, with what it says in an exchange; PE 0 counts, and tells all once all have
 * come: two messages one behind the other, whatever the number of PEs. What PE 0 counts, and what a PE has been told,
 * is changed with the worker's mutex, as messages are served with it.
 *
 * A PE that leaves asks PE 0, which may have counted it in with the others already: then the barrier is complete, and
 * its release has come before the answer, as messages are in order. */
#include "transport/ucx/agree.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "node/control.h"
#include "node/wait.h"
#include "transport/ucx/transfer.h"
#include "transport/ucx/ucx.h"

#define HANDLERS_NS (50 * 1000 * 1000LL)   /* between two looks for signals, of two messages each */
#define ANSWER_NS   (1000 * 1000 * 1000LL) /* how long who leaves waits for PE 0 */
#define ATTEMPTS    10                     /* to leave, where the release does not come */

enum { VOTES = 1, EXCHANGES = 2 };     /* of a PE */
enum { ALL_VOTED = 1, MIXED = 2 };     /* of all; MIXED: some are in another routine than others */
enum { UNANSWERED, IS_OUT, TOO_LATE }; /* to who leaves */

/* What a PE is in, before what it says there. */
typedef struct arrival {
    int32_t pe, bits;
    uint32_t nbytes;
    char routine[48];
} arrival_t;

_Static_assert(2 * sizeof(arrival_t) <= PYSH_UCX_INSIDE, "two of them travel at once");

/* PE 0's. There are two halves of what PEs say, used in turn: that of an epoch is written again in the next but one,
 * which nobody enters before all have passed the one between, and so have been told all of this. */
static struct {
    uint64_t epoch;     /* that PEs arrive in */
    int n;              /* that have */
    arrival_t *arrived; /* [n_pes] pe -1: it has not */
    arrival_t differ[2][2];
    char *said[2];
    size_t capacity[2];
} root;

static struct {
    uint64_t passed;           /* epochs */
    _Atomic uint64_t released; /* by PE 0 */
    uint64_t about;            /* the last one */
    arrival_t differ[2];       /* if that is MIXED: of two */
    char *all;                 /* else what all have said in it */
    size_t capacity;
    struct {
        arrival_t arrival;
        char said[PYSH_EXCHANGE_BYTES];
    } mine[2]; /* as it travels, in two halves as well */
    _Atomic int answer;
    uint64_t question; /* of the last one who left */
    bool ended;
} own;

static bool grow_to(char **buffer, size_t *capacity, size_t nbytes) {
    char *grown = nbytes > *capacity ? realloc(*buffer, nbytes) : *buffer;

    if (nbytes > *capacity && grown) {
        *buffer = grown;
        *capacity = nbytes;
    }
    return nbytes <= *capacity;
}

static bool is_other(const arrival_t *a, const arrival_t *b) {
    return (a->bits ^ b->bits) & EXCHANGES || a->nbytes != b->nbytes;
}

/* ---- PE 0 ---- */

static void complete(void) {
    int half = root.epoch & 1;
    size_t nbytes = (size_t)pysh_ucx.n_pes * root.arrived[0].nbytes;
    pysh_ucx_head_t head = {.kind = PYSH_UCX_RELEASE, .token = root.epoch + 1};
    const void *data = root.said[half];
    int votes = VOTES;

    for (int pe = 0; pe < pysh_ucx.n_pes; pe++) {
        votes &= root.arrived[pe].bits;
        if (is_other(&root.arrived[pe], &root.arrived[0]) && !(head.value & MIXED)) {
            head.value |= MIXED;
            root.differ[half][0] = root.arrived[0];
            root.differ[half][1] = root.arrived[pe];
            data = root.differ[half];
            nbytes = sizeof root.differ[half];
        }
    }
    if (votes)
        head.value |= ALL_VOTED;
    head.cond = nbytes;
    root.epoch++;
    root.n = 0;
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++)
        root.arrived[pe].pe = -1;
    for (int pe = 1; pe < pysh_ucx.n_pes; pe++)
        pysh_ucx_answer(pe, &head, data, nbytes);
    head.nbytes = (uint32_t)nbytes;
    pysh_ucx_on_release(&head, data);
}

void pysh_ucx_on_arrive(const pysh_ucx_head_t *head, const void *data) {
    arrival_t arrival;
    int half = root.epoch & 1;

    if (!root.arrived || head->nbytes < sizeof arrival || head->token != root.epoch || root.arrived[head->from].pe >= 0)
        return;
    memcpy(&arrival, data, sizeof arrival);
    if (arrival.nbytes != head->nbytes - sizeof arrival || arrival.pe != head->from ||
        !grow_to(&root.said[half], &root.capacity[half], (size_t)pysh_ucx.n_pes * arrival.nbytes))
        return;
    arrival.routine[sizeof arrival.routine - 1] = 0;
    root.arrived[head->from] = arrival;
    if (arrival.nbytes)
        memcpy(root.said[half] + (size_t)head->from * arrival.nbytes, (const char *)data + sizeof arrival,
               arrival.nbytes);
    if (++root.n == pysh_ucx.n_pes)
        complete();
}

static int strike_out(int pe, uint64_t epoch) {
    if (epoch != root.epoch || !root.arrived || root.arrived[pe].pe < 0)
        return epoch == root.epoch ? IS_OUT : TOO_LATE;
    root.arrived[pe].pe = -1;
    root.n--;
    return IS_OUT;
}

void pysh_ucx_on_leave(const pysh_ucx_head_t *head, const void *data) {
    pysh_ucx_head_t answer = {.kind = PYSH_UCX_LEFT, .token = head->value};

    (void)data;
    answer.value = (uint64_t)strike_out(head->from, head->token);
    pysh_ucx_answer(head->from, &answer, NULL, 0);
}

/* ---- each PE ---- */

void pysh_ucx_on_left(const pysh_ucx_head_t *head, const void *data) {
    (void)data;
    if (head->from == 0 && head->token == own.question)
        atomic_store(&own.answer, (int)head->value);
}

/* It comes in pieces where PEs have said much. */
void pysh_ucx_on_release(const pysh_ucx_head_t *head, const void *data) {
    bool mixed = head->value & MIXED;
    char *to = mixed ? (char *)own.differ : own.all;

    if (head->from != 0 || head->offset + head->nbytes > head->cond || (mixed && head->cond != sizeof own.differ))
        return;
    if (!mixed && head->offset == 0) {
        if (!grow_to(&own.all, &own.capacity, head->cond))
            return;
        to = own.all;
    }
    if (head->nbytes)
        memcpy(to + head->offset, data, head->nbytes);
    if (head->offset + head->nbytes < head->cond)
        return;
    own.about = head->value;
    /* release: pairs with the acquire in is_released() */
    atomic_store_explicit(&own.released, head->token, memory_order_release);
    pysh_ucx_wake_all();
}

static bool is_released(uint64_t epoch) {
    return atomic_load_explicit(&own.released, memory_order_acquire) > epoch;
}

static void arrive(uint64_t epoch) {
    arrival_t *mine = &own.mine[epoch & 1].arrival;
    pysh_ucx_head_t head = {.kind = PYSH_UCX_ARRIVE, .token = epoch, .nbytes = (uint32_t)sizeof *mine + mine->nbytes};

    pysh_ucx_lock();
    if (pysh_ucx.pe == 0)
        pysh_ucx_on_arrive(&head, mine);
    else
        pysh_ucx_send(0, &head, mine, NULL);
    pysh_ucx_unlock();
}

/* True: this PE is not in the barrier any more, or PE 0 does not say: then the question comes there before what this PE
 * sends next, and so all is as if it had been answered. */
static bool ucx_withdraw(uint64_t epoch) {
    int64_t deadline_ns = pysh_now_ns() + ANSWER_NS;
    pysh_ucx_head_t head = {.kind = PYSH_UCX_LEAVE, .token = epoch};
    int answer;

    pysh_ucx_lock();
    if (pysh_ucx.pe == 0) {
        answer = strike_out(0, epoch);
        pysh_ucx_unlock();
        return answer == IS_OUT;
    }
    atomic_store(&own.answer, UNANSWERED);
    head.value = ++own.question;
    pysh_ucx_send(0, &head, NULL, NULL);
    pysh_ucx_unlock();
    while (!(answer = atomic_load(&own.answer)) && !atomic_load(&pysh_ucx.peer[0].failed) &&
           pysh_now_ns() < deadline_ns) {
        pysh_ucx_progress();
        sched_yield();
    }
    return answer != TOO_LATE;
}

typedef struct barrier_wait {
    pysh_wait_t wait; /* first: the barrier's functions get its address */
    uint64_t epoch;
} barrier_wait_t;

static bool ucx_leave(pysh_wait_t *wait) {
    return ucx_withdraw(((barrier_wait_t *)wait)->epoch);
}

static void ucx_come_back(pysh_wait_t *wait) {
    arrive(((barrier_wait_t *)wait)->epoch);
}

static const pysh_wait_barrier_t leaving = {ucx_leave, ucx_come_back, HANDLERS_NS};

static int ucx_mismatch(const char *what, const arrival_t *mine) {
    const arrival_t *other = &own.differ[!is_other(mine, &own.differ[0])];
    pysh_exchange_t theirs = {.epoch = 1};

    memcpy(theirs.routine, other->routine, sizeof other->routine);
    return pysh_exchange_mismatch(&theirs, 1, what, pysh_ucx.pe, other->pe);
}

static int pass(const char *what, int bits, const void *said, size_t nbytes) {
    barrier_wait_t barrier = {.epoch = own.passed};
    arrival_t *mine = &own.mine[own.passed & 1].arrival;
    int status = pysh_ucx_flush(), attempts = ATTEMPTS; /* what this PE has put has arrived before it does */

    if (status)
        return status;
    *mine = (arrival_t){.pe = pysh_ucx.pe, .bits = bits, .nbytes = (uint32_t)nbytes};
    snprintf(mine->routine, sizeof mine->routine, "%s", what);
    if (nbytes)
        memcpy(own.mine[own.passed & 1].said, said, nbytes);
    arrive(barrier.epoch);
    pysh_wait_begin_barrier(&barrier.wait, what, &leaving);
    while (!is_released(barrier.epoch))
        if (((status = pysh_ucx_lost(0)) || (status = pysh_wait_pause(&barrier.wait))) &&
            (barrier.wait.has_left || ucx_withdraw(barrier.epoch) || --attempts == 0))
            break;
    pysh_wait_end(&barrier.wait);
    if (!is_released(barrier.epoch))
        return status;
    own.passed++;
    return own.about & MIXED ? ucx_mismatch(what, mine) : ISHMEMX_OK;
}

static int ucx_barrier(const char *what, bool mine, bool *all_p) {
    int status = pass(what, mine ? VOTES : 0, NULL, 0);

    if (!status && all_p)
        *all_p = own.about & ALL_VOTED;
    return status;
}

static int ucx_exchange(const char *what, const void *mine, void *all, size_t nbytes) {
    int status;

    if (nbytes > PYSH_EXCHANGE_BYTES)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: exchange of %zu bytes, more than %d", what, nbytes,
                         PYSH_EXCHANGE_BYTES);
    if ((status = pass(what, EXCHANGES, mine, nbytes)))
        return status;
    if (nbytes)
        memcpy(all, own.all, (size_t)pysh_ucx.n_pes * nbytes);
    own.ended = own.ended || strcmp(what, "finalize") == 0;
    return ISHMEMX_OK;
}

bool pysh_ucx_ended_together(void) {
    return own.ended;
}

int pysh_ucx_agree_open(void) {
    own.passed = own.question = 0;
    own.ended = false;
    atomic_store(&own.released, 0);
    root.epoch = 0;
    root.n = 0;
    if (pysh_ucx.pe != 0)
        return ISHMEMX_OK;
    root.arrived = calloc((size_t)pysh_ucx.n_pes, sizeof *root.arrived);
    if (!root.arrived)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", pysh_ucx.n_pes);
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++)
        root.arrived[pe].pe = -1;
    return ISHMEMX_OK;
}

void pysh_ucx_agree_close(void) {
    free(root.arrived);
    root.arrived = NULL;
    for (int half = 0; half < 2; half++) {
        free(root.said[half]);
        root.said[half] = NULL;
        root.capacity[half] = 0;
    }
    free(own.all);
    own.all = NULL;
    own.capacity = 0;
}

const pysh_agree_t pysh_agree_ucx = {.exchange = ucx_exchange, .barrier = ucx_barrier};
