/* SPDX-License-Identifier: BSD-3-Clause
 * The stage of a team, for small messages, and places: one name for the same bytes of every PE. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"

/* A place on a symmetric heap; the same on every PE. */
typedef struct pysh_place {
    int heap;
    int64_t offset;
} pysh_place_t;
/* Makes nbytes at `place` of world PE `pe` readable: *data_p points there, or to `buffer`, a copy. */
int pysh_place_read(pysh_place_t place, size_t nbytes, int pe, void *buffer, const void **data_p);
int pysh_place_write(pysh_place_t place, const void *data, size_t nbytes, int pe);
/* The half of the stage that is in use. Are nbytes few enough for it? */
pysh_place_t pysh_stage(ishmemx_team_t team);
bool pysh_stage_fits(size_t nbytes);
/* To the own stage, and what is on `pe`'s, from and to anywhere in this process. */
int pysh_stage_write(pysh_place_t stage, const void *source, size_t nbytes);
int pysh_stage_read(pysh_place_t stage, void *dest, size_t nbytes, int pe);
/* The sync that makes it readable and turns to the other half, whatever `status` the caller has, which wins. */
int pysh_stage_sync(ishmemx_team_t team, const char *what, int status);

/* The same sync where each member wants the first nbytes of all members' stages. In a team on several nodes they come
 * to each node once, unless they are too many for that: then each member reads those of all. */
typedef struct pysh_shared {
    ishmemx_team_t team;
    pysh_place_t place;
    size_t step; /* from block to block on the own node's head; 0: on each member's stage */
} pysh_shared_t;
int pysh_stage_share(ishmemx_team_t team, const char *what, size_t nbytes, int status, pysh_shared_t *shared);
bool pysh_stage_gathers(ishmemx_team_t team, size_t nbytes);
/* Where the block of a member is, and on which world PE. */
pysh_place_t pysh_shared_place(const pysh_shared_t *shared, int member, int *pe_p);
int pysh_shared_read(const pysh_shared_t *shared, int member, void *dest, size_t nbytes);
/* A sync in which every member learns all members' nbytes <= PYSH_STAGE_BYTES, in the order of the team. */
int pysh_team_gather(ishmemx_team_t team, const char *what, const void *mine, void *all, size_t nbytes);
