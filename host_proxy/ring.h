/* SPDX-License-Identifier: BSD-3-Clause
 * The ring: how a kernel asks the host for what loads and stores cannot do. Freestanding; the device side is
 * pyshmem/device/_ring.py, which mirrors the numbers (a test compares them).
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
 *   3. that wants a reply waits until device.busy[t % N] is free, then stores 1 there: whoever used the
 *      cell before has read its reply. Only the owner of t can be here: t - N has been consumed, so
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
 * Which store pairs with which load:
 *   - a word (sender, relaxed) -> the same word (proxy, acquire): it carries its own phase; and the source data, which
 *     the sender fenced before it
 *   - control.consumed (proxy, release) -> control.consumed (sender, relaxed, then a store that depends on it): a slot
 *     is not written before the proxy has copied it out
 *   - cell.tag (proxy, release) -> cell (sender, one 16-byte load, then acquire): value, and the data behind it
 *   - device.busy (reader, relaxed, free) -> device.busy (next sender, relaxed): the same GPU; the reply was in the
 *     reader's registers by then
 *   - control.asked (kernel, relaxed) -> control.asked (proxy, acquire)
 *   - control.acked (proxy, release) -> control.acked (kernel, relaxed, then fence)
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

#define PYSH_RING_MAX_RINGS 4
/* What device.busy[] has: 1 in use; free, the upper half of the last user's ticket from bit PYSH_BUSY_TURN on, 0 below;
 * or a tag and LEFT. */
#define PYSH_BUSY_TURN   34
#define PYSH_BUSY_LEFT   (1ULL << 32)
#define PYSH_BUSY_ENGINE (1ULL << 33) /* the reply that was given up is one for device.done[] */
#define PYSH_RING_CREDIT 128          /* the proxy publishes `consumed` every so many requests, and when it goes idle */

/* Words of a request, before they are packed into a slot. */
enum pysh_request_word {
    PYSH_WORD_DEST,   /* address at the caller; PRINT: characters 0..7 of the label; CALL, POST: argument 0 */
    PYSH_WORD_SOURCE, /* address at the caller; AMO without a reply: where the old value goes, or 0; characters 8..15 */
    PYSH_WORD_VALUE,  /* bytes of PUT and GET, blocks of IPUT and IGET, the value of AMO; characters 16..23 */
    PYSH_WORD_EXTRA,  /* cond of AMO, sig_addr of PUT_SIGNAL, dest stride of IPUT and IGET; the value of PRINT */
    PYSH_WORD_EXTRA2, /* signal of PUT_SIGNAL, source stride; PRINT, ABORT: block (low 32), thread (high 32) */
    PYSH_WORD_PE,   /* world pe (low 32); high 32: the AMO's number, sig_op, elements of a block, handler, kind of PRINT
                     */
    PYSH_WORD_KIND, /* op (bits 0..7), type or width in bytes (8..15), flags (16..31), scope (32..47) */
    PYSH_REQUEST_WORDS,
    PYSH_SLOT_WORDS = 8
};

enum pysh_request_flag {
    PYSH_REQUEST_REPLY = 1, /* a reply is wanted, in the cell */
    PYSH_REQUEST_DONE =
        2, /* with REPLY: when a copy engine does the work, its stream stores the tag in device.done[cell] */
    PYSH_REQUEST_RELEASE = 4 /* the sender fenced before it stored the request: of no concern to the proxy */
};

enum pysh_print_kind { PYSH_PRINT_INT, PYSH_PRINT_FLOAT, PYSH_PRINT_TEXT };

enum pysh_request_op {
    PYSH_OP_NULL = 1, /* answers 0 */
    PYSH_OP_PUT,      /* dest at pe <- source, VALUE bytes; the reply says that it is complete there */
    PYSH_OP_GET,      /* dest <- source at pe */
    PYSH_OP_IPUT,     /* strided and block-strided; strides and block in elements of `type` bytes */
    PYSH_OP_IGET,
    PYSH_OP_AMO,        /* answers the old bits; PE's high half is ISHMEMX_ATOMIC_*, `type` ISHMEMX_TYPE_* */
    PYSH_OP_P,          /* the low `type` bytes of VALUE, 1 to 8, to DEST at pe */
    PYSH_OP_G,          /* answers `type` bytes of SOURCE at pe */
    PYSH_OP_PUT_SIGNAL, /* the signal lands after the data */
    PYSH_OP_PRINT,
    PYSH_OP_ABORT,   /* PE: exit code; label and place as in PRINT, without a value */
    PYSH_OP_CALL,    /* user handler, answers what it returned (POST is a CALL without a reply) */
    PYSH_OP_WAITING, /* a kernel's wait is slow: DEST device routine, + 2^32 when it has given up; SOURCE expected,
                        VALUE seen, EXTRA state word MODULE, EXTRA2 block and thread; PE: whom it waits for, -1
                        unknown; high half: `collective` of pysh_kernel_wait_t */
    PYSH_OP_COUNT
};

typedef struct pysh_slot {
    uint64_t word[PYSH_SLOT_WORDS];
} pysh_slot_t;

typedef struct pysh_request {
    uint64_t word[PYSH_REQUEST_WORDS];
} pysh_request_t;

/* The phase of ticket t in a ring of N slots: never 0, so that zeroed slots are empty, and not that of t - N. */
static inline uint64_t pysh_ring_phase(uint64_t ticket, unsigned log2_n) {
    return (ticket >> log2_n) % 255 + 1;
}

/* Seven words of 64 bits in eight of 56 and a phase: the top bytes of the seven are the last word. */
static inline void pysh_request_pack(const pysh_request_t *request, uint64_t phase, pysh_slot_t *slot) {
    uint64_t tops = 0;

    for (int i = 0; i < PYSH_REQUEST_WORDS; i++) {
        tops |= request->word[i] >> 56 << 8 * i;
        slot->word[i] = (request->word[i] & 0x00ffffffffffffffULL) | phase << 56;
    }
    slot->word[PYSH_REQUEST_WORDS] = tops | phase << 56;
}

/* The other way; false when a word is of another phase (`slot` is a copy, its words loaded with acquire). */
static inline int pysh_request_unpack(const pysh_slot_t *slot, uint64_t phase, pysh_request_t *request) {
    uint64_t tops = slot->word[PYSH_REQUEST_WORDS], other = tops >> 56 ^ phase;

    for (int i = 0; i < PYSH_REQUEST_WORDS; i++) {
        other |= slot->word[i] >> 56 ^ phase;
        request->word[i] = (slot->word[i] & 0x00ffffffffffffffULL) | (tops >> 8 * i & 0xff) << 56;
    }
    return other == 0;
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
    uint64_t consumed, pad0[15]; /* requests copied out so far */
    uint64_t asked, pad1[15];    /* quiet: wanted */
    uint64_t acked, pad2[15];    /* quiet: reached */
    pysh_cell_t cell[];          /* [N], and behind them skipped[N]: see pysh_ring_skipped() */
} pysh_ring_control_t;

typedef struct pysh_ring_device {
    uint64_t ticket, pad0[15];
    uint64_t consumed, pad1[15]; /* shadow of control.consumed */
    uint64_t pending, pad2[15];  /* 1 + the last ticket without a reply */
    uint64_t acked, pad3[15];    /* shadow of control.acked */
    uint64_t word[];             /* [2 N]: busy[N], then done[N] */
} pysh_ring_device_t;

_Static_assert(sizeof(pysh_slot_t) == 64, "a request is one cache line");
_Static_assert(sizeof(pysh_cell_t) == 16, "a reply is one 16-byte load");
_Static_assert(offsetof(pysh_ring_control_t, cell) == 384, "mirrored in pyshmem/device/_ring.py");
_Static_assert(offsetof(pysh_ring_device_t, word) == 512, "mirrored in pyshmem/device/_ring.py");
