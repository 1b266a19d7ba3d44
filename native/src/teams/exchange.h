/* SPDX-License-Identifier: BSD-3-Clause
 * A team's room for what members of one node get from those of others, behind the tables: on each member's host arena,
 * written by its owner alone, of no use to a team on one node, and then never touched. */
#pragma once

#include <stdint.h>

enum {
    /* What is gathered, in two halves used in turn: see gather.c. */
    PYSH_GATHER_BYTES = 64 * 1024,
    /* Pieces that go from node to node in the team's order, and results that come back, each in two halves: see
     * collectives/chain.c. */
    PYSH_CHUNK_BYTES = 32 * 1024,
    PYSH_CHUNKS_AT = 2 * PYSH_GATHER_BYTES
};
#define PYSH_EXCHANGE_AREA_BYTES (PYSH_CHUNKS_AT + 4LL * PYSH_CHUNK_BYTES)
