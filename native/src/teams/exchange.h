/* SPDX-License-Identifier: BSD-3-Clause
 * A team's room for what members of one node get from those of others, behind the tables: on each member's host arena,
 * written by its owner alone, of no use to a team on one node, and then never touched. */
#pragma once

#include <stdint.h>

#include "node/node.h"

/* What is gathered, in two halves used in turn: see gather.c. Behind them pieces that go from node to node in the
 * team's order, and results that come back, each in two halves: see collectives/chain.c. Those of all PEs are larger.
 */
enum { PYSH_GATHER_BYTES = 64 * 1024, PYSH_CHUNKS_AT = 2 * PYSH_GATHER_BYTES, PYSH_CHUNK_BYTES = 32 * 1024 };

static inline int64_t pysh_chunk_nbytes(int slot) {
    return slot == PYSH_WORLD_SLOT ? 8 * PYSH_CHUNK_BYTES : PYSH_CHUNK_BYTES;
}

/* From the first slot's to that of one, or to the end of all. */
static inline int64_t pysh_exchange_at(int slot) {
    return slot * (PYSH_CHUNKS_AT + 4LL * PYSH_CHUNK_BYTES) +
           (slot > PYSH_WORLD_SLOT ? 4 * (pysh_chunk_nbytes(PYSH_WORLD_SLOT) - PYSH_CHUNK_BYTES) : 0);
}
