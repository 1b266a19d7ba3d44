/* SPDX-License-Identifier: BSD-3-Clause
 * The cells of a team on one node: few bytes and the number of their call side by side, so that one look tells whether
 * they are there and has them. No sync is needed besides. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"
#include "teams/stage.h"

/* A ring of cells on the host arena of each member, which it alone writes. */
enum { PYSH_CELLS = 16, PYSH_CELL_BYTES = 512, PYSH_CELL_HEAD = 16 };

/* What members must agree on, as the collective has it: MISMATCH else. */
enum { PYSH_CELL_BROADCAST = 1, PYSH_CELL_FCOLLECT, PYSH_CELL_ALLTOALL, PYSH_CELL_REDUCE, PYSH_CELL_SCAN };
#define PYSH_CELL_MOST_BYTES UINT32_MAX /* that are told from fewer */
typedef struct pysh_celled {
    const char *what; /* the routine, to those who look */
    uint64_t about;   /* by pysh_cell_about() */
    const void *source;
    size_t nbytes;
} pysh_celled_t;
static inline uint64_t pysh_cell_about(int kind, int op, int number, size_t nbytes) {
    return (uint64_t)kind << 56 | (uint64_t)(op & 0xff) << 48 | (uint64_t)(number & 0xffff) << 32 |
           (nbytes < PYSH_CELL_MOST_BYTES ? nbytes : PYSH_CELL_MOST_BYTES);
}

/* Can the members of the team send each other so much by cells? All come to the same answer. */
bool pysh_cells_serve(ishmemx_team_t team, size_t nbytes);
/* Each member gives nbytes, and each has those of all on return, at *place_p of their arenas. */
int pysh_cells_share(ishmemx_team_t team, const pysh_celled_t *call, pysh_place_t *place_p);
/* The root gives nbytes, and goes on; the others return when they are there. */
int pysh_cells_spread(ishmemx_team_t team, const pysh_celled_t *call, int root, pysh_place_t *place_p);
/* All members have met after what they have read so far: what they wrote may be written over. */
void pysh_cells_synced(ishmemx_team_t team);
/* A call whose data goes another way, about which members can agree by a cell all the same: tells, before they meet;
 * and compares, behind that meeting, before this PE is in another. Both do nothing where cells do not serve. Such cells
 * are two lines more of each other member's to read, 25 ns: a hundredth of the calls of so many bytes. */
#define PYSH_CELL_TOLD_BYTES (256 << 10)
static inline bool pysh_cells_are_told(uint64_t about) {
    return (about & UINT32_MAX) >= PYSH_CELL_TOLD_BYTES;
}
void pysh_cells_tell(ishmemx_team_t team, uint64_t about);
int pysh_cells_compare(ishmemx_team_t team, const char *what, uint64_t about);
/* Of the members' `roots`, behind their last call: MISMATCH when one is another. */
int pysh_cells_compare_roots(ishmemx_team_t team, const char *what, const uint16_t *roots);
