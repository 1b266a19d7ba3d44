/* SPDX-License-Identifier: BSD-3-Clause
 * Barrier of all PEs, sync of a team, and the freeing of released blocks that goes with them. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"
#include "ishmemx.h"
#include "memory/release.h"
#include "node/enter.h"
#include "teams/cells.h"
#include "teams/sync.h"
#include "teams/team.h"
#include "transport/quiet.h"

/* A barrier, then the freeing of blocks that all have released; the latter goes on by itself where it was. */
static int barrier_and_drain(const char *what) {
    int status;

    if (!pysh_passed(&ishmemx_team_world, &status, NULL, 0)) {
        status = pysh_pass(&ishmemx_team_world, pysh_heap_barrier(what), NULL, 0);
        if (!status)
            pysh_cells_synced(&ishmemx_team_world);
    }
    return status ? status : pysh_heap_drain_if_pending();
}

int ishmemx_barrier_all(void) {
    int status;

    PYSH_ENTER();
    status = pysh_quiet();
    if (!status)
        status = pysh_team_claim(&ishmemx_team_world, "barrier_all", 0);
    if (status)
        return status;
    status = barrier_and_drain("barrier_all");
    pysh_team_unclaim(&ishmemx_team_world, status);
    return status;
}

int ishmemx_team_sync(ishmemx_team_t team) {
    int status;

    PYSH_ENTER();
    if ((status = pysh_team_check(team)) || (status = pysh_team_claim(team, "team_sync", 0)))
        return status;
    atomic_thread_fence(memory_order_seq_cst);
    status = pysh_team_sync(team, "team_sync");
    pysh_team_unclaim(team, status);
    return status;
}

/* Teams that all their members have dropped. */
static int sweep_teams(void) {
    uint64_t mine = pysh_team_dropped_slots(), *all = malloc((size_t)pysh.n_pes * sizeof *all);
    int status = all ? pysh.agree->exchange("drain", &mine, all, sizeof mine)
                     : pysh_fail(ISHMEMX_ERR_MEMORY, "drain: no memory to hear %d PEs", pysh.n_pes);

    if (!status)
        pysh_teams_sweep(NULL, pysh.n_pes, all, sizeof *all);
    free(all);
    return status;
}

int ishmemx_drain(void) {
    int status;

    PYSH_ENTER();
    if ((status = pysh_team_claim(&ishmemx_team_world, "drain", 0)))
        return status;
    status = barrier_and_drain("drain");
    if (!status)
        status = sweep_teams();
    pysh_team_unclaim(&ishmemx_team_world, status);
    return status;
}
