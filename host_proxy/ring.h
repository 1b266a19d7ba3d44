/* SPDX-License-Identifier: BSD-3-Clause
 * The ring: how a kernel asks the host for what loads and stores cannot do. Freestanding, as base/phased.h is; the
 * device side is pyshmem/device/ring/requests.py. The numbers are the contract's (pyshmem/_core/contract.py).
 *
 * Three places:
 *   slots    N requests of 64 bytes, in memory that host and kernels share (pinned); kernels write, the proxy reads
 *   control  pysh_ring_control_t and N reply cells, shared memory too; the proxy writes, kernels read, and `asked`
 *            the other way round
 *   device   pysh_ring_device_t, in memory near the kernels; the proxy never touches it, but for `done`, which a copy
 *            engine's stream writes
 *
 * A sender
 *   1. takes a ticket t: fetch-add on device.ticket. Slot and reply cell are t % N.
 *   2. waits for credit: t < consumed + N. It looks at device.consumed first, its shadow, and only when that
 *      would block it at control.consumed, with which it then raises the shadow. Only senders whose tickets are
 *      less than PYSH_RING_CREDIT past the credit look there: thousands of polls across the bus would starve the rest.
 *   3. that wants a reply waits until device.busy[t % N] is free, and claims it by an atomic that stores 1: whoever
 *      used the cell before has read its reply. Only the owner of t can be here: t - N has been consumed, so
 *      its sender went through this step, and t + N has no credit yet. So no sender waits for a later one.
 *   4. stores the eight words of the slot, relaxed, in any order: there is no release and no last word. Each carries
 *      the phase of its ticket in its top byte, see pysh_request_pack(). What a request hands over in memory (the
 *      source of a put) the sender fences at system scope before.
 *   5. reads its reply from the cell, or from device.done[] when the request carries PYSH_REQUEST_DONE, and
 *      then frees device.busy[t % N]. One that gives up stores the tag it waited for instead, with
 *      PYSH_BUSY_LEFT: the next sender takes the cell over when that reply has come.
 * The tag of a reply is the low 32 bits of t + 1: senders that wait for cell t % N at one time have tickets less than
 * 2^32 apart, and one whose ticket has another upper half than the cell's last user's overwrites the tag first. The
 * phase in a slot may be short: credit keeps a slot to one ticket until the proxy has seen all of its words, so what
 * stands there is either this turn's or the one's before. A release before a last word would wait for the seven others
 * to reach the host and back: 1.5 us of 4.2 on an H200.
 *
 * Slots and control are in the host's memory, `device` in the GPU's, and of two stores to different memories
 * either may arrive first, by as much as the host takes to answer and more. So nothing here trusts the order of
 * two plain stores; tests/model/ring_model.py lets each arrive when it likes. Which store pairs with which
 * load, and what orders them:
 *   - device.ticket: an atomic near the kernel, whose value all that follows depends on
 *   - a request's word (sender, relaxed) -> the same word (proxy, acquire): it carries its own phase; and the
 *     source data, which the sender fenced before it
 *   - control.consumed (proxy, release) -> control.consumed (sender, relaxed, then a store that depends on it):
 *     a slot is not written before the proxy has copied it out. device.consumed is raised by who has loaded
 *     that, and read like it: late, it only sends others across the bus
 *   - device.busy, 1: a compare-and-swap (sender, relaxed) -> that of the cell's next user. Of two that find it
 *     free one has it, in whatever order they come; and the slot is stored only when the value is back, so the
 *     proxy cannot have consumed t while `busy` is still free. (A plain store of the 1 came behind the host's
 *     answer to the slot: two had one cell, a reply was overwritten, and its sender waited for ever.)
 *   - device.busy, free or given up (reader, relaxed, behind the acquire that ended its wait: the reply is in
 *     its registers) -> the next sender's compare-and-swap. Late, the next waits longer
 *   - a tag that a sender overwrites, in the cell and in device.done[] -> the proxy's, or the stream's: a fence
 *     at system scope stands between them and the slot
 *   - cell.tag (proxy, release) -> cell (sender, one 16-byte load, acquire): value, and the data behind it
 *   - device.done (a stream, behind its copy, at system scope) -> device.done (sender, relaxed, then acquire):
 *     the copy
 *   - device.pending (sender, an atomic without a value) -> device.pending (quiet, relaxed): of the same
 *     thread, or of one that has met it since, by a barrier or an acquire. It may come before the slot: quiet
 *     then waits until the proxy has had the slot
 *   - control.asked (kernel, relaxed) -> control.asked (proxy, acquire): late or overwritten, it is stored
 *     again
 *   - control.acked (proxy, release) -> control.acked (kernel, relaxed, then fence); behind that fence the
 *     kernel raises device.acked (relaxed) -> device.acked (another's quiet, relaxed, then fence): both see
 *     what is complete
 *   - device.noted (a slow sender, relaxed, the first word by compare-and-swap) -> the next slow one's: it only
 *     bounds how often control.waiter is stored
 *   - control.waiter (that sender, relaxed) -> control.waiter (a report, relaxed): for people. The second word
 *     has bits of the ticket, so that of two senders' words none is taken for the other's
 *   - skipped (sender, an atomic without a value) -> skipped (proxy, relaxed): it orders nothing. Its sender
 *     stores no slot, so that it comes late keeps the ring waiting, and no more
 *
 * What must stay in order between tickets goes by one ring: a block's requests, and the flags of a team
 * (pyshmem/device/team/flags.py), which blocks of several rings may raise in turn. Requests of two rings are in
 * no order.
 *
 * Quiet is no request. A request without a reply raises device.pending to its ticket + 1. Quiet compares
 * device.pending with device.acked, the shadow of control.acked: equal or less, nothing is in flight, and a fence is
 * all. Otherwise it stores `pending` in control.asked and waits until control.acked has reached it: the proxy writes
 * there the number a when all tickets below a are complete, remotely too. One that asks for less may store its number
 * later, so who still waits stores its own again; a maximum would have to be an atomic on the host's memory, which
 * most GPUs only have by themselves. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/phased.h"
#include "pysh_contract.h"

/* What device.busy[] has: 1 in use; free, the upper half of the last user's ticket from bit PYSH_RING_BUSY_TURN_BIT
 * on, 0 below; or a tag and LEFT, and ENGINE when the reply that was given up is one for device.done[]. */
#define PYSH_BUSY_LEFT   (1ULL << PYSH_RING_BUSY_LEFT_BIT)
#define PYSH_BUSY_ENGINE (1ULL << PYSH_RING_BUSY_ENGINE_BIT)

typedef struct pysh_request {
    uint64_t word[PYSH_WORD_COUNT];
} pysh_request_t;

/* The phase of ticket t in a ring of N slots. */
static inline uint64_t pysh_ring_phase(uint64_t ticket, unsigned log2_n) {
    return pysh_phase(ticket, log2_n);
}

static inline void pysh_request_pack(const pysh_request_t *request, uint64_t phase, pysh_slot_t *slot) {
    pysh_words_pack(request->word, phase, slot);
}

/* False when a word is of another phase. */
static inline int pysh_request_unpack(const pysh_slot_t *slot, uint64_t phase, pysh_request_t *request) {
    return pysh_words_unpack(slot, phase, request->word);
}

typedef struct pysh_cell { /* a reply; kernels read it with one 16-byte load */
    uint64_t value;
    uint32_t tag, status; /* status: ishmemx_status; stored with the tag, as one word, last */
} pysh_cell_t;

/* Where the sender of a ticket that gives up before it has stored its request says so: it raises this to ticket + 1.
 * The slot may still be another's, and without a word the ring would stand still at that ticket. */
#define pysh_ring_skipped(_control, _n, _ticket) (&((uint64_t *)(void *)&(_control)->cell[_n])[(_ticket) & ((_n) - 1)])

/* A line each, so that a poll for one is not slowed by stores to another. */
typedef struct pysh_ring_control {
    uint64_t consumed, pad0[15];  /* requests copied out so far */
    uint64_t asked, pad1[15];     /* quiet: wanted */
    uint64_t acked, pad2[15];     /* quiet: reached */
    uint64_t waiter[2], pad3[14]; /* who has waited for long: see pysh_ring_waiter() */
    pysh_cell_t cell[];           /* [N], and behind them skipped[N]: see pysh_ring_skipped() */
} pysh_ring_control_t;

typedef struct pysh_ring_waiter {
    uint64_t ticket; /* AWAITS_QUIET: all below it are to be complete */
    int awaits;      /* PYSH_AWAITS_ */
    int64_t block;   /* -1: not known, another stored its words at the same time */
    int thread;
} pysh_ring_waiter_t;

/* The words of control.waiter: the ticket above what it waits for, 8 bits; block, 32 bits, thread, 12, and the ticket's
 * low 20 bits. */
static inline pysh_ring_waiter_t pysh_ring_waiter(const pysh_ring_control_t *control) {
    uint64_t first = __atomic_load_n(&control->waiter[0], __ATOMIC_RELAXED);
    uint64_t place = __atomic_load_n(&control->waiter[1], __ATOMIC_RELAXED);
    int whole = place >> 44 == (first >> 8 & 0xfffff);

    return (pysh_ring_waiter_t){.ticket = first >> 8,
                                .awaits = (int)(first & 0xff),
                                .block = whole ? (int64_t)(place & 0xffffffff) : -1,
                                .thread = (int)(place >> 32 & 0xfff)};
}

typedef struct pysh_ring_device {
    uint64_t ticket, pad0[15];
    uint64_t consumed, pad1[15]; /* shadow of control.consumed */
    uint64_t pending, pad2[15];  /* 1 + the last ticket without a reply */
    uint64_t acked, pad3[15];    /* shadow of control.acked */
    uint64_t noted[2], pad4[14]; /* when control.waiter was stored last, and its ticket */
    uint64_t word[];             /* [2 N]: busy[N], then done[N] */
} pysh_ring_device_t;

_Static_assert((int)PYSH_WORD_COUNT == (int)PYSH_MESSAGE_WORDS, "a request is one message");
_Static_assert(sizeof(pysh_slot_t) == 64, "a request is one cache line");
_Static_assert(sizeof(pysh_cell_t) == PYSH_RING_CELL_BYTES, "a reply is one 16-byte load");
#define PYSH_RING_AT(_type, _field, _bytes) \
    _Static_assert(offsetof(_type, _field) == (_bytes), "not as in the contract")
PYSH_RING_AT(pysh_ring_control_t, consumed, PYSH_RING_CONTROL_CONSUMED);
PYSH_RING_AT(pysh_ring_control_t, asked, PYSH_RING_CONTROL_ASKED);
PYSH_RING_AT(pysh_ring_control_t, acked, PYSH_RING_CONTROL_ACKED);
PYSH_RING_AT(pysh_ring_control_t, waiter, PYSH_RING_CONTROL_WAITER);
PYSH_RING_AT(pysh_ring_control_t, cell, PYSH_RING_CONTROL_CELLS);
PYSH_RING_AT(pysh_ring_device_t, ticket, PYSH_RING_DEVICE_TICKET);
PYSH_RING_AT(pysh_ring_device_t, consumed, PYSH_RING_DEVICE_CONSUMED);
PYSH_RING_AT(pysh_ring_device_t, pending, PYSH_RING_DEVICE_PENDING);
PYSH_RING_AT(pysh_ring_device_t, acked, PYSH_RING_DEVICE_ACKED);
PYSH_RING_AT(pysh_ring_device_t, noted, PYSH_RING_DEVICE_NOTED);
PYSH_RING_AT(pysh_ring_device_t, word, PYSH_RING_DEVICE_WORDS);
#undef PYSH_RING_AT
