/* SPDX-License-Identifier: BSD-3-Clause
 * What all collectives share: agreement of the members, beginning and end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"
#include "teams/stage.h"

typedef struct pysh_call { /* what the members of a collective must agree on */
    const char *routine;
    int op, type, root; /* -1 where the routine has none */
    size_t nbytes;
    const void *dest, *source; /* NULL: each member may take another; not looked at without bytes */
} pysh_call_t;
typedef struct pysh_record { /* a call, with what its PE thinks of its arguments, for the others to compare */
    char routine[24];
    int op, type, root, status;
    uint64_t nbytes;
    int64_t dest, source; /* where on their heaps, and on which; -1: anywhere */
    uint64_t turn;        /* where records are staged: which of the team's turns this is of; else 0 */
} pysh_record_t;
pysh_record_t pysh_record_of(const pysh_call_t *call, int status);
/* OK, or MISMATCH saying how this PE's call differs from that of world PE `pe`. */
int pysh_record_compare(const pysh_call_t *call, const pysh_record_t *mine, const pysh_record_t *other, int pe);
/* Claims the team, unless it is no team that can be; then turns `status`, what this PE thinks of its arguments, into
 * the answer for all: where arguments are compared every member fails with MISMATCH when one failed or they differ.
 * After OK, and only then, the caller unclaims the team when it is done. */
int pysh_coll_begin(ishmemx_team_t team, const pysh_call_t *call, int status);
/* Are the arguments of the team's call number `n`, from 0, compared? In checking mode all, else the first. */
bool pysh_coll_compares(unsigned n);
/* The first of two meetings, and its end: a sync, whatever `status` what is done between them has, which wins. What is
 * done between must be a step too, as the call may be ended in the second: resume.h. `about`, by pysh_cell_about():
 * what members must agree on; MISMATCH on all of them else, and then there is no end. */
int pysh_coll_start(ishmemx_team_t team, const char *what, uint64_t about);
int pysh_coll_end(ishmemx_team_t team, const char *what, int status);
/* Checks what every collective checks, then finds dest and source; 0 bytes are not looked for. */
int pysh_coll_check(ishmemx_team_t team, const void *dest, size_t dest_bytes, const void *source, size_t source_bytes,
                    pysh_place_t *dest_p, pysh_place_t *source_p);
/* As ishmemx_broadcast(), but the root's dest stays as it is. */
int pysh_broadcast_to_others(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root);
