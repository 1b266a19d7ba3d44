/* SPDX-License-Identifier: BSD-3-Clause
 * See sync.h. A member has a flag at each other one, in the row of the team's slot, and raises it to the number it is
 * at; numbers only rise, so a call that was interrupted can be made again. Few members raise flags at all others at
 * once, so that each PE has to be scheduled only once where there are more PEs than cores; many spread the flags in
 * rounds of doubling distance. Members on several nodes tell the head of theirs, the heads meet, and each tells its
 * members. */
#include "teams/sync.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"
#include "conduit/conduit.h"
#include "conduit/wait.h"
#include "teams/team.h"

#define FEW_MEMBERS 8

void pysh_flag_raise(ishmemx_team_t team, int64_t offset, int member, uint64_t value) {
    int pe = team->pes[member];
    char *peer = pysh.arena[ISHMEMX_HEAP_HOST].peer[pe];

    offset += team->my_pe * (int64_t)sizeof value;
    if (!peer) {
        pysh.conduit->raise(offset, value, pe);
        return;
    }
    /* release: pairs with has_told(), and with flag() of request_steps.c */
    __atomic_store_n((uint64_t *)(peer + offset), value, __ATOMIC_RELEASE);
    pysh_wake(pe);
}

/* ---- some members ---- */

pysh_steps_t pysh_steps_begin(ishmemx_team_t team, const char *what) {
    return (pysh_steps_t){team, what, team->epoch + 1};
}

void pysh_steps_end(const pysh_steps_t *steps) {
    steps->team->epoch = steps->number;
}

void pysh_tell(const pysh_steps_t *steps, int member) {
    pysh_flag_raise(steps->team, steps->team->flags, member, steps->number);
}

static bool has_told(const pysh_steps_t *steps, int member) {
    const char *flags = pysh.arena[ISHMEMX_HEAP_HOST].base + steps->team->flags;

    return __atomic_load_n((const uint64_t *)(const void *)flags + member, __ATOMIC_ACQUIRE) >= steps->number;
}

int pysh_hear(const pysh_steps_t *steps, int member) {
    ishmemx_team_t team = steps->team;
    int status = ISHMEMX_OK;
    pysh_wait_t wait;

    if (has_told(steps, member))
        return ISHMEMX_OK;
    pysh_wait_begin(&wait, steps->what);
    wait.members = (pysh_members_t){.slot = team->slot, .n_pes = team->n_pes, .pes = team->pes};
    while (!status && !has_told(steps, member))
        status = pysh_wait_pause(&wait);
    pysh_wait_end(&wait);
    return status;
}

static int meet_few(const pysh_steps_t *steps, const int *members, int n, int mine) {
    int status = ISHMEMX_OK;

    for (int i = 1; i < n; i++)
        pysh_tell(steps, members[(mine + i) % n]);
    for (int i = 1; !status && i < n; i++)
        status = pysh_hear(steps, members[(mine + i) % n]);
    return status;
}

int pysh_meet(const pysh_steps_t *steps, const int *members, int n, int mine) {
    int status = ISHMEMX_OK;

    if (n <= FEW_MEMBERS)
        return meet_few(steps, members, n, mine);
    for (int distance = 1; !status && distance < n; distance *= 2) {
        pysh_tell(steps, members[(mine + distance) % n]);
        status = pysh_hear(steps, members[(mine + n - distance) % n]);
    }
    return status;
}

int pysh_meet_node(const pysh_steps_t *steps) {
    const pysh_team_nodes_t *nodes = &steps->team->nodes;
    int first = nodes->first[nodes->mine];

    return pysh_meet(steps, nodes->order + first, pysh_node_size(nodes, nodes->mine),
                     nodes->rank[steps->team->my_pe] - first);
}

/* ---- all members ---- */

static int meet_nodes(const pysh_steps_t *steps) {
    const pysh_team_nodes_t *nodes = &steps->team->nodes;
    int size = pysh_node_size(nodes, nodes->mine), head = nodes->head[nodes->mine], status = ISHMEMX_OK;

    if (steps->team->my_pe != head) {
        pysh_tell(steps, head);
        return pysh_hear(steps, head);
    }
    for (int i = 1; !status && i < size; i++)
        status = pysh_hear(steps, pysh_node_member(nodes, nodes->mine, i));
    if (!status)
        status = pysh_meet(steps, nodes->head, nodes->n, nodes->mine);
    for (int i = 1; !status && i < size; i++)
        pysh_tell(steps, pysh_node_member(nodes, nodes->mine, i));
    return status;
}

static int meet_all(const pysh_steps_t *steps) {
    const pysh_team_nodes_t *nodes = &steps->team->nodes;

    if (nodes->n > 1 && nodes->n < steps->team->n_pes)
        return meet_nodes(steps);
    return pysh_meet(steps, nodes->order, steps->team->n_pes, nodes->rank[steps->team->my_pe]);
}

/* The conduit's barrier is for all PEs only. It beats flags, and notices when others are in an allocation. */
static bool by_barrier(ishmemx_team_t team) {
    return team == &ishmemx_team_world;
}

int pysh_team_sync(ishmemx_team_t team, const char *what) {
    pysh_steps_t steps = pysh_steps_begin(team, what);
    int status;

    if (team->n_pes == 1)
        return ISHMEMX_OK;
    if (by_barrier(team))
        return pysh.conduit->barrier(what);
    status = meet_all(&steps);
    if (!status)
        pysh_steps_end(&steps);
    return status;
}
