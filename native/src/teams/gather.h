/* SPDX-License-Identifier: BSD-3-Clause
 * What all members of a team staged, for each of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ishmemx.h"
#include "teams/cells.h"
#include "teams/stage.h"

/* pysh_stage_sync() where each member wants the first nbytes of all members' stages. In a team on several nodes they
 * come to each node once, unless they are too many for that: then each member reads those of all. */
typedef struct pysh_shared {
    ishmemx_team_t team;
    pysh_place_t place;
    size_t step; /* from block to block on the own node's head; 0: on each member's stage */
} pysh_shared_t;
int pysh_stage_share(ishmemx_team_t team, const char *what, size_t nbytes, int status, pysh_shared_t *shared);
/* The same of a call on which members agree by cells: MISMATCH where they do not. call->source is not looked at. */
int pysh_stage_share_told(ishmemx_team_t team, const pysh_celled_t *call, int status, pysh_shared_t *shared);
/* The same of nbytes from `source` of each, which may be few enough for cells: cells.h. `about`: see there. */
int pysh_share(ishmemx_team_t team, const pysh_celled_t *call, pysh_shared_t *shared);
/* Are they few enough to come to each node once? Always, in a team on one. */
bool pysh_stage_gathers(ishmemx_team_t team, size_t nbytes);
/* Where the block of a member is, and on which world PE. */
pysh_place_t pysh_shared_place(const pysh_shared_t *shared, int member, int *pe_p);
int pysh_shared_read(const pysh_shared_t *shared, int member, void *dest, size_t nbytes);
/* A sync in which every member learns all members' nbytes <= PYSH_STAGE_BYTES, in the order of the team. */
int pysh_team_gather(ishmemx_team_t team, const char *what, const void *mine, void *all, size_t nbytes);
