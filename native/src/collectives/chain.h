/* SPDX-License-Identifier: BSD-3-Clause
 * Reductions and scans of many bytes in a team on several nodes: what is combined goes from node to node. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"
#include "teams/stage.h"

typedef struct pysh_chain {
    ishmemx_team_t team;
    const char *what;
    int op, type; /* of the reduction */
    size_t n;     /* elements of a source, over all of which the chain goes */
    pysh_place_t dest, source;
    enum { PYSH_CHAIN_REDUCE, PYSH_CHAIN_SCATTER, PYSH_CHAIN_INSCAN, PYSH_CHAIN_EXSCAN } kind;
} pysh_chain_t;

/* Is it the way for n elements of `width` bytes? The same answer on all members. */
bool pysh_chain_serves(ishmemx_team_t team, size_t n, size_t width);
/* Dest has the result, and the caller's source is read no more, on return. */
int pysh_chain_run(const pysh_chain_t *chain);
