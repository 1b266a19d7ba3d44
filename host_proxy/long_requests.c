/* SPDX-License-Identifier: BSD-3-Clause
 * Requests that take the proxy long, step by step: between two steps it serves others. */
#include <string.h>

#include "accel/accel.h"
#include "accel/copy.h"
#include "accel/engine/engine.h"
#include "base/elements.h"
#include "base/state.h"
#include "host_proxy/ring.h"
#include "host_proxy/rings.h"
#include "ops/amo.h"
#include "ops/amo_by_owner.h"
#include "ops/rma.h"
#include "transport/quiet.h"

#define PIECE_BLOCKS 1024 /* of a strided copy */

static inline char *piece_address(uint64_t word) {
    return (char *)(uintptr_t)word;
}

/* ---- copies ---- */

/* One piece between memory that the CPU reaches. */
static int move_piece(const pysh_request_t *request, void *dest, const void *source, size_t nbytes) {
    int pe = pysh_request_pe(request);

    return pysh_request_op(request) == PYSH_OP_GET ? pysh_own_get(dest, source, nbytes, pe)
                                                   : pysh_own_put(dest, source, nbytes, pe);
}

/* One piece by the copy engine: OK when it is there, else UNDERWAY. */
static int engine_piece(pysh_flight_t *flight, void *dest, const void *source, size_t nbytes) {
    bool done = false;
    int status = ISHMEMX_OK;

    if (!flight->started)
        status = pysh_engine_copy(pysh.pe, dest, source, nbytes, NULL, 0, PYSH_ENGINE_CALLER, &flight->token);
    if (status == PYSH_ENGINE_FULL)
        return PYSH_UNDERWAY;
    flight->started = !status;
    if (!status)
        status = pysh_engine_look(flight->token, &done);
    if (!status && !done)
        return PYSH_UNDERWAY;
    flight->started = false;
    return status;
}

/* Host memory for what goes to a GPU's memory or comes from there, until stage_back(); false: there is none now. It is
 * a piece that the engine's process maps, so that the program does not stop the copy; for memory which that does not
 * reach it is the ring's own. */
static bool stage_for(pysh_ring_t *ring, pysh_flight_t *flight, const void *gpu, size_t nbytes) {
    if (pysh_engine_reaches(gpu, nbytes)) {
        flight->stage = pysh_engine_piece();
    } else if (!ring->staged) {
        ring->staged = true;
        flight->stage = ring->stage;
    }
    return flight->stage;
}

static void stage_back(pysh_ring_t *ring, pysh_flight_t *flight) {
    if (flight->stage == ring->stage)
        ring->staged = false;
    else
        pysh_engine_piece_back(flight->stage);
    flight->stage = NULL;
}

/* A copy between a GPU and memory that the driver does not know would keep the proxy in the driver until it is over. */
static int staged_piece(pysh_ring_t *ring, pysh_flight_t *flight, char *dest, const char *source, size_t nbytes) {
    bool gets = pysh_request_op(&flight->request) == PYSH_OP_GET, to_gpu = flight->gpu[0], begins = !flight->stage;
    int pe = pysh_request_pe(&flight->request), status = ISHMEMX_OK;

    if (begins && !stage_for(ring, flight, to_gpu ? dest : source, nbytes))
        return PYSH_UNDERWAY;
    if (begins && to_gpu && gets)
        status = pysh_own_get(flight->stage, source, nbytes, pe);
    else if (begins && to_gpu)
        memcpy(flight->stage, source, nbytes);
    if (!status)
        status = to_gpu ? engine_piece(flight, dest, flight->stage, nbytes)
                        : engine_piece(flight, flight->stage, source, nbytes);
    if (!status && !to_gpu && gets)
        memcpy(dest, flight->stage, nbytes);
    else if (!status && !to_gpu)
        status = pysh_own_put(dest, flight->stage, nbytes, pe);
    if (status != PYSH_UNDERWAY)
        stage_back(ring, flight);
    return status;
}

int pysh_step_value(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p) {
    bool gets = pysh_request_op(&flight->request) == PYSH_OP_G, begins = !flight->stage;
    int type = pysh_request_type(&flight->request), status;
    size_t width = pysh_request_op(&flight->request) == PYSH_OP_AMO ? pysh_type_nbytes(type) : (size_t)type;

    if (begins && !stage_for(ring, flight, flight->place, width))
        return PYSH_UNDERWAY;
    if (begins && !gets)
        memcpy(flight->stage, &flight->value, width);
    status = gets ? engine_piece(flight, flight->stage, flight->place, width)
                  : engine_piece(flight, flight->place, flight->stage, width);
    if (status == PYSH_UNDERWAY)
        return status;
    if (gets)
        memcpy(value_p, flight->stage, width);
    stage_back(ring, flight);
    return status;
}

/* Where the own copy of a symmetric address on the device heap is meant, as it is without P2P, the two are one. */
static int next_piece(pysh_ring_t *ring, pysh_flight_t *flight, size_t nbytes) {
    char *dest = piece_address(flight->request.word[PYSH_WORD_DEST]) + flight->moved;
    const char *source = piece_address(flight->request.word[PYSH_WORD_SOURCE]) + flight->moved;

    if (!flight->gpu[0] && !flight->gpu[1])
        return move_piece(&flight->request, dest, source, nbytes);
    if (flight->gpu[0] && flight->gpu[1])
        return engine_piece(flight, dest, source, nbytes);
    return staged_piece(ring, flight, dest, source, nbytes);
}

int pysh_step_copy(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p) {
    const uint64_t *word = flight->request.word;
    uint64_t left = word[PYSH_WORD_VALUE] - flight->moved;
    size_t nbytes = left < PYSH_PIECE_BYTES ? left : PYSH_PIECE_BYTES;
    int status = next_piece(ring, flight, nbytes);

    if (status)
        return status;
    flight->moved += nbytes;
    if (flight->moved < word[PYSH_WORD_VALUE])
        return PYSH_MOVED;
    if (pysh_request_op(&flight->request) != PYSH_OP_PUT_SIGNAL)
        return ISHMEMX_OK;
    if ((status = pysh_quiet_transport()))
        return status;
    if (pysh_amo_is_polled(&flight->request, word[PYSH_WORD_EXTRA])) {
        flight->step = pysh_step_amo;
        return pysh_step_amo(ring, flight, value_p);
    }
    return pysh_own_amo(pysh_request_signal_op(&flight->request), ISHMEMX_TYPE_UINT64,
                        piece_address(word[PYSH_WORD_EXTRA]), word[PYSH_WORD_EXTRA2], 0,
                        pysh_request_pe(&flight->request), "sig_addr", NULL);
}

int pysh_step_strided(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p) {
    const pysh_request_t *request = &flight->request;
    const uint64_t *word = request->word;
    size_t width = (size_t)pysh_request_type(request), block = (size_t)(unsigned)pysh_request_high(request);
    uint64_t left = word[PYSH_WORD_VALUE] - flight->moved, n = left < PIECE_BLOCKS ? left : PIECE_BLOCKS;
    int64_t dest_stride = (int64_t)word[PYSH_WORD_EXTRA], source_stride = (int64_t)word[PYSH_WORD_EXTRA2];
    int (*move)(void *, const void *, ptrdiff_t, ptrdiff_t, size_t, size_t, size_t, int) =
        pysh_request_op(request) == PYSH_OP_IPUT ? pysh_iput : pysh_iget;
    int status;

    (void)ring;
    (void)value_p;
    status = move(piece_address(word[PYSH_WORD_DEST] + flight->moved * (uint64_t)dest_stride * width),
                  piece_address(word[PYSH_WORD_SOURCE] + flight->moved * (uint64_t)source_stride * width), dest_stride,
                  source_stride, block, n, width, pysh_request_pe(request));
    flight->moved += n;
    return status || flight->moved == word[PYSH_WORD_VALUE] ? status : PYSH_MOVED;
}

/* ---- atomic operations on a GPU's memory ---- */

/* Of an AMO, or of the signal of a PUT_SIGNAL. */
static int amo_op(const pysh_request_t *request) {
    return pysh_request_op(request) == PYSH_OP_PUT_SIGNAL ? pysh_request_signal_op(request)
                                                          : pysh_request_high(request);
}

static bool by_owner(const pysh_request_t *request) {
    return pysh_amo_is_by_owner(amo_op(request), ISHMEMX_HEAP_DEVICE, pysh_request_pe(request));
}

bool pysh_amo_is_polled(const pysh_request_t *request, uint64_t place) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];

    return arena->base && arena->peer[pysh_request_pe(request)] && (!arena->cpu_visible || by_owner(request)) &&
           place - (uint64_t)(uintptr_t)arena->base < (uint64_t)arena->nbytes;
}

bool pysh_amo_fetches_to_gpu(const pysh_request_t *request) {
    return request->word[PYSH_WORD_SOURCE] && pysh_on_gpu(piece_address(request->word[PYSH_WORD_SOURCE]));
}

int pysh_amo_deliver(const pysh_request_t *request, uint64_t value) {
    uint64_t place = request->word[PYSH_WORD_SOURCE];

    return place ? pysh_copy(piece_address(place), &value, pysh_type_nbytes(pysh_request_type(request))) : ISHMEMX_OK;
}

int pysh_amo_hand_over(pysh_flight_t *flight, uint64_t value) {
    if (!pysh_amo_fetches_to_gpu(&flight->request))
        return pysh_amo_deliver(&flight->request, value);
    flight->place = piece_address(flight->request.word[PYSH_WORD_SOURCE]);
    flight->value = value;
    flight->started = false;
    flight->step = pysh_step_value;
    return PYSH_MOVED;
}

static int begin_amo(pysh_flight_t *flight) {
    const uint64_t *word = flight->request.word;
    bool signals = pysh_request_op(&flight->request) == PYSH_OP_PUT_SIGNAL;
    int op = amo_op(&flight->request), pe = pysh_request_pe(&flight->request);
    int type = signals ? ISHMEMX_TYPE_UINT64 : pysh_request_type(&flight->request);
    const char *what = signals ? "sig_addr" : "dest";
    char *place = piece_address(word[signals ? PYSH_WORD_EXTRA : PYSH_WORD_DEST]), *peer;
    uint64_t value = word[signals ? PYSH_WORD_EXTRA2 : PYSH_WORD_VALUE], cond = signals ? 0 : word[PYSH_WORD_EXTRA];
    int heap, status;

    status = pysh_own_peer_address(place, pysh_type_nbytes(type), pe, what, &peer, &heap);
    if (!status)
        status = pysh_type_check_aligned(type, place, what);
    if (status)
        return status;
    return by_owner(&flight->request)
               ? pysh_amo_by_owner_begin(op, type, place - pysh.arena[heap].base, value, cond, pe)
               : pysh.accel->amo_begin(op, type, peer, value, cond, &flight->slot);
}

int pysh_step_amo(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p) {
    bool done = false;
    int status = ISHMEMX_OK;

    if (!flight->started && ring->amo_waits)
        return PYSH_UNDERWAY;
    if (!flight->started && (status = begin_amo(flight))) {
        ring->amo_waits = status == PYSH_ENGINE_FULL;
        return ring->amo_waits ? PYSH_UNDERWAY : status;
    }
    flight->started = true;
    status = by_owner(&flight->request) ? pysh_amo_by_owner_poll(pysh_request_pe(&flight->request), &done, value_p)
                                        : pysh.accel->amo_poll(flight->slot, &done, value_p);
    if (!status && !done)
        return PYSH_UNDERWAY;
    return status || pysh_request_op(&flight->request) != PYSH_OP_AMO ? status : pysh_amo_hand_over(flight, *value_p);
}
