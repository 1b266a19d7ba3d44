/* SPDX-License-Identifier: BSD-3-Clause
 * Barrier of all PEs, sync of a team, and the freeing of released blocks that goes with them. */
#include <stdatomic.h>

#include "ishmemx.h"
#include "job/enter.h"
#include "job/quiet.h"
#include "memory/release.h"
#include "teams/team.h"

int ishmemx_barrier_all(void) {
    int status;

    PYSH_ENTER();
    status = pysh_quiet();
    if (!status)
        status = pysh_team_claim(&ishmemx_team_world, "barrier_all");
    if (status)
        return status;
    status = pysh_heap_barrier("barrier_all");
    if (!status)
        status = pysh_heap_drain_if_pending();
    pysh_team_unclaim(&ishmemx_team_world);
    return status;
}

int ishmemx_team_sync(ishmemx_team_t team) {
    int status;

    PYSH_ENTER();
    if ((status = pysh_team_check(team)) || (status = pysh_team_claim(team, "team_sync")))
        return status;
    atomic_thread_fence(memory_order_seq_cst);
    status = pysh_team_sync(team, "team_sync");
    pysh_team_unclaim(team);
    return status;
}

int ishmemx_drain(void) {
    int status;

    PYSH_ENTER();
    if ((status = pysh_team_claim(&ishmemx_team_world, "drain")))
        return status;
    status = pysh_heap_barrier("drain");
    if (!status)
        status = pysh_heap_drain_if_pending();
    pysh_team_unclaim(&ishmemx_team_world);
    return status;
}
