/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the ucx conduit share: messages, the worker that carries them, and what is known of each PE.
 *
 * All is done by active messages: over TCP a put of UCX is a message and an answer, takes twice as long, and knows no
 * atomics where dead PEs are to be told. A message is carried out by its owner, in whichever thread of it makes
 * progress: one that waits, or the thread that sleeps on the worker's descriptor. UCX promises no order, so messages
 * are numbered, and what comes early waits: those of a PE to another are carried out in the order sent. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"
#include "transport/ucx/library.h"

enum pysh_ucx_kind {
    PYSH_UCX_PUT,
    PYSH_UCX_GET,
    PYSH_UCX_DATA, /* of a get */
    PYSH_UCX_AMO,
    PYSH_UCX_RAISE, /* a flag */
    PYSH_UCX_FLUSH,
    PYSH_UCX_DONE, /* the answer to an AMO that fetches, and to FLUSH */
    PYSH_UCX_SAID, /* data of an exchange */
    PYSH_UCX_ARRIVE,
    PYSH_UCX_LEAVE, /* a barrier */
    PYSH_UCX_LEFT,
    PYSH_UCX_RELEASE,
    PYSH_UCX_ABORT,
    PYSH_UCX_NEWS, /* a PE is gone */
    PYSH_UCX_BYE,  /* its sender has finalised: that the connection ends is no news */
    PYSH_UCX_KINDS
};

#define PYSH_UCX_INSIDE \
    128 /* bytes of data that travel with the head, which UCX copies: their source is free at once */
#define PYSH_UCX_PIECE 60000 /* of more data; over TCP up to 65,528 with the head go without a copy */

typedef struct pysh_ucx_head {
    uint64_t key; /* of the receiver, so that strangers' messages are known */
    int32_t from;
    uint32_t number; /* of the sender's messages to this PE */
    uint8_t kind, heap, op, type;
    uint32_t nbytes; /* of data; up to INSIDE of it here */
    uint64_t offset, value, cond;
    uint64_t token; /* whose the answer is; 0: nobody waits for one */
    char inside[PYSH_UCX_INSIDE];
} pysh_ucx_head_t;

#define PYSH_UCX_HEAD_BYTES offsetof(pysh_ucx_head_t, inside)

/* How far something is that was given to the network: sends that still read their source. With the mutex, but `left`
 * may be looked at without. */
typedef struct pysh_ucx_done {
    _Atomic int left;
} pysh_ucx_done_t;

typedef struct pysh_ucx_early pysh_ucx_early_t;

typedef struct pysh_ucx_peer {
    void *ep; /* NULL: nothing was sent yet */
    const void *address;
    uint64_t key;
    uint32_t sent, heard; /* messages, by number */
    pysh_ucx_early_t *early;
    /* Messages that change its memory: sent, behind which an answer was asked for, that it has told to have carried
     * out. */
    uint64_t changes, asked, flushed;
    _Atomic bool left;  /* it has finalised */
    _Atomic int failed; /* what UCX says of it, else 0 */
    int64_t failed_ns;
} pysh_ucx_peer_t;

typedef struct pysh_ucx {
    const pysh_ucx_library_t *library;
    void *context, *worker; /* NULL: not open */
    int pe, n_pes, fd;
    pysh_ucx_peer_t *peer; /* [n_pes] */
    uint64_t key;
    /* One call of UCX at a time, and all of the above but the constants. Handlers run with it and never wait. */
    pthread_mutex_t mutex;
    bool may_spin;            /* each PE of this host has a core; set before the first wait */
    _Atomic bool outstanding; /* something is there for flush to complete */
    pysh_ucx_done_t non_blocking;
    _Atomic int n_failed;  /* PEs that UCX has told to be gone */
    _Atomic bool closing;  /* connections that end are no news */
    char (*host)[64];      /* [n_pes] names */
    char news[256];        /* who is gone, as the first PE to know says */
    _Atomic bool has_news; /* they are written */
} pysh_ucx_t;
extern pysh_ucx_t pysh_ucx;

/* ---- worker.c ---- */

int pysh_ucx_worker_open(int pe, int n_pes);
void pysh_ucx_worker_close(bool together);
/* The address by which others find this worker; in `to`, of so many bytes. */
int pysh_ucx_address(void *to, size_t capacity, size_t *nbytes_p);
void pysh_ucx_lock(void);
void pysh_ucx_unlock(void);
/* With the mutex. `head` is completed here; more data than INSIDE is read until `done` has counted it, or for ever
 * where that is NULL. A PE that has failed takes nothing, and nothing is told. */
void pysh_ucx_send(int pe, pysh_ucx_head_t *head, const void *data, pysh_ucx_done_t *done);
/* Of a handler: sent once it has returned. More data than INSIDE is read then, or later. */
void pysh_ucx_answer(int pe, const pysh_ucx_head_t *head, const void *data, size_t nbytes);
bool pysh_ucx_progress(void);
/* PEER once the network has lost that PE, a moment ago already: what is the reason may have come from another PE
 * meanwhile. Names the PE and its host, and what this PE was in. */
int pysh_ucx_lost(int pe);
/* The PE that was lost first; -1: none. Others may have ended because of it. */
int pysh_ucx_first_lost(void);
/* Ends the connection, so that nothing reads sources any more. */
void pysh_ucx_cut(int pe);
int pysh_ucx_serve_in_background(void);
void pysh_ucx_serve_no_more(void);
/* So many threads more make progress themselves, or want the mutex: that in the background stays away. */
void pysh_ucx_awake(int change);
/* So many of those more sleep, and leave it to that thread. */
void pysh_ucx_asleep(int change);
/* For a wait that would sleep: false, or some progress was made as messages follow each other, and it had better go on.
 */
bool pysh_ucx_linger(void);

/* ---- serve.c ---- */

/* A message in its turn; with the mutex, and `data` is gone afterwards. */
void pysh_ucx_serve(const pysh_ucx_head_t *head, const void *data);
typedef void pysh_ucx_handler_t(const pysh_ucx_head_t *head, const void *data);
pysh_ucx_handler_t pysh_ucx_on_data, pysh_ucx_on_done; /* transfer.c */
pysh_ucx_handler_t pysh_ucx_on_said, pysh_ucx_on_arrive, pysh_ucx_on_leave, pysh_ucx_on_left,
    pysh_ucx_on_release;                                /* agree.c */
pysh_ucx_handler_t pysh_ucx_on_abort, pysh_ucx_on_news; /* start.c */
/* Wakes the threads of this PE that sleep in a wait that a store may end. */
void pysh_ucx_wake(void);
