/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the proxy share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "accel/engine/engine.h"
#include "base/clock.h"
#include "host_proxy/ring.h"
#include "ishmemx.h"

#define PYSH_MAX_FLIGHTS   64                /* requests under way that the proxy has to come back to */
#define PYSH_PIECE_BYTES   PYSH_ENGINE_PIECE /* what the proxy copies at a time */
#define PYSH_TRACED_COPIES 256               /* of a ring, under way at one time, that a timeline follows */
#define PYSH_UNDERWAY      (-2)              /* of a step: not finished, and nothing could be done now */
#define PYSH_MOVED         (-3)              /* of a step: not finished, but further than before */

/* FREE to CALLS by the thread before a user's handler, and back behind it; CALLS to LEFT by who stops the ring and
 * has waited long enough. A thread that finds LEFT ends at once: the ring, and the job, are not there any more. */
enum pysh_ring_call { PYSH_RING_FREE, PYSH_RING_CALLS, PYSH_RING_LEFT };

typedef struct pysh_ring pysh_ring_t;
typedef struct pysh_flight pysh_flight_t;

/* A request that is not over when its handler returns. `step` takes it on, without waiting: UNDERWAY, MOVED, or the
 * status of the request, with *value_p for the reply. */
struct pysh_flight {
    uint64_t ticket;
    pysh_request_t request;
    int (*step)(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p);
    uint64_t token; /* of a piece by the copy engine */
    char *stage;    /* host memory that is the flight's, with the data of a piece in it, or NULL */
    uint64_t moved; /* bytes, or blocks of a strided copy, that have been moved */
    bool started;   /* what `token` or `slot` stands for is under way */
    bool gpu[2];    /* dest, source: is memory that only the GPU reaches */
    int slot;       /* of an atomic operation */
    /* Of step_value: an element on a GPU, and its bits, which go there or, of a G, come from there. */
    char *place;
    uint64_t value;
    struct pysh_am_op *remote; /* [n_by_am] of a request to memory out of reach */
    int n_by_am;
    int64_t begin_ns; /* of the request; 0: no timeline is being made */
};

struct pysh_ring {
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
    bool amo_waits;          /* in this round of steps one could not begin: those behind it do not either */
    void *stage;             /* PYSH_PIECE_BYTES of pinned memory, between a GPU and other PEs' host memory, or NULL */
    bool staged;             /* it is a flight's */
    _Atomic uint64_t wanted; /* quiet, by the host: what control.asked is for kernels */
    uint64_t quiet_target;   /* of the quiet in progress; 0: none */
    bool quiet_begun;        /* its flights are over: engine and transport are being completed */
    _Atomic bool stop;
    _Atomic int calls; /* enum pysh_ring_call: whose the thread is while a user's handler runs on it */
    pthread_t thread;
    bool started;
    int64_t begin_ns; /* of the request that is being handled; 0: no timeline is being made */
    struct {          /* copies by the engine whose end is to be noted */
        uint64_t session;
        int n;
        uint64_t copy[PYSH_TRACED_COPIES], record[PYSH_TRACED_COPIES];
    } traced;
    ishmemx_proxy_stats_t stats; /* of this ring; read while it is counted, a number may be a moment old */
};

typedef struct pysh_outcome { /* of a request */
    uint64_t value;
    int status;
    bool pending; /* the reply is another's to write: the copy engine's stream, or that of a flight */
    bool again; /* nothing has been done for want of room: the request is to be handled again, and those behind wait */
} pysh_outcome_t;

static inline pysh_outcome_t pysh_outcome(int status) {
    return (pysh_outcome_t){.status = status};
}

/* requests.c: does what a request asks, without waiting for a PE or a copy. */
pysh_outcome_t pysh_ring_handle(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request);
/* checks.c: OK, or what is wrong with it; nothing of it has been done then. Its PE is right. Who adds an operation says
 * there what it moves. */
int pysh_request_check(const pysh_request_t *request);
/* by_am.c: is it for memory that this process does not reach? Then it is handled there. */
bool pysh_request_goes_by_am(const pysh_request_t *request);
pysh_outcome_t pysh_handle_by_am(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request);
pysh_outcome_t pysh_handle_spread(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request);
/* user_handlers.c */
pysh_outcome_t pysh_handle_call(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request);
/* messages.c */
pysh_outcome_t pysh_handle_print(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request);
pysh_outcome_t pysh_handle_quit(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request);
pysh_outcome_t pysh_handle_waiting(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request);
/* flights.c */
bool pysh_flight_room(const pysh_ring_t *ring);
/* The flight of a request, for its handler to fill in; the outcome is then that it is pending. */
pysh_flight_t *pysh_flight_add(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request,
                               int (*step)(pysh_ring_t *, pysh_flight_t *, uint64_t *));
void pysh_ring_answer(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, uint64_t value, int status);
/* long_requests.c: the steps of a put, get or put_signal that goes by the proxy itself, of a strided one, and of
 * an atomic operation on a GPU's memory or another PE's. */
int pysh_step_copy(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p);
int pysh_step_strided(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p);
int pysh_step_amo(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p);
/* The step of one element of at most 8 bytes to or from a GPU's memory. */
int pysh_step_value(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p);
/* Does a non-blocking fetch want the old value in memory of the GPU? Else pysh_amo_deliver() puts it where it does. */
bool pysh_amo_fetches_to_gpu(const pysh_request_t *request);
int pysh_amo_deliver(const pysh_request_t *request, uint64_t value);
/* One of the two, for a flight whose atomic operation is done: the outcome of its step. */
int pysh_amo_hand_over(pysh_flight_t *flight, uint64_t value);
/* Is it memory of the calling PE's that only its GPU reaches, so that an atomic operation there has to be polled? */
bool pysh_amo_is_polled(const pysh_request_t *request, uint64_t place);
/* Writes the replies of finished copies, and takes the quiet a step on; true when it did something. */
bool pysh_ring_progress(pysh_ring_t *ring);
/* Whether the proxy goes on behind a ticket without a request; its slot is empty then. */
bool pysh_ring_given_up(pysh_ring_t *ring, uint64_t ticket);
/* errors.c: keeps the text of the calling thread's error, for the fault that a kernel records when it has its reply. */
void pysh_ring_explain(void);
/* errors.c: where no kernel waits for a reply, a fault record for the host's next call. */
void pysh_ring_complain(int op, int pe, int status);

/* trace.c: which timeline is being made, 0: none. */
extern _Atomic uint64_t pysh_trace_session;
static inline int64_t pysh_trace_now(void) {
    return __builtin_expect(atomic_load_explicit(&pysh_trace_session, memory_order_relaxed) != 0, 0) ? pysh_now_ns()
                                                                                                     : 0;
}
/* Notes a request that began then and is over now, and the start of a copy by the engine. */
void pysh_trace_request(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, int64_t begin_ns);
void pysh_trace_copy(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, uint64_t copy);
/* Notes the copies that have ended; are others under way? */
bool pysh_trace_copies(pysh_ring_t *ring);

/* messages.c: tells everybody of a kernel that has waited for a ring for long, as kernels themselves tell of other
 * waits; by a proxy that has nothing to do, however often. */
void pysh_ring_watch(void);
/* figures.c: who has waited for this ring for long, and still does; false: nobody that is known of. */
bool pysh_ring_waits(const pysh_ring_t *ring, pysh_ring_waiter_t *waiter);
/* ", block 3, thread 7 (ticket 12) waits for its reply", and what keeps the ring where that is known. */
void pysh_ring_waiter_describe(const pysh_ring_t *ring, const pysh_ring_waiter_t *waiter, char *text, size_t capacity);

/* proxy.c: the rings that are open; NULL and 0 outside init and finalize. */
pysh_ring_t *pysh_proxy_rings(int *n_rings_p);

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
static inline int pysh_request_signal_op(const pysh_request_t *request) {
    return pysh_request_high(request) == ISHMEMX_SIGNAL_ADD ? ISHMEMX_ATOMIC_ADD : ISHMEMX_ATOMIC_SET;
}
