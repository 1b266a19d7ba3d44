/* SPDX-License-Identifier: BSD-3-Clause
 * See gather.h. With several nodes what the members staged is gathered on each, and goes from one to another once.
 *
 * The head of a node reads its members' stages into a half of its room. Then the heads exchange in rounds: in that of
 * distance d each reads from the head d nodes further the blocks that one has by then, those of d nodes, or in the last
 * round those still missing. So a head's half begins with its own node's blocks, and wraps around after the last
 * node's. Last it tells its members, who read there.
 *
 * Nobody passes before all have come: it is a sync too. A half is written again in the next but one gather, when all
 * have passed the one between, and so read what they wanted of this. */
#include "teams/gather.h"

#include <stdint.h>
#include <string.h>

#include "base/state.h"
#include "node/node.h"
#include "teams/exchange.h"
#include "teams/stage.h"
#include "teams/sync.h"
#include "teams/team.h"

typedef struct gathering {
    pysh_steps_t steps;
    const pysh_team_nodes_t *nodes;
    size_t nbytes; /* of a block */
    int64_t room;  /* of the blocks, on a head's host arena */
} gathering_t;

static int wrapped(int i, int n) {
    return i < n ? i : i - n;
}

/* Members of `count` nodes from one on. */
static int members_of(const pysh_team_nodes_t *nodes, int node, int count) {
    int end = node + count, members = -nodes->first[node];

    if (end > nodes->n) {
        members += nodes->first[nodes->n];
        end -= nodes->n;
    }
    return members + nodes->first[end];
}

static int gather_node(const gathering_t *g, pysh_place_t stage) {
    char *room = pysh.arena[ISHMEMX_HEAP_HOST].base + g->room;
    int mine = g->nodes->mine, status = ISHMEMX_OK;

    memcpy(room, pysh.arena[stage.heap].base + stage.offset, g->nbytes);
    for (int i = 1; !status && i < pysh_node_size(g->nodes, mine); i++) {
        int member = pysh_node_member(g->nodes, mine, i);
        status = pysh_hear(&g->steps, member);
        if (!status)
            status = pysh_stage_read(stage, room + (size_t)i * g->nbytes, g->nbytes, g->steps.team->pes[member]);
    }
    return status;
}

static int gather_exchange(const gathering_t *g) {
    const pysh_team_nodes_t *nodes = g->nodes;
    size_t have = (size_t)pysh_node_size(nodes, nodes->mine) * g->nbytes;
    int status = ISHMEMX_OK;

    for (int distance = 1; !status && distance < nodes->n; distance *= 2) {
        int from = wrapped(nodes->mine + distance, nodes->n);
        int count = distance < nodes->n - distance ? distance : nodes->n - distance;
        size_t nbytes = (size_t)members_of(nodes, from, count) * g->nbytes;
        pysh_tell(&g->steps, nodes->head[wrapped(nodes->mine + nodes->n - distance, nodes->n)]);
        status = pysh_hear(&g->steps, nodes->head[from]);
        if (!status)
            status = pysh_stage_read((pysh_place_t){ISHMEMX_HEAP_HOST, g->room},
                                     pysh.arena[ISHMEMX_HEAP_HOST].base + g->room + have, nbytes,
                                     g->steps.team->pes[nodes->head[from]]);
        have += nbytes;
    }
    return status;
}

static int gather(const gathering_t *g, pysh_place_t stage) {
    const pysh_team_nodes_t *nodes = g->nodes;
    int head = nodes->head[nodes->mine], status;

    if (g->steps.team->my_pe != head) {
        pysh_tell(&g->steps, head);
        return pysh_hear(&g->steps, head);
    }
    status = gather_node(g, stage);
    if (!status)
        status = gather_exchange(g);
    for (int i = 1; !status && i < pysh_node_size(nodes, nodes->mine); i++)
        pysh_tell(&g->steps, pysh_node_member(nodes, nodes->mine, i));
    return status;
}

bool pysh_stage_gathers(ishmemx_team_t team, size_t nbytes) {
    return team->nodes.n == 1 || nbytes <= PYSH_GATHER_BYTES / (size_t)team->n_pes;
}

int pysh_stage_share(ishmemx_team_t team, const char *what, size_t nbytes, int status, pysh_shared_t *shared) {
    pysh_place_t stage = pysh_stage(team);
    gathering_t g = {pysh_steps_begin(team, what), &team->nodes, nbytes,
                     team->exchange + (int64_t)(team->gathered & 1) * PYSH_GATHER_BYTES};
    int gathered;

    *shared = (pysh_shared_t){.team = team, .place = stage};
    if (team->nodes.n == 1 || !pysh_stage_gathers(team, nbytes))
        return pysh_stage_sync(team, what, status);
    *shared = (pysh_shared_t){team, {ISHMEMX_HEAP_HOST, g.room}, nbytes};
    gathered = gather(&g, stage);
    if (!gathered) {
        pysh_steps_end(&g.steps);
        team->gathered++;
        team->staged++;
    }
    return status ? status : gathered;
}

int pysh_stage_share_told(ishmemx_team_t team, const pysh_celled_t *call, int status, pysh_shared_t *shared) {
    int shared_status;

    if (!pysh_cells_are_told(call->about))
        return pysh_stage_share(team, call->what, call->nbytes, status, shared);
    pysh_cells_tell(team, call->about);
    shared_status = pysh_stage_share(team, call->what, call->nbytes, ISHMEMX_OK, shared);
    if (!shared_status)
        shared_status = pysh_cells_compare(team, call->what, call->about);
    return status ? status : shared_status;
}

int pysh_share(ishmemx_team_t team, const pysh_celled_t *call, pysh_shared_t *shared) {
    int status;

    if (pysh_cells_serve(team, call->nbytes)) {
        *shared = (pysh_shared_t){.team = team};
        return pysh_cells_share(team, call, &shared->place);
    }
    status = pysh_stage_write(pysh_stage(team), call->source, call->nbytes);
    return pysh_stage_share_told(team, call, status, shared);
}

pysh_place_t pysh_shared_place(const pysh_shared_t *shared, int member, int *pe_p) {
    const pysh_team_nodes_t *nodes = &shared->team->nodes;
    pysh_place_t place = shared->place;

    *pe_p = shared->team->pes[member];
    if (!shared->step)
        return place;
    member = wrapped(nodes->rank[member] + nodes->first[nodes->n] - nodes->first[nodes->mine], shared->team->n_pes);
    place.offset += (int64_t)((size_t)member * shared->step);
    *pe_p = shared->team->pes[nodes->head[nodes->mine]];
    return place;
}

int pysh_shared_read(const pysh_shared_t *shared, int member, void *dest, size_t nbytes) {
    int pe;
    pysh_place_t place = pysh_shared_place(shared, member, &pe);

    return pysh_stage_read(place, dest, nbytes, pe);
}

int pysh_team_gather(ishmemx_team_t team, const char *what, const void *mine, void *all, size_t nbytes) {
    pysh_shared_t shared;
    int status = pysh_stage_write(pysh_stage(team), mine, nbytes);

    status = pysh_stage_share(team, what, nbytes, status, &shared);
    for (int i = 0; !status && i < team->n_pes; i++)
        status = pysh_shared_read(&shared, i, (char *)all + (size_t)i * nbytes, nbytes);
    return status;
}
