/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the proxy share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "host_proxy/ring.h"
#include "ishmemx.h"

#define PYSH_MAX_FLIGHTS 64 /* copies with a reply that the proxy has to write itself */

/* A copy that the engine works on; its reply is due when the engine says that it is done. */
typedef struct pysh_flight {
    uint64_t ticket, token;
} pysh_flight_t;

typedef struct pysh_ring {
    pysh_slot_t *slots;              /* [n], shared memory */
    pysh_ring_control_t *control;    /* shared memory */
    void *slots_seen, *control_seen; /* the same, where kernels see them */
    pysh_ring_device_t *device;      /* where kernels see it; the proxy only hands out addresses in it */
    uint64_t n, mask, credit;
    unsigned log2_n;
    _Atomic uint64_t head;     /* tickets served: written by the proxy, read by a draining host */
    uint64_t published;        /* control.consumed */
    _Atomic uint64_t given_up; /* tickets without a request; among those below head */
    uint64_t overdue;          /* a ticket that may have been given up, and until when it is waited for */
    int64_t overdue_ns;
    _Atomic uint64_t in_flight; /* copies whose completion has not been seen: written by the proxy */
    pysh_flight_t flight[PYSH_MAX_FLIGHTS];
    int n_flights;
    _Atomic uint64_t wanted; /* quiet, by the host: what control.asked is for kernels */
    uint64_t quiet_target;   /* of the quiet in progress; 0: none */
    _Atomic bool stop;
    pthread_t thread;
    bool started;
    ishmemx_proxy_stats_t stats; /* of this ring; read while it is counted, a number may be a moment old */
} pysh_ring_t;

typedef struct pysh_outcome { /* of a request */
    uint64_t value;
    int status;
    bool pending; /* the reply is another's to write: the copy engine's stream, or flights' */
    bool again; /* nothing has been done for want of room: the request is to be handled again, and those behind wait */
} pysh_outcome_t;

/* handlers.c: does what a request asks, without waiting for a PE or a copy. */
pysh_outcome_t pysh_ring_handle(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request);
/* flights.c */
bool pysh_flight_room(const pysh_ring_t *ring);
void pysh_flight_add(pysh_ring_t *ring, uint64_t ticket, uint64_t token);
void pysh_ring_reply(pysh_ring_t *ring, uint64_t ticket, uint64_t value, int status);
/* Writes the replies of finished copies, and takes the quiet a step on; true when it did something. */
bool pysh_ring_progress(pysh_ring_t *ring);
/* Whether the proxy goes on behind a ticket without a request; its slot is empty then. */
bool pysh_ring_given_up(pysh_ring_t *ring, uint64_t ticket);
/* errors.c: keeps the text of the calling thread's error, for the fault that a kernel records when it has its reply. */
void pysh_ring_explain(void);
/* errors.c: where no kernel waits for a reply, a fault record for the host's next call. */
void pysh_ring_complain(int op, int pe, int status);

/* More than `ticket` when its sender, or one of a later lap, has given up. Orders nothing. */
static inline uint64_t pysh_ring_last_skipped(const pysh_ring_t *ring, uint64_t ticket) {
    return __atomic_load_n(pysh_ring_skipped(ring->control, ring->n, ticket), __ATOMIC_RELAXED);
}

/* The ticket up to which kernels or the host want a quiet. acquire: pairs with the kernels' stores, and with
 * ask_quiet() of the host */
static inline uint64_t pysh_ring_wanted(const pysh_ring_t *ring) {
    uint64_t asked = __atomic_load_n(&ring->control->asked, __ATOMIC_ACQUIRE);
    uint64_t wanted = atomic_load_explicit(&ring->wanted, memory_order_acquire);

    return asked > wanted ? asked : wanted;
}

/* By the ring's own thread, so no atomic addition is needed; pairs with the load in ishmemx_proxy_stats(). */
static inline void pysh_ring_count(int64_t *count, int64_t more) {
    __atomic_store_n(count, *count + more, __ATOMIC_RELAXED);
}

static inline int pysh_request_op(const pysh_request_t *request) {
    return (int)(request->word[PYSH_WORD_KIND] & 0xff);
}
static inline int pysh_request_type(const pysh_request_t *request) {
    return (int)(request->word[PYSH_WORD_KIND] >> 8 & 0xff);
}
static inline unsigned pysh_request_flags(const pysh_request_t *request) {
    return (unsigned)(request->word[PYSH_WORD_KIND] >> 16 & 0xffff);
}
static inline int pysh_request_pe(const pysh_request_t *request) {
    return (int)(int32_t)(request->word[PYSH_WORD_PE] & 0xffffffff);
}
static inline int pysh_request_high(const pysh_request_t *request) {
    return (int)(request->word[PYSH_WORD_PE] >> 32);
}
