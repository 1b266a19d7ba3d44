/* SPDX-License-Identifier: BSD-3-Clause
 * See team_nodes.h. */
#include "teams/team_nodes.h"

#include <stdlib.h>

#include "base/state.h"
#include "base/status.h"
#include "teams/team.h"

/* Numbers the nodes by their first members: which[first PE of a node] is its number + 1, at first 0. */
static void count(ishmemx_team_t team, int *which) {
    pysh_team_nodes_t *nodes = &team->nodes;

    for (int i = 0; i < team->n_pes; i++) {
        int *number = &which[pysh.node[team->pes[i]]];
        if (!*number) {
            nodes->head[nodes->n] = i;
            nodes->first[nodes->n + 1] = 0;
            *number = ++nodes->n;
        }
        nodes->first[*number]++; /* for now: how many */
    }
}

static void team_place(ishmemx_team_t team, const int *which) {
    pysh_team_nodes_t *nodes = &team->nodes;
    int *at = nodes->order; /* where a node's next member goes: in the memory of order, which is filled last */

    nodes->first[0] = 0;
    for (int node = 0; node < nodes->n; node++) {
        if (nodes->first[node + 1] < nodes->least)
            nodes->least = nodes->first[node + 1];
        nodes->first[node + 1] += nodes->first[node];
        at[node] = nodes->first[node];
    }
    for (int i = 0; i < team->n_pes; i++) {
        nodes->rank[i] = at[which[pysh.node[team->pes[i]]] - 1]++;
        nodes->in_turn = nodes->in_turn && nodes->rank[i] == i;
    }
    for (int i = 0; i < team->n_pes; i++)
        nodes->order[nodes->rank[i]] = i;
}

int pysh_team_nodes_make(ishmemx_team_t team) {
    pysh_team_nodes_t *nodes = &team->nodes;
    int n_pes = team->n_pes, *which = calloc((size_t)pysh.n_pes, sizeof *which);

    *nodes =
        (pysh_team_nodes_t){.order = malloc((4 * (size_t)n_pes + 1) * sizeof(int)), .least = n_pes, .in_turn = true};
    if (!which || !nodes->order) {
        free(which);
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a team of %d PEs", n_pes);
    }
    nodes->rank = nodes->order + n_pes;
    nodes->head = nodes->rank + n_pes;
    nodes->first = nodes->head + n_pes;
    count(team, which);
    team_place(team, which);
    if (team->my_pe >= 0)
        nodes->mine = which[pysh.node[pysh.pe]] - 1;
    free(which);
    return ISHMEMX_OK;
}

void pysh_team_nodes_drop(ishmemx_team_t team) {
    free(team->nodes.order);
    team->nodes = (pysh_team_nodes_t){.order = NULL};
}
