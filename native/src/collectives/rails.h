/* SPDX-License-Identifier: BSD-3-Clause
 * Many bytes to all members of a team on several nodes: each node gets them once. */
#pragma once

#include <stddef.h>

#include "ishmemx.h"
#include "teams/stage.h"

/* What members give, one behind the other in `dest`, whose place is the same on all. */
typedef struct pysh_parts {
    const size_t *at;            /* [n_pes + 1] where they begin in dest */
    const pysh_place_t *sources; /* [n_pes] */
} pysh_parts_t;
/* On return the members have met: no dest is read any more, nor source. */
int pysh_rails_collect(ishmemx_team_t team, const char *what, char *dest, const pysh_parts_t *parts);
int pysh_rails_broadcast(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root);
