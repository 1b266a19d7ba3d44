/* SPDX-License-Identifier: BSD-3-Clause
 * What is under way: requests that the proxy comes back to, copies of the engine, and the quiet that waits for both. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "accel/accel.h"
#include "accel/engine/engine.h"
#include "am/am.h"
#include "base/clock.h"
#include "base/say.h"
#include "base/state.h"
#include "host_proxy/ring.h"
#include "host_proxy/rings.h"

#define GRACE_NS (100 * 1000000LL)

/* release: pairs with the kernel's acquire after the 16-byte load that saw the tag; `value`, and what was copied
 * before it, are visible with it. */
static void reply_to(pysh_ring_t *ring, uint64_t ticket, uint64_t value, int status) {
    pysh_cell_t *cell = &ring->control->cell[ticket & ring->mask];
    uint64_t tag = (uint32_t)(ticket + 1);

    __atomic_store_n(&cell->value, value, __ATOMIC_RELAXED);
    __atomic_store_n((uint64_t *)(void *)&cell->tag, tag | (uint64_t)(unsigned)status << 32, __ATOMIC_RELEASE);
}

void pysh_ring_answer(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, uint64_t value, int status) {
    if (__builtin_expect(status, 0)) {
        if (pysh_request_flags(request) & PYSH_REQUEST_REPLY)
            pysh_ring_explain();
        else
            pysh_ring_complain(pysh_request_op(request), pysh_request_pe(request), status);
    }
    if (pysh_request_flags(request) & PYSH_REQUEST_REPLY) {
        /* A kernel that looks for its reply near itself is answered there too when the engine had nothing to do. */
        if (pysh_request_flags(request) & PYSH_REQUEST_DONE)
            pysh.accel->complete(&ring->device->word[ring->n + (ticket & ring->mask)],
                                 (uint32_t)(ticket + 1) | (uint64_t)(unsigned)status << 32);
        else
            reply_to(ring, ticket, value, status);
    }
}

/* What stands in a slot is of the phase of 255 laps on: were those between given up, it would pass for a request. */
static void empty(pysh_slot_t *slot) {
    for (int i = 0; i < PYSH_SLOT_WORDS; i++)
        __atomic_store_n(&slot->word[i], 0, __ATOMIC_RELAXED); /* before publish() lets the next sender store there */
}

/* A later lap's word may have replaced that of the ticket, or may be there alone: then its sender, which has credit,
 * is given a while. All those behind it had that while too. */
bool pysh_ring_given_up(pysh_ring_t *ring, uint64_t ticket) {
    uint64_t last = pysh_ring_last_skipped(ring, ticket);
    bool gone;

    if (last <= ticket)
        return false;
    if (ring->overdue != ticket && ring->overdue + 1 != ticket)
        ring->overdue_ns = pysh_now_ns() + GRACE_NS;
    ring->overdue = ticket;
    gone = last == ticket + 1 || pysh_now_ns() > ring->overdue_ns;
    if (gone) {
        empty(&ring->slots[ticket & ring->mask]);
        atomic_fetch_add_explicit(&ring->given_up, 1, memory_order_relaxed);
    }
    return gone;
}

bool pysh_flight_room(const pysh_ring_t *ring) {
    return ring->n_flights < PYSH_MAX_FLIGHTS;
}

pysh_flight_t *pysh_flight_add(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request,
                               int (*step)(pysh_ring_t *, pysh_flight_t *, uint64_t *)) {
    pysh_flight_t *flight = &ring->flight[ring->n_flights++];

    *flight = (pysh_flight_t){.ticket = ticket, .request = *request, .step = step, .begin_ns = ring->begin_ns};
    atomic_fetch_add_explicit(&ring->in_flight, 1, memory_order_relaxed);
    return flight;
}

/* In the order of their tickets, for the steps of two atomic operations of a thread are not to change places. */
static bool step_flights(pysh_ring_t *ring) {
    bool moved = false;
    int kept = 0;

    ring->amo_waits = false;
    for (int i = 0; i < ring->n_flights; i++) {
        pysh_flight_t *flight = &ring->flight[i];
        uint64_t value = 0;
        int status = flight->step(ring, flight, &value);
        if (status == PYSH_UNDERWAY || status == PYSH_MOVED) {
            ring->flight[kept++] = *flight;
        } else {
            if (flight->begin_ns)
                pysh_trace_request(ring, flight->ticket, &flight->request, flight->begin_ns);
            pysh_ring_answer(ring, flight->ticket, &flight->request, value, status);
        }
        moved = moved || status != PYSH_UNDERWAY;
    }
    ring->n_flights = kept;
    return moved;
}

static bool flights_below(const pysh_ring_t *ring, uint64_t ticket) {
    return ring->n_flights && ring->flight[0].ticket < ticket;
}

/* Copies that the engine's process has failed to do: their kernels are answered, or the host is. */
static bool answer_failures(void) {
    pysh_completion_t reply;
    int status;
    bool any = false;

    while (pysh_engine_failure(&reply, &status)) {
        any = true;
        if (reply.address) {
            pysh_ring_explain();
            pysh.accel->complete(reply.address, reply.value | (uint64_t)(unsigned)status << 32);
        } else {
            pysh_ring_complain(PYSH_OP_PUT, -1, status);
        }
    }
    return any;
}

/* Copies without a reply of the proxy's are known to the engine alone: are those before the mark done? */
static bool engine_done(pysh_ring_t *ring) {
    bool marked = true, all = true;
    int status;

    if (!atomic_load_explicit(&ring->in_flight, memory_order_relaxed))
        return true;
    status = pysh_engine_finished(&marked, &all);
    if (status) {
        pysh_ring_complain(PYSH_OP_PUT, -1, status);
        marked = all = true;
    }
    if (all && !ring->n_flights)
        atomic_store_explicit(&ring->in_flight, 0, memory_order_release); /* pairs with under_way() */
    return marked;
}

/* One quiet serves all who wait: it is for the highest ticket asked for when it began, or as far as requests have
 * come: who asked for less need not wait for the rest. */
static bool step_quiet(pysh_ring_t *ring) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    if (!ring->quiet_target) {
        uint64_t wanted = pysh_ring_wanted(ring), target = wanted < head ? wanted : head;
        if (target <= ring->control->acked)
            return false;
        ring->quiet_target = target;
        ring->quiet_begun = false;
    }
    if (flights_below(ring, ring->quiet_target))
        return false;
    if (!ring->quiet_begun) { /* what goes to memory out of reach is a flight until its owner has done it */
        ring->quiet_begun = true;
        pysh_engine_mark();
    }
    if (!engine_done(ring)) /* that covers the copies whose replies are still to be written */
        return false;
    pysh_ring_count(&ring->stats.quiets, 1); /* before who waits for it goes on, and reads the figures */
    /* release: pairs with the fence behind the kernel's load; what was copied is visible with it */
    __atomic_store_n(&ring->control->acked, ring->quiet_target, __ATOMIC_RELEASE);
    ring->quiet_target = 0;
    return true;
}

bool pysh_ring_progress(pysh_ring_t *ring) {
    bool failed = answer_failures(), served = pysh_am_progress(), moved = ring->n_flights && step_flights(ring);

    bool copies = ring->traced.n && pysh_trace_copies(ring); /* before a quiet that waits for them is over */

    pysh_say_more();
    return step_quiet(ring) || moved || failed || served || copies;
}
