/* SPDX-License-Identifier: BSD-3-Clause
 * Part of ishmemx.h: teams and contexts. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ishmemx_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- teams ----------------------------------------------------------------------------------- */

typedef struct ishmemx_ctx *ishmemx_ctx_t;
typedef struct ishmemx_team *ishmemx_team_t; /* NULL: no team */
extern ISHMEMX_API struct ishmemx_ctx ishmemx_ctx_default;
/* All PEs; those whose symmetric heaps the caller can load and store; those on the caller's host. */
extern ISHMEMX_API struct ishmemx_team ishmemx_team_world;
extern ISHMEMX_API struct ishmemx_team ishmemx_team_shared;
extern ISHMEMX_API struct ishmemx_team ishmemx_team_node;

typedef struct ishmemx_team_config {
    int num_contexts; /* a hint */
} ishmemx_team_config_t;
enum { ISHMEMX_TEAM_NUM_CONTEXTS = 1 }; /* mask: config->num_contexts means something */

/* The four answer -1 for what is no team, or no PE of it; not statuses. */
ISHMEMX_API int ishmemx_team_my_pe(ishmemx_team_t team);
ISHMEMX_API int ishmemx_team_n_pes(ishmemx_team_t team);
ISHMEMX_API int ishmemx_team_translate_pe(ishmemx_team_t source, int pe, ishmemx_team_t dest);
ISHMEMX_API int ishmemx_team_world_pe(ishmemx_team_t team, int pe);
/* Mask 0 does nothing, and config may then be NULL. */
ISHMEMX_API int ishmemx_team_get_config(ishmemx_team_t team, long mask, ishmemx_team_config_t *config);

/* Collective over the parent: all its PEs call it, with equal arguments, and all get the same status.
 * *team_p is NULL on a PE that is in no new team, and after a failure; config NULL: the default. A
 * team's PEs keep the order in which they are named. */
ISHMEMX_API int ishmemx_team_split_strided(ishmemx_team_t parent, int start, int stride, int size,
                                           const ishmemx_team_config_t *config, long mask, ishmemx_team_t *team_p);
ISHMEMX_API int ishmemx_team_split_2d(ishmemx_team_t parent, int xrange, const ishmemx_team_config_t *xconfig,
                                      long xmask, ishmemx_team_t *xteam_p, const ishmemx_team_config_t *yconfig,
                                      long ymask, ishmemx_team_t *yteam_p);
/* The n_pes PEs `pes` of the parent, in that order. */
ISHMEMX_API int ishmemx_team_split_list(ishmemx_team_t parent, const int *pes, int n_pes,
                                        const ishmemx_team_config_t *config, long mask, ishmemx_team_t *team_p);
/* A team of each colour, ordered by key, then by number in the parent; a negative colour: no team. */
ISHMEMX_API int ishmemx_team_split_color(ishmemx_team_t parent, int color, int key, const ishmemx_team_config_t *config,
                                         long mask, ishmemx_team_t *team_p);
/* A team of members who have no parent to talk over, in three steps: they bring their free slots together (a bit each),
 * all begin the team in a slot that is free at all, and, once each knows that all have, it is a team like others; where
 * one has failed the others withdraw. Between the steps they talk by means of their own. */
ISHMEMX_API int ishmemx_team_free_slots(uint64_t *slots_p);
ISHMEMX_API int ishmemx_team_begin(const int *pes, int n_pes, int slot, ishmemx_team_t *team_p);
ISHMEMX_API int ishmemx_team_withdraw(ishmemx_team_t team);
/* By all PEs of the team; with its contexts. NULL is allowed. A predefined team cannot be destroyed. */
ISHMEMX_API int ishmemx_team_destroy(ishmemx_team_t team);
/* Tells the others that this PE takes part in no more collectives of the team: theirs that would wait for it fail, and
 * its own too. Waits for nobody, and may be called beside a collective of another thread. The team stays taken until it
 * is destroyed, or the job ends. */
ISHMEMX_API int ishmemx_team_leave(ishmemx_team_t team);
/* Nobody on this PE names the team any more. Once all its members have said so it is destroyed, by the next call that
 * splits a team with all of them in it, or by drain. Local, and moves no data. */
ISHMEMX_API int ishmemx_team_release(ishmemx_team_t team);
/* ishmemx_ptr with a PE of the team. */
ISHMEMX_API int ishmemx_team_ptr(ishmemx_team_t team, const void *address, int pe, void **peer_p);

/* ---- contexts: PE numbers on a context are those of its team --------------------------------- */

enum { ISHMEMX_CTX_PRIVATE = 1, ISHMEMX_CTX_SERIALIZED = 2, ISHMEMX_CTX_NOSTORE = 4 };

/* On failure *ctx_p is NULL. A private context works only in the thread that created it. */
ISHMEMX_API int ishmemx_ctx_create(ishmemx_team_t team, long options, ishmemx_ctx_t *ctx_p);
ISHMEMX_API int ishmemx_ctx_destroy(ishmemx_ctx_t ctx); /* quiet first; NULL is allowed */
/* Destroys a context that nobody names any more, without completing its operations; from any thread. */
ISHMEMX_API int ishmemx_ctx_drop(ishmemx_ctx_t ctx);
ISHMEMX_API int ishmemx_ctx_get_team(ishmemx_ctx_t ctx, ishmemx_team_t *team_p);

typedef struct ishmemx_session_config {
    size_t total_ops; /* a hint; SIZE_MAX: unknown */
} ishmemx_session_config_t;
enum { ISHMEMX_SESSION_BATCH = 1, ISHMEMX_SESSION_SAME_AMO = 2 }; /* options */
enum { ISHMEMX_SESSION_TOTAL_OPS = 1 };                           /* mask */
/* Hints. Starting again adds options and replaces what the mask names; stopping twice is harmless. */
ISHMEMX_API int ishmemx_session_start(ishmemx_ctx_t ctx, long options, const ishmemx_session_config_t *config,
                                      long mask);
ISHMEMX_API int ishmemx_session_stop(ishmemx_ctx_t ctx);

#ifdef __cplusplus
}
#endif
