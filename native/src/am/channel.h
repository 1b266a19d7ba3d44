/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of am/ share: a channel for each pair of PEs.
 *
 * A channel from A to B has SLOTS messages under way at most, each a slot of 64 bytes and staging memory for its data;
 * all of it is on B's host arena. The answer to message s goes to slot s on A's, so an answer is the credit for the
 * message SLOTS later, and there is no other flow control. A slot is seen by its phase; data travels before it. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "am/am.h"
#include "base/phased.h"
#include "memory/place.h"

enum { PYSH_AM_LOG2_SLOTS = 3, PYSH_AM_SLOTS = 1 << PYSH_AM_LOG2_SLOTS };
enum { PYSH_AM_COPIES = 8 }; /* of a message to GPUs, under way at a time */

/* Words of a message. HEAD: kind (bits 0..7), heap (8..11), the signal's heap (12..15), operation and type of an AMO or
 * a signal (16..23, 24..31). SIZE: bytes of a block (low half), number of blocks. */
enum { PYSH_AM_HEAD, PYSH_AM_SIZE, PYSH_AM_OFFSET, PYSH_AM_STRIDE, PYSH_AM_VALUE, PYSH_AM_COND, PYSH_AM_DATA };
/* In the word of a stride, as a put that signals is one block. */
#define PYSH_AM_SIGNAL_OFFSET PYSH_AM_STRIDE
/* Two words: where a put that spreads goes, a bit a pysh_near_place(). It does not signal. */
#define PYSH_AM_PLACES PYSH_AM_VALUE
_Static_assert(sizeof((pysh_am_op_t *)0)->places == 16, "VALUE and COND hold them");
#define PYSH_AM_SMALL 8 /* bytes of a put or a get that travel in message and answer themselves, in DATA */
/* Words of an answer. STATUS: the status (low half), and what was wrong with the message, enum pysh_wrong. */
enum { PYSH_AM_STATUS, PYSH_AM_FETCHED };
/* Added to the kind: a signal goes behind the data; the data is in DATA; it is for PEs of the receiver's node. */
enum { PYSH_AM_SIGNALS = 0x80, PYSH_AM_INSIDE = 0x40, PYSH_AM_SPREADS = 0x20, PYSH_AM_KINDS = 0x1f };

/* What a message says, for who checks it and who carries it out. */
static inline int pysh_am_kind(const uint64_t *word) {
    return (int)(word[PYSH_AM_HEAD] & PYSH_AM_KINDS);
}
static inline int pysh_am_heap(const uint64_t *word) {
    return (int)(word[PYSH_AM_HEAD] >> 8 & 15);
}
static inline size_t pysh_am_block(const uint64_t *word) {
    return word[PYSH_AM_SIZE] & UINT32_MAX;
}
static inline size_t pysh_am_blocks(const uint64_t *word) {
    return word[PYSH_AM_SIZE] >> 32;
}
/* Does a put that spreads go to `pe`, which is near the receiver? */
static inline bool pysh_am_names(const uint64_t *word, int pe) {
    return word[PYSH_AM_PLACES + pysh_near_place(pe) / 64] >> (pysh_near_place(pe) % 64) & 1;
}

typedef struct pysh_am_amo { /* an AMO, or a put's signal */
    int op, type, heap;
    uint64_t offset, value, cond;
} pysh_am_amo_t;

static inline pysh_am_amo_t pysh_am_amo_of(const uint64_t *word) {
    bool signals = pysh_am_kind(word) == PYSH_AM_PUT;

    return (pysh_am_amo_t){.op = (int)(word[PYSH_AM_HEAD] >> 16 & 255),
                           .type = (int)(word[PYSH_AM_HEAD] >> 24 & 255),
                           .heap = signals ? (int)(word[PYSH_AM_HEAD] >> 12 & 15) : pysh_am_heap(word),
                           .offset = word[signals ? PYSH_AM_SIGNAL_OFFSET : PYSH_AM_OFFSET],
                           .value = word[PYSH_AM_VALUE],
                           .cond = signals ? 0 : word[PYSH_AM_COND]};
}

enum pysh_am_sent_state { PYSH_SENT_FREE, PYSH_SENT_FILLING, PYSH_SENT_READY, PYSH_SENT_AWAY, PYSH_SENT_DRAINING };

/* A copy between a GPU and a message's data. By the copy engine's process it goes through a piece of that one's memory,
 * so that nothing that the program waits for in the driver stops it. */
typedef struct pysh_am_copy {
    char *piece; /* NULL: none */
    bool started;
    uint64_t token;
} pysh_am_copy_t;

typedef struct pysh_am_sent { /* a message of this PE's */
    pysh_am_op_t *op;         /* NULL: given up meanwhile */
    int state, kind, status;  /* enum pysh_am_sent_state; of the answer */
    int wrong;                /* of the answer */
    uint64_t word[PYSH_MESSAGE_WORDS];
    pysh_slot_t slot; /* what travels, until the answer is here */
    char *local;
    size_t block, n_blocks;
    int64_t stride;
    bool gpu;
    pysh_am_copy_t copy;
} pysh_am_sent_t;

enum pysh_am_served_state {
    PYSH_SERVED_DONE,
    PYSH_SERVED_NEW, /* bytes may be under way */
    PYSH_SERVED_COPIED,
    PYSH_SERVED_AMO,
    PYSH_SERVED_WRONG /* it is answered, and nothing of it is done */
};

typedef struct pysh_am_served { /* a message of another PE's */
    int state, status;
    enum pysh_wrong wrong;
    uint64_t word[PYSH_MESSAGE_WORDS], fetched;
    pysh_am_copy_t copy;
    const char *data; /* of a get, once it is here */
    int amo_slot;
    /* Of a put that spreads to GPUs: the first PE that it may still go to, and the copies under way. */
    int next, n_copies;
    uint64_t token[PYSH_AM_COPIES];
    pysh_slot_t slot; /* the answer, until the next message comes in its slot */
} pysh_am_served_t;

typedef struct pysh_am_channel {
    pysh_am_op_t *head, *tail;   /* operations that are not sent yet, in order */
    uint64_t next, away;         /* messages that have a slot; of these, those that have left */
    uint64_t answered;           /* all below have been answered */
    int64_t since_ns;            /* since when the oldest is without an answer */
    uint64_t received, finished; /* of the other PE's: seen, carried out */
    pysh_am_sent_t sent[PYSH_AM_SLOTS];
    pysh_am_served_t served[PYSH_AM_SLOTS];
} pysh_am_channel_t;

typedef struct pysh_am {
    pthread_mutex_t mutex;      /* over all channels of this PE */
    pysh_am_channel_t *channel; /* [n_pes]; NULL: not open */
    char *region;
    bool spreads;                 /* every PE maps the device heaps of its node */
    size_t data_nbytes;           /* staging memory of a message */
    _Atomic int under_way;        /* own messages and operations that are not done */
    int64_t messages, sent_bytes; /* so far: figures of what this PE has sent, see pysh_am_figures() */
} pysh_am_t;
extern pysh_am_t pysh_am;

/* Offsets from the region's start; `pe`: the other end of the channel. */
enum { PYSH_AM_MESSAGES, PYSH_AM_ANSWERS };
int64_t pysh_am_slot_at(int which, int pe, uint64_t number);
int64_t pysh_am_data_at(int which, int pe, uint64_t number);
/* Where the region of `pe` is mapped; NULL: the transport takes messages there. */
char *pysh_am_mapped(int pe, int64_t at);
/* Stores to the region of `pe`: data, and behind it a slot, which is seen last. */
void pysh_am_post_data(int pe, int64_t at, const void *data, size_t nbytes);
void pysh_am_post_slot(int pe, int64_t at, const pysh_slot_t *slot);
bool pysh_am_look(int64_t at, uint64_t number, uint64_t *word);
/* OK once the copy is complete, PYSH_ENGINE_FULL while it is not; the structure is zero at first, and
 * pysh_am_copy_end() follows. From a GPU: *data_p has the data until then, for pysh_am_post_data() to `pe`; it is
 * `place`, or a piece where that is copied at once. */
int pysh_am_from_gpu(pysh_am_copy_t *copy, int pe, char *place, const void *source, size_t nbytes, const char **data_p);
int pysh_am_to_gpu(pysh_am_copy_t *copy, void *dest, const char *data, size_t nbytes);
/* Before a first copy to a GPU: *data_p becomes the piece, with the data, where copies go from one. OK or FULL. */
int pysh_am_begin_to_gpu(pysh_am_copy_t *copy, const void *dest, const char **data_p, size_t nbytes);
void pysh_am_copy_end(pysh_am_copy_t *copy);
/* checks.c: what is wrong with another PE's message; RIGHT: it can be carried out as it is. */
enum pysh_wrong pysh_am_wrong(const uint64_t *word);
/* send.c and serve.c: a channel's step; the mutex is held. */
bool pysh_am_send(pysh_am_channel_t *channel, int pe);
bool pysh_am_serve(pysh_am_channel_t *channel, int pe);
/* The mutex is held, so no atomic addition is needed; pairs with pysh_am_figures(). Orders nothing. */
static inline void pysh_am_count(int64_t *figure, int64_t more) {
    __atomic_store_n(figure, *figure + more, __ATOMIC_RELAXED);
}
