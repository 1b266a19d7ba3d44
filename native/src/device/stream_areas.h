/* SPDX-License-Identifier: BSD-3-Clause
 * What collectives on streams have for themselves in each slot of a team: see pyshmem/stream_kernels/. */
#pragma once

#include <stdint.h>

#define PYSH_STREAM_MAX_BLOCKS 128 /* of a collective's grid, each with a row of flags */

/* The arguments of their kernels: addresses on this PE, bytes. Call numbers are of the own PE, the rest is symmetric.
 */
typedef struct pysh_stream_area {
    int64_t calls; /* the number of calls so far, and which blocks of this one have ended */
    int64_t flags; /* of each block a row: a u64 a member, rising, padded to 64 bytes */
    int64_t units; /* two halves of a slot for each other member, for data with flags in it */
    int64_t slot;  /* bytes of such a slot; 0: too many members for any */
} pysh_stream_area_t;

int64_t pysh_stream_areas_nbytes(int n_pes);                  /* in the arena that kernels and peers reach */
void pysh_stream_areas_open(char *symmetric, char *calls);    /* both zero; `calls` has a word a slot */
int pysh_stream_area_clear(int slot);                         /* before another team has it */
pysh_stream_area_t pysh_stream_area(int slot, int n_members); /* with P2P */
