/* SPDX-License-Identifier: BSD-3-Clause
 * See request_steps.h. Flags only rise: request k of a team has the values 2k, announced, and 2k + 1, done.
 *
 * In a team on one node each member has a flag at each other one. In a team on several each has one at the head of its
 * node, where all its members look. Who brings the last flag of a node to a value, and no PE beside it, tells the other
 * nodes: it raises its flag at their heads, where that says how far all of its node are. So what a member waits for
 * depends on no call of another one behind its own step. */
#include "collectives/request_steps.h"

#include <stdint.h>

#include "base/state.h"
#include "node/node.h"
#include "node/wait.h"
#include "teams/sync.h"
#include "teams/team.h"

static int64_t flags_of(const struct ishmemx_request *request) {
    return request->slot + PYSH_ANNOUNCEMENT_BYTES;
}

static uint64_t value_of(const struct ishmemx_request *request, enum pysh_request_step step) {
    return 2 * request->number + step;
}

/* Where all members of a node map its head, and some node has more than that. */
static bool goes_by_nodes(ishmemx_team_t team) {
    return pysh.nodes_mapped && team->nodes.n > 1 && team->nodes.n < team->n_pes;
}

/* On the slot that this PE looks at: its head's, or its own. */
static uint64_t *word(const struct ishmemx_request *request, int64_t offset) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_HOST];
    ishmemx_team_t team = request->team;
    char *slots = goes_by_nodes(team) ? arena->peer[team->pes[team->nodes.head[team->nodes.mine]]] : arena->base;

    return (uint64_t *)(void *)(slots + offset);
}

/* acquire: pairs with the release in pysh_flag_raise(), and with the fence in tell_by_nodes() */
static uint64_t flag(const struct ishmemx_request *request, int member) {
    return __atomic_load_n(word(request, flags_of(request)) + member, __ATOMIC_ACQUIRE);
}

/* ---- on several nodes ---- */

static uint64_t least_of_node(const struct ishmemx_request *request) {
    const pysh_team_nodes_t *nodes = &request->team->nodes;
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < pysh_node_size(nodes, nodes->mine); i++) {
        uint64_t theirs = flag(request, pysh_node_member(nodes, nodes->mine, i));
        least = theirs < least ? theirs : least;
    }
    return least;
}

/* Is it this PE that tells the other nodes that its own is at the value? */
static bool claim(const struct ishmemx_request *request, uint64_t value) {
    uint64_t *sent = word(request, request->slot + (int64_t)PYSH_REQUEST_SENT);
    uint64_t last = __atomic_load_n(sent, __ATOMIC_RELAXED);

    while (last < value)
        if (__atomic_compare_exchange_n(sent, &last, value, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return true;
    return false;
}

static void tell_node(const struct ishmemx_request *request, int node, uint64_t value) {
    ishmemx_team_t team = request->team;
    const pysh_team_nodes_t *nodes = &team->nodes;

    pysh_flag_raise(team, flags_of(request), nodes->head[node], value);
    for (int i = 1; i < pysh_node_size(nodes, node); i++)
        pysh_wake(team->pes[pysh_node_member(nodes, node, i)]);
}

static void tell_by_nodes(const struct ishmemx_request *request, uint64_t value) {
    ishmemx_team_t team = request->team;
    const pysh_team_nodes_t *nodes = &team->nodes;
    uint64_t least;

    __atomic_store_n(word(request, flags_of(request)) + team->my_pe, value, __ATOMIC_RELEASE);
    /* Of two that come at the same time at least one sees the other's flag. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int i = 0; i < pysh_node_size(nodes, nodes->mine); i++)
        if (pysh_node_member(nodes, nodes->mine, i) != team->my_pe)
            pysh_wake(team->pes[pysh_node_member(nodes, nodes->mine, i)]);
    least = least_of_node(request);
    if (least < value_of(request, PYSH_REQUEST_ANNOUNCED) || !claim(request, least))
        return;
    for (int i = 1; i < nodes->n; i++)
        tell_node(request, (nodes->mine + i) % nodes->n, least);
}

static bool node_at(const struct ishmemx_request *request, int node, uint64_t value) {
    const pysh_team_nodes_t *nodes = &request->team->nodes;

    for (int i = 0; i < pysh_node_size(nodes, node); i++)
        if (flag(request, pysh_node_member(nodes, node, i)) >= value)
            return true;
    return false;
}

/* `reached` counts the members of the own node, then the nodes. */
static bool all_by_nodes(struct ishmemx_request *request, uint64_t value) {
    const pysh_team_nodes_t *nodes = &request->team->nodes;
    int size = pysh_node_size(nodes, nodes->mine);

    for (; request->reached < size; request->reached++)
        if (flag(request, pysh_node_member(nodes, nodes->mine, request->reached)) < value)
            return false;
    for (; request->reached < size + nodes->n; request->reached++)
        if (request->reached - size != nodes->mine && !node_at(request, request->reached - size, value))
            return false;
    return true;
}

/* ---- all of it ---- */

void pysh_request_tell(const struct ishmemx_request *request, enum pysh_request_step step) {
    ishmemx_team_t team = request->team;

    if (goes_by_nodes(team)) {
        tell_by_nodes(request, value_of(request, step));
        return;
    }
    for (int i = 1; i < team->n_pes; i++)
        pysh_flag_raise(team, flags_of(request), (team->my_pe + i) % team->n_pes, value_of(request, step));
}

bool pysh_request_all_at(struct ishmemx_request *request, enum pysh_request_step step) {
    ishmemx_team_t team = request->team;

    if (goes_by_nodes(team))
        return all_by_nodes(request, value_of(request, step));
    for (; request->reached < team->n_pes; request->reached++)
        if (request->reached != team->my_pe && flag(request, request->reached) < value_of(request, step))
            return false;
    return true;
}
