/* SPDX-License-Identifier: BSD-3-Clause
 * See chain.h. Elements are combined in the team's order, so where that goes from node to node, what the nodes before
 * have combined is all that a node has to be told: it adds its own members' and passes it on. The last node's are the
 * results, which come back the same way. So each node gets the elements twice, or once of a scan, however many
 * members there are; and the bits are the same as on one node.
 *
 * The elements are cut into a slice for each rail: the i-th members of all nodes. A slice goes in pieces, at each step
 * one to the next node and one back: node h adds to piece c in step c + h, and delivers its result in step
 * c + 2 (nodes - 1) - h. A member begins a step when its two neighbours have done the one before, so of the halves of
 * its room the one that it writes is the one that they have read. */
#include "collectives/chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "collectives/combine.h"
#include "collectives/reduce.h"
#include "node/node.h"
#include "teams/exchange.h"
#include "teams/sync.h"
#include "teams/team.h"
#include "transport/quiet.h"

enum { FORTH, BACK }; /* of the four halves, the first two and the last two */

typedef struct link {
    const pysh_chain_t *chain;
    pysh_steps_t steps;
    const pysh_team_nodes_t *nodes;
    int before, behind;        /* the rail's member on the node before, and behind; -1: there is none */
    size_t width, wide;        /* bytes of an element, and of one in the accumulator */
    size_t first, last, piece; /* elements of the slice, and at a time */
    char *copy, *sums;         /* of a piece that the CPU does not reach; of a scan */
    int copied;                /* what became of the copies; the steps go on */
} link_t;

bool pysh_chain_serves(ishmemx_team_t team, size_t n, size_t width) {
    if (team->nodes.n == 1 || !team->nodes.in_turn)
        return false;
    /* With one PE on each node, a slice for each member (reduce.c) sends no more between nodes, and many bytes in fewer
     * and larger messages. */
    return team->n_pes > team->nodes.n || n * width / (size_t)team->n_pes < PYSH_CHUNK_BYTES;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- a piece ---- */

typedef struct piece {
    size_t first, n; /* elements; none: n is 0 */
    char *acc;       /* they, in the half that is written in this step */
} piece_t;

static int64_t half_at(const link_t *l, int way, int64_t step) {
    return l->chain->team->exchange + PYSH_CHUNKS_AT + (2 * way + (step & 1)) * pysh_chunk_nbytes(l->chain->team->slot);
}

static piece_t piece_of(const link_t *l, int way, int64_t step, int64_t number) {
    piece_t piece = {.acc = pysh.arena[ISHMEMX_HEAP_HOST].base + half_at(l, way, step)};

    if (number < 0 || (size_t)number * l->piece >= l->last - l->first)
        return piece;
    piece.first = l->first + (size_t)number * l->piece;
    piece.n = least(l->piece, l->last - piece.first);
    return piece;
}

static void note(link_t *l, int status) {
    if (!l->copied)
        l->copied = status;
}

/* What a neighbour left in the step before. */
static void fetch(link_t *l, const piece_t *piece, int way, int64_t step, int member, size_t width) {
    note(l, pysh_stage_read((pysh_place_t){ISHMEMX_HEAP_HOST, half_at(l, way, step - 1)}, piece->acc, piece->n * width,
                            l->chain->team->pes[member]));
}

static void write_to(link_t *l, int member, pysh_place_t dest, size_t at, const char *values, size_t n) {
    dest.offset += (int64_t)(at * l->width);
    note(l, pysh_place_write(dest, values, n * l->width, l->chain->team->pes[member]));
}

static bool scans(const link_t *l) {
    return l->chain->kind == PYSH_CHAIN_INSCAN || l->chain->kind == PYSH_CHAIN_EXSCAN;
}

static void keep_sums(link_t *l, const piece_t *piece, bool any) {
    if (any)
        memcpy(l->sums, piece->acc, piece->n * l->wide);
    else
        memset(l->sums, 0, piece->n * l->wide); /* all bits 0 are 0 in every type */
    pysh_combine_end(l->chain->type, l->sums, piece->n);
}

/* Of a scan the member gets its sums, but not before its elements have been read, as dest may be source. */
static void add_member(link_t *l, const piece_t *piece, int member) {
    const pysh_chain_t *chain = l->chain;
    pysh_place_t source = {chain->source.heap, chain->source.offset + (int64_t)(piece->first * l->width)};
    const void *in;

    note(l, pysh_place_read(source, piece->n * l->width, chain->team->pes[member], l->copy, &in));
    if (chain->kind == PYSH_CHAIN_EXSCAN)
        keep_sums(l, piece, member > 0);
    if (member == 0)
        pysh_combine_begin(chain->type, piece->acc, in, piece->n);
    else
        pysh_combine(chain->op, chain->type, piece->acc, in, piece->n);
    if (chain->kind == PYSH_CHAIN_INSCAN)
        keep_sums(l, piece, true);
    if (scans(l))
        write_to(l, member, chain->dest, piece->first, l->sums, piece->n);
}

/* To a member what it wants of the results: of a reduce_scatter its block. Where that goes may differ from member to
 * member, so each put the place of its dest on its stage. */
static void deliver(link_t *l, const piece_t *piece, int member) {
    const pysh_chain_t *chain = l->chain;
    size_t block = chain->n / (size_t)chain->team->n_pes, begin = (size_t)member * block;
    size_t low = piece->first > begin ? piece->first : begin, high = least(piece->first + piece->n, begin + block);
    pysh_place_t dest = chain->dest;

    if (chain->kind == PYSH_CHAIN_REDUCE) {
        write_to(l, member, dest, piece->first, piece->acc, piece->n);
    } else if (low < high) {
        note(l, pysh_stage_read(pysh_stage(chain->team), &dest, sizeof dest, chain->team->pes[member]));
        write_to(l, member, dest, low - begin, piece->acc + (low - piece->first) * l->width, high - low);
    }
}

static void for_node(link_t *l, const piece_t *piece, void (*act)(link_t *, const piece_t *, int)) {
    for (int i = l->nodes->first[l->nodes->mine]; i < l->nodes->first[l->nodes->mine + 1]; i++)
        act(l, piece, l->nodes->order[i]);
}

/* ---- steps ---- */

static void step_forth(link_t *l, int64_t step) {
    piece_t piece = piece_of(l, FORTH, step, step - l->nodes->mine);

    if (!piece.n)
        return;
    if (l->before >= 0)
        fetch(l, &piece, FORTH, step, l->before, l->wide);
    for_node(l, &piece, add_member);
}

static void step_back(link_t *l, int64_t step) {
    int mine = l->nodes->mine, n = l->nodes->n;
    piece_t piece = piece_of(l, BACK, step, step - (2 * (n - 1) - mine));

    if (!piece.n)
        return;
    if (l->behind >= 0) {
        fetch(l, &piece, BACK, step, l->behind, l->width);
    } else { /* it was completed in this very step */
        char *acc = piece_of(l, FORTH, step, step - mine).acc;
        pysh_combine_end(l->chain->type, acc, piece.n);
        memcpy(piece.acc, acc, piece.n * l->width);
    }
    for_node(l, &piece, deliver);
}

static void tell_neighbours(const link_t *l) {
    if (l->before >= 0)
        pysh_tell(&l->steps, l->before);
    if (l->behind >= 0)
        pysh_tell(&l->steps, l->behind);
}

static int hear_neighbours(const link_t *l) {
    int status = l->before < 0 ? ISHMEMX_OK : pysh_hear(&l->steps, l->before);

    return status || l->behind < 0 ? status : pysh_hear(&l->steps, l->behind);
}

static size_t pieces_of(const link_t *l, size_t n) {
    return (n + l->piece - 1) / l->piece;
}

static int64_t steps_of(const link_t *l, size_t pieces) {
    return pieces ? (int64_t)pieces + (scans(l) ? 1 : 2) * (l->nodes->n - 1) : 0;
}

/* A call that is interrupted while it waits for its neighbours continues at that step when it is made again: they have
 * done the earlier steps with it, and do not repeat them. */
static int run_steps(link_t *l) {
    int64_t n = steps_of(l, pieces_of(l, l->last - l->first)), step = l->chain->team->chain_step;
    int status = ISHMEMX_OK;

    l->steps.number += (uint64_t)step;
    for (; step < n; step++) {
        if (step > 0 && (status = hear_neighbours(l)))
            break;
        step_forth(l, step);
        if (!scans(l))
            step_back(l, step);
        l->steps.number++;
        tell_neighbours(l);
    }
    if (!status && n)
        status = hear_neighbours(l);
    l->chain->team->chain_step = step;
    return status;
}

/* The node's members meet before, when the sources and dests are ready, and when all is done. */
static int chain_run(link_t *l, bool on_rail) {
    uint64_t begin = l->steps.number;
    ishmemx_team_t team = l->chain->team;
    size_t first, last;
    int status = ISHMEMX_OK;

    if (!team->chain_step) {
        note(l, pysh_stage_write(pysh_stage(team), &l->chain->dest, sizeof l->chain->dest));
        status = pysh_sync_node(&l->steps);
    }
    if (!status && on_rail)
        status = run_steps(l);
    pysh_slice((size_t)l->nodes->least, 0, l->width, l->chain->n, &first, &last); /* no slice has more */
    l->steps.number = begin + (uint64_t)steps_of(l, pieces_of(l, last - first)) + 1;
    if (!status) /* results may have gone by the transport, to a PE that is not mapped */
        note(l, pysh_quiet_transport());
    if (!status)
        status = pysh_sync_node(&l->steps);
    if (status)
        return status;
    team->chain_step = 0;
    pysh_steps_end(&l->steps);
    return l->copied;
}

int pysh_chain_run(const pysh_chain_t *chain) {
    const pysh_team_nodes_t *nodes = &chain->team->nodes;
    int mine = nodes->mine, rail = nodes->rank[chain->team->my_pe] - nodes->first[mine], status;
    link_t l = {.chain = chain, .steps = pysh_steps_begin(chain->team, chain->what), .nodes = nodes};
    size_t chunk = (size_t)pysh_chunk_nbytes(chain->team->slot);
    bool on_rail = rail < nodes->least;

    l.before = on_rail && mine > 0 ? pysh_node_member(nodes, mine - 1, rail) : -1;
    l.behind = on_rail && mine < nodes->n - 1 ? pysh_node_member(nodes, mine + 1, rail) : -1;
    l.width = pysh_type_nbytes(chain->type);
    l.wide = pysh_type_nbytes(pysh_accumulator_type(chain->type));
    l.piece = chunk / l.wide;
    if (on_rail)
        pysh_slice((size_t)nodes->least, (size_t)rail, l.width, chain->n, &l.first, &l.last);
    l.copy = malloc(2 * chunk);
    if (!l.copy)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "%s: no memory for two pieces of %zu bytes", chain->what, chunk);
    l.sums = l.copy + chunk;
    status = chain_run(&l, on_rail);
    free(l.copy);
    return status;
}
