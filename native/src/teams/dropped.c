/* SPDX-License-Identifier: BSD-3-Clause
 * Teams that a program has dropped without destroying them. A PE only notes it; the team ends in a collective call in
 * which all its members hear that all of them have. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/state.h"
#include "ishmemx.h"
#include "teams/team.h"

typedef struct told { /* what the PEs of a collective call have dropped */
    const int *pes;
    int n_pes;
    const char *slots;
    size_t stride;
} told_t;

int ishmemx_team_release(ishmemx_team_t team) {
    bool predefined = team == &ishmemx_team_world || team == &ishmemx_team_shared || team == &ishmemx_team_node;

    if (pysh.ready && team && team->slot >= 0 && !predefined)
        atomic_store(&team->dropped, true);
    return ISHMEMX_OK;
}

static bool add_slot(ishmemx_team_t team, void *slots) {
    if (atomic_load(&team->dropped) && !atomic_load(&team->n_outstanding))
        *(uint64_t *)slots |= 1ULL << team->slot;
    return false;
}

uint64_t pysh_team_dropped_slots(void) {
    uint64_t slots = 0;

    pysh_teams_any(add_slot, &slots);
    return slots;
}

static bool dropped_by(ishmemx_team_t team, int pe, const told_t *told) {
    uint64_t slots;

    for (int i = 0; i < told->n_pes; i++)
        if ((told->pes ? told->pes[i] : i) == pe) {
            memcpy(&slots, told->slots + (size_t)i * told->stride, sizeof slots);
            return slots >> team->slot & 1;
        }
    return false;
}

static bool dropped_by_all(ishmemx_team_t team, void *told) {
    bool all = atomic_load(&team->dropped);

    for (int i = 0; all && i < team->n_pes; i++)
        all = dropped_by(team, team->pes[i], told);
    return all;
}

void pysh_teams_sweep(const int *pes, int n_pes, const void *dropped_slots, size_t stride) {
    told_t told = {pes, n_pes, dropped_slots, stride};

    pysh_teams_drop(dropped_by_all, &told);
}
