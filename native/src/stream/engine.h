/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives on a stream by copy engines, for teams that loads and stores reach; arguments have been checked.
 * UNPREPARED, before anything is on the stream, where the kernel of a meeting (TEAM_SYNC) is not loaded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ishmemx.h"

int pysh_engine_broadcast(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root, void *stream);
/* fcollect; `own_blocks`: alltoall, whose source has a block for each member. */
int pysh_engine_blocks(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, bool own_blocks,
                       void *stream);
