/* SPDX-License-Identifier: BSD-3-Clause
 * PEs of a node gather in memory that they share; its first PE, the head, meets those of the other nodes for all of
 * them: agree/tree.h. The words are those of the head's slot.
 *
 * All count themselves in `arrivals`. The head waits too, sees that all are there, and HOLDS them: what it then tells
 * other nodes is true until it lets go. A PE that leaves takes its arrival back, at once while nobody holds it; else it
 * ASKS, and the head asks the nodes above it. While one asks they are not held again, so that the one who asked gets
 * out; it clears the bit as it goes. An epoch is complete when the head says so, in `arrivals`, with what has come
 * about beside it: the word's release then pairs with the acquire of is_complete().
 *
 * What PEs say in an exchange lies in the slots, in two halves used in turn: that of an epoch is written again in the
 * next but one, which nobody enters before all have passed the one between, and so have read this. So is what the head
 * has to send, in the order of nodes. tests/model/tree_model.py has the order of all this. */
#include "transport/ucx/agree.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agree/tree.h"
#include "base/clock.h"
#include "base/status.h"
#include "node/control.h"
#include "node/node.h"
#include "node/sleep.h"
#include "node/wait.h"
#include "transport/ucx/transfer.h"
#include "transport/ucx/ucx.h"

#define HANDLERS_NS (50 * 1000 * 1000LL)   /* between two looks for signals, of two messages each */
#define ANSWER_NS   (1000 * 1000 * 1000LL) /* how long who leaves waits for the nodes above */
#define ATTEMPTS    10                     /* to leave, where all are there but the word does not come */

#define HELD (1ULL << 30)
#define ASKS (1ULL << 31)

static struct {
    pysh_control_slot_t *slot;   /* of all PEs of the job */
    pysh_gathering_t *gathering; /* of this node */
    int head, n;                 /* its first PE; how many it has */
    uint64_t passed;             /* epochs */
    uint64_t counted;            /* what this PE has added to `arrivals`, and not taken back; 0: nothing */
    bool ended;
    /* With the worker's mutex, and in use by heads alone: */
    pysh_tree_t tree;
    int *order; /* [n_pes] PEs, those of the first node first */
    int *begin; /* [n_nodes + 1] where a node's begin there */
    char *said[2];
} own;

static bool is_head(void) {
    return own.order;
}

static int node_arrived(uint64_t arrivals) {
    return (int)(arrivals & PYSH_COUNT_MASK);
}

static bool is_in(uint64_t arrivals, uint64_t epoch) {
    return arrivals >> PYSH_EPOCH_SHIFT == (uint32_t)epoch;
}

static bool is_complete(uint64_t epoch) {
    return !is_in(atomic_load_explicit(&own.gathering->arrivals, memory_order_acquire), epoch);
}

static void wake_pe(int pe) {
    pysh_sleep_wake(&own.slot[pe].sleeping, PYSH_SLEEPS);
}

/* ---- the head: what other nodes are told ---- */

static bool says_something(const pysh_met_t *met) {
    return !(met->about & PYSH_MIXED) && met->one[0].nbytes != PYSH_SAYS_NOTHING && met->one[0].nbytes > 0;
}

static int pe_of(int node) {
    return own.order[own.begin[node]];
}

/* Data goes before, as messages are in order. */
static void tell_node(int node, const pysh_tree_message_t *message) {
    static const uint8_t kind[] = {[PYSH_TREE_ARRIVE] = PYSH_UCX_ARRIVE,
                                   [PYSH_TREE_RELEASE] = PYSH_UCX_RELEASE,
                                   [PYSH_TREE_LEAVE] = PYSH_UCX_LEAVE,
                                   [PYSH_TREE_LEFT] = PYSH_UCX_LEFT};
    bool all = message->kind == PYSH_TREE_RELEASE;
    int first = all ? 0 : own.begin[own.tree.node], pe = pe_of(node);
    int end = all ? pysh_ucx.n_pes : own.begin[pysh_tree_end(own.tree.n_nodes, own.tree.node)];
    pysh_ucx_head_t head = {.kind = kind[message->kind], .token = message->epoch};

    if (!message->met) {
        head.value = message->question;
        head.cond = message->is_out;
        pysh_ucx_answer(pe, &head, NULL, 0);
        return;
    }
    if (says_something(message->met)) {
        size_t nbytes = message->met->one[0].nbytes;
        pysh_ucx_head_t said = {
            .kind = PYSH_UCX_SAID, .token = message->epoch, .value = (uint64_t)first, .cond = nbytes};
        pysh_ucx_answer(pe, &said, own.said[message->epoch & 1] + (size_t)first * nbytes,
                        (size_t)(end - first) * nbytes);
    }
    head.value = message->met->about;
    pysh_ucx_answer(pe, &head, message->met->one,
                    (message->met->about & PYSH_MIXED ? 2 : 1) * sizeof *message->met->one);
}

_Static_assert(sizeof((pysh_met_t *)0)->one <= PYSH_UCX_INSIDE, "it is copied, as it may change before it is sent");

static int node_of(int pe) {
    int node = 0;

    while (node < own.tree.n_nodes && pe_of(node) != pe)
        node++;
    return node < own.tree.n_nodes ? node : -1;
}

static void hear_node(const pysh_ucx_head_t *head, pysh_tree_message_t *message) {
    int node = is_head() ? node_of(head->from) : -1;

    message->epoch = head->token;
    if (node >= 0)
        pysh_tree_hear(&own.tree, node, message);
}

static void hear_met(enum pysh_tree_kind kind, const pysh_ucx_head_t *head, const void *data) {
    pysh_met_t met = {.about = head->value & (PYSH_ALL_VOTED | PYSH_MIXED)};
    pysh_tree_message_t message = {.kind = kind, .met = &met};

    if (head->nbytes != (met.about & PYSH_MIXED ? 2 : 1) * sizeof *met.one)
        return;
    memcpy(met.one, data, head->nbytes);
    for (int i = 0; i < 2; i++) {
        met.one[i].routine[sizeof met.one[i].routine - 1] = 0;
        if (met.one[i].pe < 0 || met.one[i].pe >= pysh_ucx.n_pes ||
            (met.one[i].nbytes > PYSH_EXCHANGE_BYTES && met.one[i].nbytes != PYSH_SAYS_NOTHING))
            return;
    }
    hear_node(head, &message);
}

void pysh_ucx_on_arrive(const pysh_ucx_head_t *head, const void *data) {
    hear_met(PYSH_TREE_ARRIVE, head, data);
}

void pysh_ucx_on_release(const pysh_ucx_head_t *head, const void *data) {
    hear_met(PYSH_TREE_RELEASE, head, data);
}

void pysh_ucx_on_leave(const pysh_ucx_head_t *head, const void *data) {
    pysh_tree_message_t message = {.kind = PYSH_TREE_LEAVE, .question = head->value};

    (void)data;
    hear_node(head, &message);
}

void pysh_ucx_on_left(const pysh_ucx_head_t *head, const void *data) {
    pysh_tree_message_t message = {.kind = PYSH_TREE_LEFT, .question = head->value, .is_out = head->cond};

    (void)data;
    hear_node(head, &message);
}

/* What PEs in the order of nodes say, from the one at `value` on, `cond` bytes each; it may come in pieces. */
void pysh_ucx_on_said(const pysh_ucx_head_t *head, const void *data) {
    size_t all = (size_t)pysh_ucx.n_pes * head->cond, at = head->value * head->cond + head->offset;

    if (!is_head() || head->token != own.tree.epoch || head->cond > PYSH_EXCHANGE_BYTES ||
        head->value >= (uint64_t)pysh_ucx.n_pes || head->offset > all || at > all || head->nbytes > all - at)
        return;
    if (head->nbytes)
        memcpy(own.said[head->token & 1] + at, data, head->nbytes);
}

/* ---- the head: its node ---- */

static pysh_exchange_t *said_by(int pe, uint64_t epoch) {
    return &own.slot[pe].exchange[epoch & 1];
}

static pysh_arrival_t arrival_of(int pe, uint64_t epoch) {
    pysh_arrival_t arrival = {.pe = pe, .nbytes = said_by(pe, epoch)->nbytes};

    memcpy(arrival.routine, said_by(pe, epoch)->routine, sizeof arrival.routine - 1);
    return arrival;
}

/* What the PEs of this node say, for all are there. */
static pysh_met_t gather_node(uint64_t arrivals) {
    uint64_t epoch = own.tree.epoch;
    const int *pes = own.order + own.begin[own.tree.node];
    bool voted = (arrivals / PYSH_VOTE & PYSH_COUNT_MASK) == (uint64_t)own.n;
    pysh_met_t met = {.about = voted ? PYSH_ALL_VOTED : 0, .one = {arrival_of(own.head, epoch)}};
    size_t nbytes = met.one[0].nbytes;

    if (!(arrivals / PYSH_EXCHANGE & PYSH_COUNT_MASK))
        return met;
    for (int i = 1; i < own.n && !(met.about & PYSH_MIXED); i++)
        pysh_met_add(&met, &(pysh_met_t){.about = met.about, .one = {arrival_of(pes[i], epoch)}});
    for (int i = 0; i < own.n && says_something(&met); i++)
        memcpy(own.said[epoch & 1] + (size_t)(own.begin[own.tree.node] + i) * nbytes, said_by(pes[i], epoch)->bytes,
               nbytes);
    return met;
}

/* In each turn of the head's wait. */
static void hold_or_let_go(void) {
    uint64_t arrivals = atomic_load_explicit(&own.gathering->arrivals, memory_order_acquire);
    bool held = arrivals & HELD, asks = arrivals & ASKS;

    if (held != asks || (!held && node_arrived(arrivals) < own.n))
        return;
    pysh_ucx_lock();
    if (held) {
        pysh_tree_leave(&own.tree);
    } else if (atomic_compare_exchange_strong(&own.gathering->arrivals, &arrivals, arrivals | HELD)) {
        pysh_met_t met = gather_node(arrivals);
        pysh_tree_arrive(&own.tree, &met);
    }
    pysh_ucx_unlock();
}

static void let_out(void) {
    atomic_fetch_and(&own.gathering->arrivals, ~HELD);
}

/* What this node's PEs cannot see themselves. */
static void publish_said(const pysh_met_t *met, uint64_t epoch) {
    size_t nbytes = met->one[0].nbytes;

    for (int i = 0; i < 2 && met->about & PYSH_MIXED; i++) {
        const pysh_arrival_t *arrival = &met->one[i];
        own.gathering->differ[i] = arrival->pe;
        if (!pysh_node.on_host(arrival->pe)) {
            said_by(arrival->pe, epoch)->nbytes = arrival->nbytes;
            memcpy(said_by(arrival->pe, epoch)->routine, arrival->routine, sizeof arrival->routine);
        }
    }
    for (int i = 0; i < pysh_ucx.n_pes && says_something(met); i++)
        if (!pysh_node.on_host(own.order[i]))
            memcpy(said_by(own.order[i], epoch)->bytes, own.said[epoch & 1] + (size_t)i * nbytes, nbytes);
}

static void release_node(const pysh_met_t *met) {
    uint64_t next = own.tree.epoch;
    const int *pes = own.order + own.begin[own.tree.node];

    publish_said(met, next - 1);
    own.gathering->about = met->about;
    /* Sequentially consistent: a release, and before the look at who sleeps. */
    atomic_store(&own.gathering->arrivals, (uint64_t)(uint32_t)next << PYSH_EPOCH_SHIFT);
    for (int i = 0; i < own.n; i++)
        wake_pe(pes[i]);
}

static const pysh_tree_calls_t calls = {tell_node, release_node, let_out};

/* ---- each PE ---- */

/* False: all are there. True: this PE is not in the barrier any more; or the nodes above do not say, and it may leave
 * it all the same: if it comes back it finds itself counted, or not. */
static bool ucx_withdraw(uint64_t epoch) {
    int64_t deadline_ns = pysh_now_ns() + ANSWER_NS;
    _Atomic uint64_t *word = &own.gathering->arrivals;
    uint64_t arrivals = atomic_load(word);

    while (own.counted && is_in(arrivals, epoch)) {
        if (!(arrivals & HELD)) {
            if (atomic_compare_exchange_strong(word, &arrivals, (arrivals - own.counted) & ~ASKS))
                own.counted = 0;
            continue;
        }
        if (!(arrivals & ASKS)) {
            if (atomic_compare_exchange_strong(word, &arrivals, arrivals | ASKS))
                wake_pe(own.head);
            continue;
        }
        if (is_head())
            hold_or_let_go();
        pysh_ucx_progress();
        if (pysh_now_ns() > deadline_ns || atomic_load(&pysh_ucx.n_failed))
            return true;
        sched_yield();
        arrivals = atomic_load(word);
    }
    return !own.counted;
}

/* One who could not leave as nobody said whether he may is counted still. */
static void arrive(uint64_t epoch, uint64_t bits) {
    _Atomic uint64_t *word = &own.gathering->arrivals;
    uint64_t arrivals = atomic_load(word);

    while (own.counted && is_in(arrivals, epoch)) {
        bool held = arrivals & HELD;
        if (held && !(arrivals & ASKS))
            return;
        if (atomic_compare_exchange_strong(word, &arrivals, (arrivals - (held ? 0 : own.counted)) & ~ASKS) && !held)
            own.counted = 0;
    }
    if (own.counted || !is_in(arrivals, epoch))
        return;
    own.counted = bits;
    /* Sequentially consistent: a release of what this PE says, and before the look whether the head sleeps. */
    arrivals = atomic_fetch_add(word, bits) + bits;
    if (node_arrived(arrivals) < own.n)
        return;
    if (is_head())
        hold_or_let_go();
    else
        wake_pe(own.head);
}

typedef struct barrier_wait {
    pysh_wait_t wait; /* first: the barrier's functions get its address */
    uint64_t epoch, bits;
} barrier_wait_t;

static bool ucx_leave(pysh_wait_t *wait) {
    return ucx_withdraw(((barrier_wait_t *)wait)->epoch);
}

static void ucx_come_back(pysh_wait_t *wait) {
    const barrier_wait_t *barrier = (barrier_wait_t *)wait;

    arrive(barrier->epoch, barrier->bits);
}

static const pysh_wait_barrier_t leaving = {ucx_leave, ucx_come_back, HANDLERS_NS};

static int ucx_mismatch(const char *what, uint64_t epoch) {
    const int32_t *differ = own.gathering->differ;
    int other = differ[said_by(differ[0], epoch)->nbytes == said_by(pysh_ucx.pe, epoch)->nbytes];
    pysh_exchange_t theirs = {.epoch = 1};

    memcpy(theirs.routine, said_by(other, epoch)->routine, sizeof theirs.routine);
    return pysh_exchange_mismatch(&theirs, 1, what, pysh_ucx.pe, other);
}

static int pass(const char *what, uint64_t bits, const void *said, size_t nbytes) {
    barrier_wait_t barrier = {.epoch = own.passed, .bits = PYSH_ARRIVAL + bits};
    pysh_exchange_t *exchange = said_by(pysh_ucx.pe, own.passed);
    int status = pysh_ucx_flush(), attempts = ATTEMPTS; /* what this PE has put has arrived before it does */

    if (status)
        return status;
    pysh_exchange_begin(exchange, (uint32_t)own.passed, what, said ? said : "", nbytes);
    if (!(bits & PYSH_EXCHANGE))
        exchange->nbytes = PYSH_SAYS_NOTHING;
    arrive(barrier.epoch, barrier.bits);
    pysh_wait_begin_barrier(&barrier.wait, what, &leaving);
    while (!is_complete(barrier.epoch)) {
        if (is_head())
            hold_or_let_go();
        if ((status = pysh_wait_pause(&barrier.wait)) &&
            (barrier.wait.has_left || ucx_withdraw(barrier.epoch) || --attempts == 0))
            break;
    }
    pysh_wait_end(&barrier.wait);
    if (!is_complete(barrier.epoch))
        return status;
    own.counted = 0;
    own.passed++;
    return own.gathering->about & PYSH_MIXED ? ucx_mismatch(what, barrier.epoch) : ISHMEMX_OK;
}

static int ucx_barrier(const char *what, bool mine, bool *all_p) {
    int status = pass(what, mine ? PYSH_VOTE : 0, NULL, 0);

    if (!status && all_p)
        *all_p = own.gathering->about & PYSH_ALL_VOTED;
    return status;
}

static int ucx_exchange(const char *what, const void *mine, void *all, size_t nbytes) {
    int status;

    if (nbytes > PYSH_EXCHANGE_BYTES)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: exchange of %zu bytes, more than %d", what, nbytes,
                         PYSH_EXCHANGE_BYTES);
    if ((status = pass(what, PYSH_EXCHANGE, mine, nbytes)))
        return status;
    for (int pe = 0; nbytes && pe < pysh_ucx.n_pes; pe++)
        memcpy((char *)all + (size_t)pe * nbytes, said_by(pe, own.passed - 1)->bytes, nbytes);
    own.ended = own.ended || strcmp(what, "finalize") == 0;
    return ISHMEMX_OK;
}

bool pysh_ucx_ended_together(void) {
    return own.ended;
}

/* Nodes in the order of their first PEs. */
static int open_head(const int *first) {
    int n_pes = pysh_ucx.n_pes, n_nodes = 0, n = 0;

    own.order = malloc((size_t)n_pes * sizeof *own.order);
    own.begin = malloc(((size_t)n_pes + 1) * sizeof *own.begin);
    for (int half = 0; half < 2; half++)
        own.said[half] = malloc((size_t)n_pes * PYSH_EXCHANGE_BYTES); /* pages of it once they are used */
    if (!own.order || !own.begin || !own.said[0] || !own.said[1])
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", n_pes);
    for (int head = 0; head < n_pes; head++) {
        if (first[head] != head)
            continue;
        own.begin[n_nodes++] = n;
        for (int pe = head; pe < n_pes; pe++)
            if (first[pe] == head)
                own.order[n++] = pe;
    }
    own.begin[n_nodes] = n;
    pysh_tree_open(&own.tree, &calls, n_nodes, 0);
    pysh_tree_open(&own.tree, &calls, n_nodes, node_of(pysh_ucx.pe));
    return ISHMEMX_OK;
}

int pysh_ucx_agree_open(pysh_control_slot_t *slot, const int *first) {
    own.slot = slot;
    own.head = first[pysh_ucx.pe];
    own.gathering = &slot[own.head].gathering;
    own.n = 0;
    own.passed = own.counted = 0;
    own.ended = false;
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++)
        own.n += first[pe] == own.head;
    return own.head == pysh_ucx.pe ? open_head(first) : ISHMEMX_OK;
}

void pysh_ucx_agree_close(void) {
    free(own.order);
    free(own.begin);
    own.order = own.begin = NULL;
    for (int half = 0; half < 2; half++) {
        free(own.said[half]);
        own.said[half] = NULL;
    }
}

const pysh_agree_t pysh_agree_ucx = {.exchange = ucx_exchange, .barrier = ucx_barrier};
