/* SPDX-License-Identifier: BSD-3-Clause
 * How members of a team meet: by flags that they raise at each other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ishmemx.h"
#include "node/wait.h"

/* Stores `value` in this PE's word of the row of flags at `offset` of the member's host heap, releasing what this PE
 * stored before, and wakes it. */
void pysh_flag_raise(ishmemx_team_t team, int64_t offset, int member, uint64_t value);

/* A stretch of a collective in which members tell each other how far they are. All members pass through the same
 * numbers, though not all tell anyone of each; a call that failed or was interrupted has passed none. */
typedef struct pysh_steps {
    ishmemx_team_t team;
    const char *what; /* the routine */
    uint64_t number;
} pysh_steps_t;
/* At the first number behind the team's last; and past the last one. The caller has claimed the team. */
pysh_steps_t pysh_steps_begin(ishmemx_team_t team, const char *what);
void pysh_steps_end(const pysh_steps_t *steps);
/* Tells a member that this PE is at the number, with all that it stored before; what it put by the transport wants a
 * quiet first. */
void pysh_tell(const pysh_steps_t *steps, int member);
/* Until a member has told so. */
int pysh_hear(const pysh_steps_t *steps, int member);
/* A wait for members of the team: reports say which team it is. NULL: of any team. */
void pysh_team_wait_for_members(ishmemx_team_t team, const char *what, pysh_wait_t *wait);
/* The same in a collective, which may meet members' kernels. */
void pysh_team_wait_begin(ishmemx_team_t team, const char *what, pysh_wait_t *wait);
/* Until all of n members have come; this PE is the one with index `mine`. */
int pysh_sync_members(const pysh_steps_t *steps, const int *members, int n, int mine);
/* The members on the caller's node. */
int pysh_sync_node(const pysh_steps_t *steps);

/* Until all members have come. The caller has claimed the team. */
int pysh_team_sync(ishmemx_team_t team, const char *what);

/* Leaving a team is no arrival: it completes no collective of another member, but ends those that would have waited
 * for this PE with MISMATCH. Tells all members, once, and waits for nobody. */
void pysh_team_tell_leaving(ishmemx_team_t team);
/* Tells them, and waits until all are leaving. */
int pysh_team_leave(ishmemx_team_t team, const char *what);
/* This PE leaves all its teams: who waits for it there need wait no longer. */
void pysh_teams_leave(void);
/* A member that has told that it leaves, or -1. What it stored for the team before, and what it had seen of others, is
 * visible then. And the failure of a call that would wait for it. */
int pysh_team_find_left(const struct ishmemx_team *team);
int pysh_member_tell_left(const struct ishmemx_team *team, const char *what, int member);
/* OK, or MISMATCH when a member has left that has not made so many requests. */
int pysh_team_left_before_request(ishmemx_team_t team, const char *what, uint64_t number);
