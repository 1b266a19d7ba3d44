/* SPDX-License-Identifier: BSD-3-Clause
 * Teams: who is in them, and how any of them synchronises. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/state.h"
#include "teams/resume.h"
#include "teams/team_nodes.h"

#define PYSH_STAGE_BYTES        8192 /* a half of a team's stage, for small collectives: see stage.h */
#define PYSH_REQUEST_SLOTS      8    /* of a team, for non-blocking collectives: see collectives/request.h */
#define PYSH_ANNOUNCEMENT_BYTES (2 * PYSH_CACHE_LINE) /* at the head of each, before a row of flags */

struct ishmemx_team {
    int n_pes, my_pe;
    int *pes; /* world PE of each member */
    pysh_team_nodes_t nodes;
    int slot;             /* in the tables of the host arena's system region; -1: destroyed */
    int64_t flags;        /* offset there of the flags that members raise at the owner of the arena, a u64 a member */
    int64_t stage;        /* offset there of the stage */
    uint64_t epoch;       /* syncs by flags so far */
    int64_t exchange;     /* offset there of what nodes exchange: exchange.h */
    unsigned gathered;    /* collectives that gathered so far: its half alternates */
    int64_t chain_step;   /* of a call that was interrupted, to go on with; else 0: collectives/chain.c */
    int64_t requests;     /* offset there of the slots of requests: request.h */
    uint64_t requested;   /* requests so far */
    int64_t flags_nbytes; /* of one row of flags: one a PE of the job, and one that says that somebody has left */
    unsigned staged;      /* collectives through the stage so far: its half alternates */
    int64_t cells;        /* offset there of the ring of cells: cells.h */
    /* Calls by cells: so far; which one this PE gave last; up to which all members have read what they wanted. */
    uint64_t celled, cell_given, cells_met;
    uint16_t roots;          /* a digest of the broadcasts by cells so far: all members' is the same */
    pysh_resume_t resume;    /* how far the call has come that is under way */
    unsigned compared;       /* calls whose arguments have been compared: see collectives/collective.h */
    _Atomic bool leaving;    /* this PE has told the others that it leaves: it can only go on with that */
    _Atomic uintptr_t busy;  /* the thread that has claimed it, by pthread_self(); 0: none */
    const char *claimed_for; /* by whoever has claimed it */
    ishmemx_team_t claimed_before;
    _Atomic bool dropped;      /* nobody on this PE names it */
    _Atomic bool ended;        /* it is off the list, and contexts can be made of it no more */
    _Atomic int n_outstanding; /* requests */
    ishmemx_team_config_t config;
    ishmemx_team_t next; /* in the list of live or of dead teams */
};

int64_t pysh_team_tables_nbytes(int n_pes); /* behind PYSH_SYSTEM_BYTES of the host arena */
int pysh_teams_setup(void);                 /* the predefined teams; the heaps are open */
void pysh_teams_teardown(void);
/* OK, or why the team cannot take part in a collective. */
int pysh_team_check(ishmemx_team_t team);
#define PYSH_SLOT_TAKEN (-1) /* another thread of this PE took the slot after it had been told as free: look again */
/* A team of n_pes members, of which world PE pes[i] is member i; the slot is free on all of them. */
int pysh_team_make(const int *pes, int n_pes, int slot, ishmemx_team_t *team_p);
/* Ends a team; of several threads that do, one. It waits until nobody uses it by pysh_team_use(). */
void pysh_team_drop(ishmemx_team_t team);
/* Ends all teams, of those that the program made, for which `holds`: each is found and taken off the list under one
 * hold of its lock. */
void pysh_teams_drop(bool (*holds)(ishmemx_team_t team, void *argument), void *argument);
/* Does it hold for one of them? Asked with the list locked, of one after the other until it does. There is no function
 * that finds a team and lets it go: it could end before the caller has used it. */
bool pysh_teams_any(bool (*holds)(ishmemx_team_t team, void *argument), void *argument);
/* The team that has a slot, NULL: none. It stays until pysh_team_unuse(), which follows whatever was returned. No
 * lock is taken, so a proxy may ask. */
ishmemx_team_t pysh_team_use(int slot);
void pysh_team_unuse(int slot);
uint64_t pysh_team_free_slots(void); /* a bit a slot */
/* The slots of teams that this PE has dropped, and that have no request outstanding. */
uint64_t pysh_team_dropped_slots(void);
/* After `n_pes` PEs, world PE pes[i] (NULL: i), told theirs, `stride` bytes apart: destroys the teams that all members
 * have dropped. Nobody is in a call of such a team any more, and each member comes to the same result. */
void pysh_teams_sweep(const int *pes, int n_pes, const void *dropped_slots, size_t stride);
/* Is a thread in a collective of any team? */
bool pysh_teams_busy(void);

/* Bytes of one slot of requests. */
int64_t pysh_team_request_nbytes(ishmemx_team_t team);
/* Who tells this PE's kernels of a team that has been made, or (NULL) that the slot is free. NULL: nobody need. */
void pysh_team_set_kernels(int (*changed)(const struct ishmemx_team *team, int slot));
/* Who completes the requests of a team that is to be destroyed. NULL: there have been none. */
void pysh_team_set_requests(int (*complete)(ishmemx_team_t team, const char *what));
int pysh_team_complete_requests(ishmemx_team_t team, const char *what);
