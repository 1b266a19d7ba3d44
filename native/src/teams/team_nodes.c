/* SPDX-License-Identifier: BSD-3-Clause
 * See team_nodes.h. */
#include "teams/team_nodes.h"

#include <stdlib.h>

#include "base/state.h"
#include "base/status.h"
#include "teams/team.h"

/* The members of the node of member `of`, from `of` on, which is its first; `rank` is -1 for who is not placed yet. */
static int place_node(ishmemx_team_t team, int of, int at) {
    pysh_team_nodes_t *nodes = &team->nodes;

    for (int i = of; i < team->n_pes; i++)
        if (nodes->rank[i] < 0 && pysh.node[team->pes[i]] == pysh.node[team->pes[of]]) {
            nodes->in_turn = nodes->in_turn && i == at;
            nodes->rank[i] = at;
            nodes->order[at++] = i;
        }
    return at;
}

int pysh_team_nodes_make(ishmemx_team_t team) {
    pysh_team_nodes_t *nodes = &team->nodes;
    int n_pes = team->n_pes, at = 0;

    *nodes = (pysh_team_nodes_t){.order = malloc((4 * (size_t)n_pes + 1) * sizeof(int)), .least = n_pes};
    if (!nodes->order)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a team of %d PEs", n_pes);
    nodes->rank = nodes->order + n_pes;
    nodes->head = nodes->rank + n_pes;
    nodes->first = nodes->head + n_pes;
    nodes->first[0] = 0;
    nodes->in_turn = true;
    for (int i = 0; i < n_pes; i++)
        nodes->rank[i] = -1;
    for (int i = 0; i < n_pes; i++) {
        if (nodes->rank[i] >= 0)
            continue;
        at = place_node(team, i, at);
        nodes->head[nodes->n] = i;
        if (team->my_pe >= 0 && pysh.node[team->pes[i]] == pysh.node[pysh.pe])
            nodes->mine = nodes->n;
        if (at - nodes->first[nodes->n] < nodes->least)
            nodes->least = at - nodes->first[nodes->n];
        nodes->first[++nodes->n] = at;
    }
    return ISHMEMX_OK;
}

void pysh_team_nodes_drop(ishmemx_team_t team) {
    free(team->nodes.order);
    team->nodes = (pysh_team_nodes_t){.order = NULL};
}
