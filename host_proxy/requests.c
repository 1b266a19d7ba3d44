/* SPDX-License-Identifier: BSD-3-Clause
 * What each request does. The library's handlers start what takes long and return: a copy engine's work, a flight that
 * long_requests.c takes on. Everything else is loads and stores to mapped memory, or a call of the transport. Those of
 * users return when they like, and keep their ring waiting. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/copy.h"
#include "accel/engine/engine.h"
#include "base/clock.h"
#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "host_proxy/ring.h"
#include "host_proxy/rings.h"
#include "ops/amo.h"
#include "ops/rma.h"
#include "transport/quiet.h"

static inline void *handler_address(uint64_t word) {
    return (void *)(uintptr_t)word;
}

/* ---- bytes ---- */

static const pysh_arena_t *device_arena(void) {
    return &pysh.arena[ISHMEMX_HEAP_DEVICE];
}

static bool on_device_heap(uint64_t place, uint64_t nbytes) {
    uint64_t offset = place - (uint64_t)(uintptr_t)device_arena()->base;

    return device_arena()->base && offset < (uint64_t)device_arena()->nbytes &&
           nbytes <= (uint64_t)device_arena()->nbytes - offset;
}

/* The engine's work: its stream also writes the reply and the signal, behind the data. */
static pysh_outcome_t handler_start_copy(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, void *dest,
                                         const void *source, const pysh_completion_t *signal) {
    unsigned flags = pysh_request_flags(request);
    pysh_completion_t completion[2];
    uint64_t copy;
    int n = 0, status;

    if (flags & PYSH_REQUEST_REPLY && !(flags & PYSH_REQUEST_DONE))
        return pysh_outcome(pysh_fail(ISHMEMX_ERR_ARGUMENT, "a copy engine replies in device memory: ask with DONE"));
    if (signal)
        completion[n++] = *signal;
    if (flags & PYSH_REQUEST_DONE)
        completion[n++] = (pysh_completion_t){.address = &ring->device->word[ring->n + (ticket & ring->mask)],
                                              .value = (uint32_t)(ticket + 1)};
    status = pysh_engine_copy(pysh_request_pe(request), dest, source, request->word[PYSH_WORD_VALUE], completion, n,
                              flags & PYSH_REQUEST_DONE ? PYSH_ENGINE_KERNEL : PYSH_ENGINE_HOST, &copy);
    if (status == PYSH_ENGINE_FULL)
        return (pysh_outcome_t){.again = true};
    atomic_fetch_add_explicit(&ring->in_flight, 1, memory_order_relaxed);
    if (ring->begin_ns && !status)
        pysh_trace_copy(ring, ticket, request, copy);
    return status ? pysh_outcome(status) : (pysh_outcome_t){.pending = true};
}

/* What the proxy copies itself: all of it now when it is little, and the CPU reaches both ends; else in pieces. */
static pysh_outcome_t start_pieces(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, uint64_t here,
                                   uint64_t there, const char *what) {
    uint64_t nbytes = request->word[PYSH_WORD_VALUE];
    bool gpu_here = pysh_on_gpu(handler_address(here)), gpu_there = pysh_on_gpu(handler_address(there));
    pysh_flight_t *flight;
    char *peer;
    int heap, status;

    if (!nbytes || (nbytes <= PYSH_PIECE_BYTES && !gpu_here && !gpu_there))
        return pysh_outcome(ISHMEMX_OK);
    status = pysh_own_peer_address(handler_address(there), nbytes, pysh_request_pe(request), what, &peer, &heap);
    if (status || (!peer && heap == ISHMEMX_HEAP_DEVICE)) /* that is refused by who is asked to copy it at once */
        return pysh_outcome(status);
    flight = pysh_flight_add(ring, ticket, request, pysh_step_copy);
    flight->gpu[0] = pysh_request_op(request) == PYSH_OP_GET ? gpu_here : gpu_there;
    flight->gpu[1] = pysh_request_op(request) == PYSH_OP_GET ? gpu_there : gpu_here;
    return (pysh_outcome_t){.pending = true};
}

static pysh_outcome_t put(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    uint64_t nbytes = word[PYSH_WORD_VALUE];
    int pe = pysh_request_pe(request);
    char *peer = on_device_heap(word[PYSH_WORD_DEST], nbytes) ? device_arena()->peer[pe] : NULL;
    pysh_outcome_t result;

    if (peer && nbytes && pysh.p2p)
        return handler_start_copy(ring, ticket, request,
                                  peer + (word[PYSH_WORD_DEST] - (uintptr_t)device_arena()->base),
                                  handler_address(word[PYSH_WORD_SOURCE]), NULL);
    result = start_pieces(ring, ticket, request, word[PYSH_WORD_SOURCE], word[PYSH_WORD_DEST], "dest");
    if (!result.pending && !result.status)
        result.status =
            pysh_own_put(handler_address(word[PYSH_WORD_DEST]), handler_address(word[PYSH_WORD_SOURCE]), nbytes, pe);
    return result;
}

static pysh_outcome_t get(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    uint64_t nbytes = word[PYSH_WORD_VALUE];
    int pe = pysh_request_pe(request);
    char *peer = on_device_heap(word[PYSH_WORD_SOURCE], nbytes) ? device_arena()->peer[pe] : NULL;
    pysh_outcome_t result;

    if (peer && nbytes && pysh.p2p)
        return handler_start_copy(ring, ticket, request, handler_address(word[PYSH_WORD_DEST]),
                                  peer + (word[PYSH_WORD_SOURCE] - (uintptr_t)device_arena()->base), NULL);
    result = start_pieces(ring, ticket, request, word[PYSH_WORD_DEST], word[PYSH_WORD_SOURCE], "source");
    if (!result.pending && !result.status)
        result.status =
            pysh_own_get(handler_address(word[PYSH_WORD_DEST]), handler_address(word[PYSH_WORD_SOURCE]), nbytes, pe);
    return result;
}

/* A flight of `value` to `place`, or from there. */
static pysh_outcome_t start_value(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, void *place,
                                  uint64_t value) {
    pysh_flight_t *flight = pysh_flight_add(ring, ticket, request, pysh_step_value);

    flight->place = place;
    flight->value = value;
    return (pysh_outcome_t){.pending = true};
}

/* Where the element of a P or G is, when that is a GPU; NULL: elsewhere. */
static int on_gpu(const pysh_request_t *request, const char *what, char **gpu_p) {
    bool puts = pysh_request_op(request) == PYSH_OP_P;
    size_t width = (size_t)pysh_request_type(request);
    int heap, status;

    *gpu_p = NULL;
    if (device_arena()->cpu_visible)
        return ISHMEMX_OK;
    status = pysh_own_peer_address(handler_address(request->word[puts ? PYSH_WORD_DEST : PYSH_WORD_SOURCE]), width,
                                   pysh_request_pe(request), what, gpu_p, &heap);
    if (!status && pysh.arena[heap].cpu_visible)
        *gpu_p = NULL;
    return status;
}

static pysh_outcome_t p(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    char *gpu;
    int status = on_gpu(request, "dest", &gpu);

    if (!status && gpu)
        return start_value(ring, ticket, request, gpu, word[PYSH_WORD_VALUE]);
    if (!status)
        status = pysh_own_put(handler_address(word[PYSH_WORD_DEST]), &word[PYSH_WORD_VALUE],
                              (size_t)pysh_request_type(request), pysh_request_pe(request));
    return pysh_outcome(status);
}

static pysh_outcome_t g(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    pysh_outcome_t result = {.status = ISHMEMX_OK};
    char *gpu;

    result.status = on_gpu(request, "source", &gpu);
    if (!result.status && gpu)
        return start_value(ring, ticket, request, gpu, 0);
    if (!result.status)
        result.status = pysh_own_get(&result.value, handler_address(request->word[PYSH_WORD_SOURCE]),
                                     (size_t)pysh_request_type(request), pysh_request_pe(request));
    return result;
}

static pysh_outcome_t handler_put_signal(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    uint64_t nbytes = word[PYSH_WORD_VALUE], base = (uintptr_t)device_arena()->base;
    int pe = pysh_request_pe(request), status;
    char *peer = on_device_heap(word[PYSH_WORD_DEST], nbytes) ? device_arena()->peer[pe] : NULL;
    pysh_outcome_t result;

    if (peer && nbytes && pysh.p2p) {
        pysh_completion_t signal = {.address = peer + (word[PYSH_WORD_EXTRA] - base), .value = word[PYSH_WORD_EXTRA2]};
        if (pysh_request_high(request) != ISHMEMX_SIGNAL_SET || !on_device_heap(word[PYSH_WORD_EXTRA], 8))
            return pysh_outcome(
                pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "a copy engine can only set a signal of the device heap"));
        return handler_start_copy(ring, ticket, request, peer + (word[PYSH_WORD_DEST] - base),
                                  handler_address(word[PYSH_WORD_SOURCE]), &signal);
    }
    result = start_pieces(ring, ticket, request, word[PYSH_WORD_SOURCE], word[PYSH_WORD_DEST], "dest");
    if (result.pending || result.status)
        return result;
    status = pysh_own_put(handler_address(word[PYSH_WORD_DEST]), handler_address(word[PYSH_WORD_SOURCE]), nbytes, pe);
    if (!status && nbytes)
        status = pysh_quiet_transport();
    if (!status && pysh_amo_is_polled(request, word[PYSH_WORD_EXTRA])) {
        pysh_flight_add(ring, ticket, request, pysh_step_amo);
        return (pysh_outcome_t){.pending = true};
    }
    if (!status)
        status = pysh_own_amo(pysh_request_signal_op(request), ISHMEMX_TYPE_UINT64,
                              handler_address(word[PYSH_WORD_EXTRA]), word[PYSH_WORD_EXTRA2], 0, pe, "sig_addr", NULL);
    return pysh_outcome(status);
}

static pysh_outcome_t strided(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    pysh_flight_t first = {.request = *request};
    uint64_t value;
    int status;

    if (!pysh_request_high(request) || !request->word[PYSH_WORD_VALUE])
        return pysh_outcome(ISHMEMX_OK); /* however many blocks of nothing */
    status = pysh_step_strided(ring, &first, &value);
    if (status != PYSH_MOVED)
        return pysh_outcome(status);
    pysh_flight_add(ring, ticket, request, pysh_step_strided)->moved = first.moved;
    return (pysh_outcome_t){.pending = true};
}

/* ---- values ---- */

static pysh_outcome_t handler_amo(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    int op = pysh_request_high(request), type = pysh_request_type(request);
    pysh_outcome_t result = {.status = ISHMEMX_OK};

    if (pysh_amo_is_polled(request, word[PYSH_WORD_DEST])) {
        pysh_flight_add(ring, ticket, request, pysh_step_amo);
        return (pysh_outcome_t){.pending = true};
    }
    result.status = pysh_own_amo(op, type, handler_address(word[PYSH_WORD_DEST]), word[PYSH_WORD_VALUE],
                                 word[PYSH_WORD_EXTRA], pysh_request_pe(request), "dest", &result.value);
    if (!result.status && pysh_amo_fetches_to_gpu(request))
        return start_value(ring, ticket, request, handler_address(word[PYSH_WORD_SOURCE]), result.value);
    if (!result.status)
        result.status = pysh_amo_deliver(request, result.value);
    return result;
}

static pysh_outcome_t null(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    (void)ring;
    (void)ticket;
    (void)request;
    return pysh_outcome(ISHMEMX_OK);
}

/* ---- the table ---- */

static const struct {
    pysh_outcome_t (*handle)(pysh_ring_t *, uint64_t, const pysh_request_t *);
    bool has_pe, moves_bytes;
    bool timed; /* reading the clock twice would be most of the others' time */
} handlers[PYSH_OP_COUNT] = {
    [PYSH_OP_NULL] = {null, false, false, false},
    [PYSH_OP_PUT] = {put, true, true, true},
    [PYSH_OP_GET] = {get, true, true, true},
    [PYSH_OP_IPUT] = {strided, true, false, true},
    [PYSH_OP_IGET] = {strided, true, false, true},
    [PYSH_OP_P] = {p, true, false, false},
    [PYSH_OP_G] = {g, true, false, false},
    [PYSH_OP_AMO] = {handler_amo, true, false, false},
    [PYSH_OP_PUT_SIGNAL] = {handler_put_signal, true, true, true},
    [PYSH_OP_PRINT] = {pysh_handle_print, false, false, false},
    [PYSH_OP_ABORT] = {pysh_handle_quit, false, false, false},
    [PYSH_OP_CALL] = {pysh_handle_call, false, false, true},
    [PYSH_OP_WAITING] = {pysh_handle_waiting, false, false, false},
    [PYSH_OP_SPREAD] = {pysh_handle_spread, false, true, true},
};

/* The handlers look at nothing that has been found right here. */
static pysh_outcome_t checked(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, int op) {
    int pe = pysh_request_pe(request), status;

    if (op <= 0 || op >= PYSH_OP_COUNT)
        return pysh_outcome(
            pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel sent a request with the unknown operation %d", op));
    if (handlers[op].has_pe && (unsigned)pe >= (unsigned)pysh.n_pes)
        return pysh_outcome(pysh_check_pe(pe, pysh.n_pes));
    if ((status = pysh_request_check(request)))
        return pysh_outcome(status);
    if (handlers[op].has_pe && pysh_request_goes_by_am(request))
        return pysh_handle_by_am(ring, ticket, request);
    return handlers[op].handle(ring, ticket, request);
}

pysh_outcome_t pysh_ring_handle(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    int op = pysh_request_op(request), row = op > 0 && op < PYSH_OP_COUNT ? op : 0;
    int64_t traced = pysh_trace_now(), start = handlers[row].timed ? traced ? traced : pysh_now_ns() : 0;
    int n_flights = ring->n_flights;
    pysh_outcome_t result;

    ring->begin_ns = traced;
    /* Before the handler: who has seen the engine's reply sees the count. */
    pysh_ring_count(&ring->stats.requests[row], 1);
    if (handlers[row].moves_bytes)
        pysh_ring_count(&ring->stats.bytes[row], (int64_t)request->word[PYSH_WORD_VALUE]);
    result = checked(ring, ticket, request, op);
    if (result.again) { /* it has not begun */
        pysh_ring_count(&ring->stats.requests[row], -1);
        if (handlers[row].moves_bytes)
            pysh_ring_count(&ring->stats.bytes[row], -(int64_t)request->word[PYSH_WORD_VALUE]);
    }
    if (start)
        pysh_ring_count(&ring->stats.ns[row], pysh_now_ns() - start);
    if (traced && !result.again && ring->n_flights == n_flights) /* a flight is noted when it is over */
        pysh_trace_request(ring, ticket, request, traced);
    return result;
}
