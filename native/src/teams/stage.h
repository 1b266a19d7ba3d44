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
/* The sync that makes it readable, to each where it is (see gather.h for all), and turns to the other half, whatever
 * `status` the caller has, which wins. */
int pysh_stage_sync(ishmemx_team_t team, const char *what, int status);
