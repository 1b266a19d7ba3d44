/* SPDX-License-Identifier: BSD-3-Clause
 * The nodes that a team's members are on. */
#pragma once

#include <stdbool.h>

#include "ishmemx.h"

typedef struct pysh_team_nodes {
    int n, mine;  /* nodes that have members, by their first member; that of the calling PE */
    int *order;   /* [n_pes] members, a node's together, each node's in the team's order */
    int *first;   /* [n + 1] where a node's begin in `order` */
    int *head;    /* [n] a node's first member */
    int *rank;    /* [n_pes] where a member is in `order` */
    int least;    /* members of the smallest node */
    bool in_turn; /* the team's order goes from node to node: rank[i] is i */
} pysh_team_nodes_t;

/* OK or MEMORY. The members are known. */
int pysh_team_nodes_make(ishmemx_team_t team);
void pysh_team_nodes_drop(ishmemx_team_t team);
/* How many members a node has; and the i-th of them. */
static inline int pysh_node_size(const pysh_team_nodes_t *nodes, int node) {
    return nodes->first[node + 1] - nodes->first[node];
}
static inline int pysh_node_member(const pysh_team_nodes_t *nodes, int node, int i) {
    return nodes->order[nodes->first[node] + i];
}
