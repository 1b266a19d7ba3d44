/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: barriers and syncs. */
#include "api/shell.h"
#include "ishmemx.h"

ROUTINE(void, barrier_all, void) {
    SHELL(ishmemx_barrier_all());
}

ROUTINE(void, sync_all, void) {
    SHELL(ishmemx_team_sync(SHMEM_TEAM_WORLD));
}

ROUTINE(int, team_sync, shmem_team_t team) {
    TELL(ishmemx_team_sync(team));
}
