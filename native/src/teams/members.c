/* SPDX-License-Identifier: BSD-3-Clause
 * Teams made by their members alone, without a parent. The caller collects the members' sets of free slots by means of
 * its own, chooses a slot that is free on every member, and lets nobody use the team before all have made it. */
#include <stdint.h>

#include "base/status.h"
#include "ishmemx.h"
#include "node/enter.h"
#include "teams/team.h"

int ishmemx_team_free_slots(uint64_t *slots_p) {
    PYSH_ENTER();
    *slots_p = pysh_team_free_slots();
    return ISHMEMX_OK;
}

static int members_check(const int *pes, int n_pes) {
    int mine = 0;

    if (n_pes < 1 || n_pes > pysh.n_pes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "a team of %d members; the job has %d PEs", n_pes, pysh.n_pes);
    for (int i = 0; i < n_pes; i++) {
        int status = pysh_check_pe(pes[i], pysh.n_pes);
        if (status)
            return status;
        for (int k = 0; k < i; k++)
            if (pes[k] == pes[i])
                return pysh_fail(ISHMEMX_ERR_ARGUMENT, "PE %d is a member twice", pes[i]);
        mine += pes[i] == pysh.pe;
    }
    return mine ? ISHMEMX_OK : pysh_fail(ISHMEMX_ERR_ARGUMENT, "PE %d is not among the members", pysh.pe);
}

int ishmemx_team_begin(const int *pes, int n_pes, int slot, ishmemx_team_t *team_p) {
    int status;

    *team_p = NULL;
    PYSH_ENTER();
    if (slot < 0 || slot >= ISHMEMX_MAX_TEAMS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "slot %d; there are %d", slot, ISHMEMX_MAX_TEAMS);
    if ((status = members_check(pes, n_pes)))
        return status;
    status = pysh_team_make(pes, n_pes, slot, team_p);
    return status == PYSH_SLOT_TAKEN
               ? pysh_fail(
                     ISHMEMX_ERR_STATE,
                     "another thread, or a signal's handler of this one, has made a team meanwhile; one at a time")
               : status;
}

int ishmemx_team_withdraw(ishmemx_team_t team) {
    PYSH_ENTER();
    if (team)
        pysh_team_drop(team);
    return ISHMEMX_OK;
}
