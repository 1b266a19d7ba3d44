/* SPDX-License-Identifier: BSD-3-Clause
 * Memory of PEs that this one neither maps nor reaches by the transport: device heaps on other hosts above all. An
 * operation travels as messages from staging memory to staging memory, and its owner carries it out. Messages to one
 * PE arrive and take effect in the order in which they were started, so a signal is behind its data. Nothing here
 * waits, but pysh_am_wait(). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/state.h"

enum pysh_am_kind { PYSH_AM_PUT = 1, PYSH_AM_GET, PYSH_AM_AMO };

/* Stays where it is until it is `done`, and so does what `local` points to. Strides are bytes from block to block. */
typedef struct pysh_am_op {
    int kind, pe, heap;
    int64_t offset;         /* of the first byte at `pe`, in its arena */
    char *local;            /* source of a put, dest of a get */
    size_t block, n_blocks; /* bytes of a block */
    int64_t remote_stride, local_stride;
    bool local_gpu; /* `local` is memory that the CPU does not reach */
    bool signals;   /* a put, of one block: the signal goes behind it */
    bool spreads;   /* a put, of one block: `pe` passes it on to these PEs of its node, a bit a pysh_near_place() */
    uint64_t places[ISHMEMX_MAX_NEAR_PES / 64];
    int amo, type; /* of AMO, or of the signal, which is a uint64 */
    int signal_heap;
    int64_t signal_offset;
    uint64_t value, cond; /* of AMO; value: of the signal */
    /* What has become of it. */
    uint64_t fetched;
    int status, wrong; /* wrong: what `pe` found in the message that it refused, enum pysh_wrong; else 0 */
    _Atomic bool done; /* release: with it all that it did; pairs with pysh_am_done() */
    /* Used by am/ alone. */
    size_t sent_blocks, sent_inside, under_way;
    bool all_sent;
    struct pysh_am_op *next;
} pysh_am_op_t;

/* Bytes of the host arena's system region that messages of n_pes PEs need; 0 when the setting cannot be read. */
int64_t pysh_am_nbytes(int n_pes);
/* The region, at one offset on all PEs and not yet in use by any; collective calls follow before the first message. */
int pysh_am_open(char *region);
void pysh_am_close(void);
/* Finds out with all PEs, when the heaps are open, whether each maps the device heaps of its node; collective. */
int pysh_am_agree(void);
/* Does it? Then a put may spread. */
bool pysh_am_spreads(void);
bool pysh_am_is_open(void);
/* Is [pe]'s copy of a heap reached by messages alone? */
static inline bool pysh_goes_by_am(int heap, int pe) {
    return heap == ISHMEMX_HEAP_DEVICE && !pysh.arena[heap].peer[pe];
}

void pysh_am_start(pysh_am_op_t *op);
static inline bool pysh_am_done(const pysh_am_op_t *op) {
    return atomic_load_explicit(&op->done, memory_order_acquire);
}
/* The text for an operation that is done and has failed, `what` being the routine; its status. */
int pysh_am_fail(const pysh_am_op_t *op, const char *what);
/* Moves everything on that can be: own operations, and those of others on this PE's memory. True: something moved. */
bool pysh_am_progress(void);
/* Are there own operations that are not done? */
bool pysh_am_busy(void);
/* Messages of this PE's since the job began, answers not counted; bytes of data in messages and answers. */
void pysh_am_figures(int64_t *messages_p, int64_t *bytes_p);
/* Who has not answered for how long, for reports; empty when nobody is waited for. */
void pysh_am_describe(char *text, size_t capacity);
/* Starts it and waits until it is done; `what` is shown to those who look. TIMEOUT, INTERRUPTED: it was given up, and
 * what `local` points to stays until the job ends, unless that is at most PYSH_AM_SMALL bytes of a put. */
int pysh_am_wait(pysh_am_op_t *op, const char *what);
/* Blocking, of one block; addresses as pysh_put() and pysh_get() have them. */
int pysh_am_put(int heap, int64_t offset, const void *source, size_t nbytes, int pe);
int pysh_am_get(int heap, void *dest, int64_t offset, size_t nbytes, int pe);
int pysh_am_amo(int heap, int op, int type, int64_t offset, uint64_t value, uint64_t cond, int pe, uint64_t *fetched_p);
