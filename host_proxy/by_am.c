/* SPDX-License-Identifier: BSD-3-Clause
 * Requests to PEs whose memory is out of reach: each is an operation of am/, or several, on which the proxy looks now
 * and then. */
#include "am/am.h"

#include <stdlib.h>
#include <string.h>

#include "accel/copy.h"
#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "host_proxy/ring.h"
#include "host_proxy/rings.h"
#include "node/node.h"
#include "teams/team.h"

static inline char *am_address(uint64_t word) {
    return (char *)(uintptr_t)word;
}

static bool out_of_reach(uint64_t place, int pe) {
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        if (place - (uint64_t)(uintptr_t)pysh.arena[heap].base < (uint64_t)pysh.arena[heap].nbytes)
            return !pysh.arena[heap].peer[pe];
    return false;
}

bool pysh_request_goes_by_am(const pysh_request_t *request) {
    int op = pysh_request_op(request), pe = pysh_request_pe(request);
    uint64_t dest = request->word[PYSH_WORD_DEST];

    if (!pysh_am_is_open())
        return false;
    switch (op) {
    case PYSH_OP_GET:
    case PYSH_OP_IGET:
    case PYSH_OP_G:
        return out_of_reach(request->word[PYSH_WORD_SOURCE], pe);
    case PYSH_OP_PUT_SIGNAL:
        return out_of_reach(dest, pe) || out_of_reach(request->word[PYSH_WORD_EXTRA], pe);
    default:
        return out_of_reach(dest, pe);
    }
}

/* ---- from a request to an operation ---- */

/* Where a symmetric address is at its owner. checks.c has found it, and all that is moved there, to be on a heap. */
static void am_find(uint64_t place, int *heap_p, int64_t *offset_p) {
    for (int heap = 0; heap < PYSH_ARENA_COUNT; heap++)
        if (place - (uint64_t)(uintptr_t)pysh.arena[heap].base < (uint64_t)pysh.arena[heap].nbytes) {
            *heap_p = heap;
            *offset_p = (int64_t)(place - (uint64_t)(uintptr_t)pysh.arena[heap].base);
        }
}

static void describe_amo(pysh_am_op_t *op, const pysh_request_t *request) {
    op->kind = PYSH_AM_AMO;
    op->amo = pysh_request_high(request);
    op->type = pysh_request_type(request);
    op->value = request->word[PYSH_WORD_VALUE];
    op->cond = request->word[PYSH_WORD_EXTRA];
    am_find(request->word[PYSH_WORD_DEST], &op->heap, &op->offset);
}

static void describe_signal(pysh_am_op_t *op, const pysh_request_t *request) {
    am_find(request->word[PYSH_WORD_EXTRA], &op->signal_heap, &op->signal_offset);
    op->signals = op->block > 0;
    op->amo = pysh_request_signal_op(request);
    op->type = ISHMEMX_TYPE_UINT64;
    op->value = request->word[PYSH_WORD_EXTRA2];
    if (!op->signals) {
        op->kind = PYSH_AM_AMO;
        op->heap = op->signal_heap;
        op->offset = op->signal_offset;
    }
}

/* Bytes in one piece: PUT, PUT_SIGNAL, SPREAD, GET; or a value, which the operation itself holds. */
static void describe_bytes(pysh_am_op_t *op, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    int kind = pysh_request_op(request);
    bool gets = kind == PYSH_OP_GET || kind == PYSH_OP_G, value = kind == PYSH_OP_P || kind == PYSH_OP_G;

    op->kind = gets ? PYSH_AM_GET : PYSH_AM_PUT;
    op->n_blocks = 1;
    op->block = value ? (size_t)pysh_request_type(request) : word[PYSH_WORD_VALUE];
    op->value = word[PYSH_WORD_VALUE];
    if (!op->block)
        return;
    op->local =
        value ? (char *)(gets ? &op->fetched : &op->value) : am_address(word[gets ? PYSH_WORD_DEST : PYSH_WORD_SOURCE]);
    op->local_gpu = !value && pysh_on_gpu(op->local);
    am_find(word[gets ? PYSH_WORD_SOURCE : PYSH_WORD_DEST], &op->heap, &op->offset);
}

static void describe_strided(pysh_am_op_t *op, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    bool gets = pysh_request_op(request) == PYSH_OP_IGET;
    int64_t width = pysh_request_type(request), block = (int64_t)(unsigned)pysh_request_high(request);
    bool alone = word[PYSH_WORD_VALUE] == 1; /* then its strides, of any size, lead nowhere */
    int64_t dest = (alone ? block : (int64_t)word[PYSH_WORD_EXTRA]) * width;
    int64_t source = (alone ? block : (int64_t)word[PYSH_WORD_EXTRA2]) * width;

    op->kind = gets ? PYSH_AM_GET : PYSH_AM_PUT;
    op->block = (size_t)(block * width);
    op->n_blocks = op->block ? word[PYSH_WORD_VALUE] : 0;
    op->local_stride = gets ? dest : source;
    op->remote_stride = gets ? source : dest;
    if (!op->n_blocks)
        return;
    op->local = am_address(word[gets ? PYSH_WORD_DEST : PYSH_WORD_SOURCE]);
    op->local_gpu = pysh_on_gpu(op->local);
    am_find(word[gets ? PYSH_WORD_SOURCE : PYSH_WORD_DEST], &op->heap, &op->offset);
}

static void am_describe(pysh_am_op_t *op, const pysh_request_t *request) {
    int kind = pysh_request_op(request);

    op->pe = pysh_request_pe(request);
    if (kind == PYSH_OP_AMO) {
        describe_amo(op, request);
    } else if (kind == PYSH_OP_IPUT || kind == PYSH_OP_IGET) {
        describe_strided(op, request);
    } else {
        describe_bytes(op, request);
        if (kind == PYSH_OP_PUT_SIGNAL)
            describe_signal(op, request);
    }
}

/* ---- under way ---- */

static int am_step(pysh_ring_t *ring, pysh_flight_t *flight, uint64_t *value_p) {
    const pysh_am_op_t *failed = NULL;
    int status = ISHMEMX_OK;

    (void)ring;
    for (; flight->moved < (uint64_t)flight->n_by_am; flight->moved++)
        if (!pysh_am_done(&flight->remote[flight->moved]))
            return PYSH_UNDERWAY;
    *value_p = flight->remote->fetched;
    for (int i = 0; !failed && i < flight->n_by_am; i++)
        failed = flight->remote[i].status ? &flight->remote[i] : NULL;
    if (failed)
        status = pysh_am_fail(failed, "a kernel's request");
    free(flight->remote);
    flight->remote = NULL;
    if (status)
        return status;
    return pysh_request_op(&flight->request) == PYSH_OP_AMO ? pysh_amo_hand_over(flight, *value_p) : status;
}

/* `op` is the flight's from now on. */
static pysh_outcome_t am_start(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, pysh_am_op_t *op,
                               int n) {
    pysh_flight_t *flight = pysh_flight_add(ring, ticket, request, am_step);

    flight->remote = op;
    flight->n_by_am = n;
    for (int i = 0; i < n; i++)
        pysh_am_start(&op[i]);
    return (pysh_outcome_t){.pending = true};
}

pysh_outcome_t pysh_handle_by_am(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    pysh_am_op_t *op = malloc(sizeof *op); /* calloc() would not take what this thread has freed before */

    if (!op)
        return pysh_outcome(pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a kernel's request"));
    *op = (pysh_am_op_t){.kind = 0};
    am_describe(op, request);
    if (op->kind != PYSH_AM_AMO && !(op->block && op->n_blocks)) {
        free(op);
        return pysh_outcome(ISHMEMX_OK);
    }
    return am_start(ring, ticket, request, op, 1);
}

/* ---- to all members of a team out of reach ---- */

/* One to each node out of reach, for all its members: by one of them, for members of a node by different ones. How
 * many. */
static int one_a_node(pysh_am_op_t *op, const pysh_am_op_t *like, ishmemx_team_t team) {
    const pysh_team_nodes_t *nodes = &team->nodes;
    int n = 0, mine = nodes->rank[team->my_pe] - nodes->first[nodes->mine];

    for (int node = 0; node < nodes->n; node++) {
        int size = pysh_node_size(nodes, node);
        if (node == nodes->mine)
            continue;
        op[n] = *like;
        op[n].pe = team->pes[pysh_node_member(nodes, node, mine % size)];
        op[n].spreads = size > 1;
        for (int i = 0; i < size; i++) {
            int place = pysh_near_place(team->pes[pysh_node_member(nodes, node, i)]);
            op[n].places[place / 64] |= 1ULL << (place % 64);
        }
        n++;
    }
    return n;
}

/* Where PEs of a node do not map each other's heaps. */
static int one_a_member(pysh_am_op_t *op, const pysh_am_op_t *like, ishmemx_team_t team) {
    int n = 0;

    for (int i = 0; i < team->n_pes; i++)
        if (!pysh.arena[like->heap].peer[team->pes[i]]) {
            op[n] = *like;
            op[n++].pe = team->pes[i];
        }
    return n;
}

static pysh_outcome_t spread(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, ishmemx_team_t team) {
    pysh_am_op_t like = {.kind = 0}, *op;
    int n;

    if (!pysh_am_is_open() || !team || team->my_pe < 0)
        return pysh_outcome(pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel's collective: team %lld has no far member",
                                      (long long)request->word[PYSH_WORD_EXTRA]));
    describe_bytes(&like, request);
    if (!like.block)
        return pysh_outcome(ISHMEMX_OK);
    n = pysh_am_spreads() ? team->nodes.n : team->n_pes;
    op = malloc((size_t)n * sizeof *op); /* calloc(): see pysh_handle_by_am() */
    if (!op)
        return pysh_outcome(pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a kernel's request"));
    n = (pysh_am_spreads() ? one_a_node : one_a_member)(op, &like, team);
    if (n)
        return am_start(ring, ticket, request, op, n);
    free(op);
    return pysh_outcome(ISHMEMX_OK);
}

pysh_outcome_t pysh_handle_spread(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    int slot = (int)request->word[PYSH_WORD_EXTRA];
    ishmemx_team_t team = pysh_team_use(slot); /* a thread may be about to destroy it */
    pysh_outcome_t outcome = spread(ring, ticket, request, team);

    pysh_team_unuse(slot);
    return outcome;
}
