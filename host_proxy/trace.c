/* SPDX-License-Identifier: BSD-3-Clause
 * For a timeline: when the proxies took requests and were done with them. A bounded buffer, which is never written
 * over: what finds no room is counted. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "accel/engine/engine.h"
#include "base/clock.h"
#include "host_proxy/ring.h"
#include "host_proxy/rings.h"
#include "ishmemx.h"

#define RECORDS (1 << 16)

_Atomic uint64_t pysh_trace_session;

static ishmemx_traced_request_t record[RECORDS]; /* no page of it is taken before it is used */
static _Atomic uint64_t used;                    /* records asked for */

static int trace_number_of(const pysh_ring_t *ring) {
    int n_rings;

    return (int)(ring - pysh_proxy_rings(&n_rings));
}

static bool moves_bytes(int op) {
    return op == PYSH_OP_PUT || op == PYSH_OP_GET || op == PYSH_OP_PUT_SIGNAL || op == PYSH_OP_SPREAD;
}

static bool has_pe(int op) {
    return op != PYSH_OP_NULL && op != PYSH_OP_PRINT && op != PYSH_OP_ABORT && op != PYSH_OP_CALL &&
           op != PYSH_OP_WAITING && op != PYSH_OP_SPREAD;
}

/* A record but for its end; RECORDS: there is no room. */
static uint64_t trace_begin(const pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, int64_t begin_ns,
                            bool copy) {
    uint64_t place = atomic_fetch_add_explicit(&used, 1, memory_order_relaxed);
    int op = pysh_request_op(request);

    if (place >= RECORDS)
        return RECORDS;
    record[place].begin_ns = begin_ns;
    record[place].nbytes = moves_bytes(op) ? (int64_t)request->word[PYSH_WORD_VALUE] : 0;
    record[place].ticket = (int64_t)ticket;
    record[place].op = op;
    record[place].pe = has_pe(op) ? pysh_request_pe(request) : -1;
    record[place].ring = trace_number_of(ring);
    record[place].copy = copy;
    return place;
}

/* release: pairs with ishmemx_traced_requests(), which then sees the rest of the record. */
static void trace_end(uint64_t place) {
    __atomic_store_n(&record[place].end_ns, pysh_now_ns(), __ATOMIC_RELEASE);
}

void pysh_trace_request(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, int64_t begin_ns) {
    uint64_t place = trace_begin(ring, ticket, request, begin_ns, false);

    if (place < RECORDS)
        trace_end(place);
}

/* Copies of an earlier timeline are no longer followed: their records are gone. */
static void follow_session(pysh_ring_t *ring) {
    uint64_t session = atomic_load_explicit(&pysh_trace_session, memory_order_relaxed);

    if (ring->traced.session != session)
        ring->traced.n = 0;
    ring->traced.session = session;
}

void pysh_trace_copy(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, uint64_t copy) {
    uint64_t place = trace_begin(ring, ticket, request, pysh_now_ns(), true);

    follow_session(ring);
    if (place < RECORDS && ring->traced.n < PYSH_TRACED_COPIES) { /* else its record stays without an end */
        ring->traced.copy[ring->traced.n] = copy;
        ring->traced.record[ring->traced.n++] = place;
    }
}

bool pysh_trace_copies(pysh_ring_t *ring) {
    int kept = 0;

    follow_session(ring);
    for (int i = 0; i < ring->traced.n; i++) {
        if (pysh_engine_done(ring->traced.copy[i])) {
            trace_end(ring->traced.record[i]);
        } else {
            ring->traced.copy[kept] = ring->traced.copy[i];
            ring->traced.record[kept++] = ring->traced.record[i];
        }
    }
    ring->traced.n = kept;
    return kept > 0;
}

int ishmemx_trace_requests(int on) {
    static uint64_t sessions;
    uint64_t before = atomic_load(&used);

    atomic_store(&pysh_trace_session, 0);
    if (on) {
        memset(record, 0, (before < RECORDS ? before : RECORDS) * sizeof *record);
        atomic_store(&used, 0);
        atomic_store(&pysh_trace_session, ++sessions);
    }
    return ISHMEMX_OK;
}

int ishmemx_traced_requests(ishmemx_traced_request_t *requests, int64_t capacity, int64_t *count, int64_t *dropped) {
    int64_t asked = (int64_t)atomic_load(&used), there = asked < RECORDS ? asked : RECORDS;

    *count = 0;
    *dropped = asked - there;
    for (int64_t i = 0; i < there; i++) {
        int64_t end_ns = __atomic_load_n(&record[i].end_ns, __ATOMIC_ACQUIRE); /* pairs with trace_end() */
        if (end_ns && *count < capacity)
            requests[(*count)++] = record[i];
        else
            ++*dropped;
    }
    return ISHMEMX_OK;
}
