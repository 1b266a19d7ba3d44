/* SPDX-License-Identifier: BSD-3-Clause
 * A collective of several meetings that a signal's handler or a deadline ends between them goes on where it was when
 * it is made again: the other members have passed the first meetings with this PE, and do not repeat them. Until then
 * the team is kept for that call, as any other would meet theirs in the wrong place.
 *
 * What a call has passed is a list of steps, in the order of the call. A routine asks before each whether it has been
 * passed, and then gets what came of it; else it does the step and notes that. So all of it is run again, but the
 * steps. A step is a meeting, or what cannot be done twice; behind the last meeting nothing is noted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYSH_RESUME_NAME 32

typedef struct pysh_resume { /* of a team; with the team claimed */
    const char *what;        /* the call that is under way, and a digest of its arguments */
    uint64_t about;
    bool told; /* others have been told, by a flag, that this PE has come */
    bool kept; /* a call was ended between its meetings: the next is that */
    char kept_what[PYSH_RESUME_NAME];
    uint64_t kept_about;
    char *steps; /* passed: a status, the bytes of its result, and of its text */
    size_t used, at, capacity;
    bool compared; /* the arguments, as the first step */
    bool lost;     /* there was no memory to note one */
} pysh_resume_t;

struct ishmemx_team;

/* Around what only one thread may do with a team at a time, which is every collective from the agreement to the
 * last sync: STATE when another is at it, or this one itself, and a signal's handler calls; or when this PE has to make
 * another call again. `about`: a digest of the arguments; 0: there are none. The same thread unclaims, with the status
 * of the call. */
int pysh_team_claim(struct ishmemx_team *team, const char *what, uint64_t about);
void pysh_team_unclaim(struct ishmemx_team *team, int status);
/* The collective that the calling thread is in; NULL: none. */
const char *pysh_team_inside(void);

/* True when the step was passed: its status and result again; a failure's text is the thread's error. */
bool pysh_passed(struct ishmemx_team *team, int *status_p, void *result, size_t nbytes);
/* The step has been done; returns its status. An unfinished one has not, and is not noted. */
int pysh_pass(struct ishmemx_team *team, int status, const void *result, size_t nbytes);
/* The last meeting is passed: whatever the call's status will be, it is not gone on with. */
void pysh_passed_all(struct ishmemx_team *team);

/* Adds a number to a digest. */
static inline uint64_t pysh_digest(uint64_t digest, uint64_t value) {
    return ((digest ^ value) + 0x9e3779b97f4a7c15U) * 1099511628211U;
}
