/* SPDX-License-Identifier: BSD-3-Clause
 * Contexts. Every operation of every context is completed by the same quiet; what a context adds is the
 * team that its PE numbers are of, and the check that a private one stays in its thread. */
#include "teams/ctx.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/status.h"
#include "ishmemx.h"
#include "node/enter.h"
#include "teams/team.h"
#include "transport/quiet.h"

#define KEPT_HANDLES 256 /* destroyed contexts whose handles are still told from live ones */
#define ALL_OPTIONS  (long)(ISHMEMX_CTX_PRIVATE | ISHMEMX_CTX_SERIALIZED | ISHMEMX_CTX_NOSTORE)

struct ishmemx_ctx ishmemx_ctx_default = {.team = &ishmemx_team_world};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for what follows */
static ishmemx_ctx_t live, oldest_dead, newest_dead;
static int n_dead;

int pysh_ctx_guard(ishmemx_ctx_t ctx) {
    if (ctx->dead)
        return pysh_fail(ISHMEMX_ERR_STATE, "the context was destroyed, or its team was");
    if (ctx->options & ISHMEMX_CTX_PRIVATE && !pthread_equal(ctx->owner, pthread_self()))
        return pysh_fail(ISHMEMX_ERR_STATE, "the context is private to the thread that created it; create it without "
                                            "CTX_PRIVATE to use it in others");
    return ISHMEMX_OK;
}

/* With the mutex held. */
static void bury(ishmemx_ctx_t ctx) {
    *ctx = (struct ishmemx_ctx){.guarded = true, .dead = true};
    if (n_dead++ == 0)
        oldest_dead = ctx;
    else
        newest_dead->next = ctx;
    newest_dead = ctx;
}

static ishmemx_ctx_t ctx_take(void) {
    ishmemx_ctx_t ctx = oldest_dead;

    if (n_dead < KEPT_HANDLES)
        return calloc(1, sizeof *ctx);
    oldest_dead = ctx->next;
    n_dead--;
    return ctx;
}

/* Buries the contexts that belong to `team` (NULL: to any) and are `ctx` (NULL: whichever). */
static void ctx_drop(ishmemx_team_t team, ishmemx_ctx_t ctx) {
    pthread_mutex_lock(&mutex);
    for (ishmemx_ctx_t *at = &live, one; (one = *at);) {
        if ((team && one->team != team) || (ctx && one != ctx)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        bury(one);
    }
    pthread_mutex_unlock(&mutex);
}

void pysh_ctx_drop_team(ishmemx_team_t team) {
    ctx_drop(team, NULL);
}

int ishmemx_ctx_create(ishmemx_team_t team, long options, ishmemx_ctx_t *ctx_p) {
    ishmemx_ctx_t ctx;
    int status;

    *ctx_p = NULL;
    PYSH_ENTER();
    if ((status = pysh_team_check(team)))
        return status;
    if (options & ~ALL_OPTIONS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "the context options are %ld; they are made of CTX_PRIVATE (%d), "
                         "CTX_SERIALIZED (%d) and CTX_NOSTORE (%d)",
                         options, ISHMEMX_CTX_PRIVATE, ISHMEMX_CTX_SERIALIZED, ISHMEMX_CTX_NOSTORE);
    pthread_mutex_lock(&mutex);
    if (atomic_load(&team->ended)) { /* by another thread; its contexts have been looked for already */
        pthread_mutex_unlock(&mutex);
        return pysh_fail(ISHMEMX_ERR_STATE, "the team was destroyed");
    }
    if ((ctx = ctx_take())) {
        *ctx = (struct ishmemx_ctx){.team = team,
                                    .guarded = options & ISHMEMX_CTX_PRIVATE,
                                    .options = options,
                                    .owner = pthread_self(),
                                    .next = live};
        live = ctx;
    }
    pthread_mutex_unlock(&mutex);
    *ctx_p = ctx;
    return ctx ? ISHMEMX_OK : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a context");
}

int ishmemx_ctx_destroy(ishmemx_ctx_t ctx) {
    int status;

    PYSH_ENTER();
    if (!ctx)
        return ISHMEMX_OK;
    if (ctx == &ishmemx_ctx_default)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the default context cannot be destroyed");
    if ((status = pysh_ctx_guard(ctx)))
        return status;
    status = pysh_quiet();
    ctx_drop(NULL, ctx);
    return status;
}

int ishmemx_ctx_drop(ishmemx_ctx_t ctx) {
    if (pysh.ready && ctx && ctx != &ishmemx_ctx_default && !ctx->dead)
        ctx_drop(NULL, ctx);
    return ISHMEMX_OK;
}

int ishmemx_ctx_get_team(ishmemx_ctx_t ctx, ishmemx_team_t *team_p) {
    *team_p = NULL;
    PYSH_ENTER();
    if (!ctx)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "the context was destroyed, by itself or with its team (SHMEM_CTX_INVALID)");
    if (ctx->dead)
        return pysh_ctx_guard(ctx);
    *team_p = ctx->team;
    return ISHMEMX_OK;
}

/* ---- sessions: hints that a host of shared memory has no use for; kept, so that they are checked ---- */

int ishmemx_session_start(ishmemx_ctx_t ctx, long options, const ishmemx_session_config_t *config, long mask) {
    PYSH_ENTER_CTX(ctx);
    if (options & ~(long)(ISHMEMX_SESSION_BATCH | ISHMEMX_SESSION_SAME_AMO))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "the session options are %ld, not of CTX_SESSION_BATCH (%d) and CTX_SESSION_SAME_AMO (%d)",
                         options, ISHMEMX_SESSION_BATCH, ISHMEMX_SESSION_SAME_AMO);
    if (mask & ~(long)ISHMEMX_SESSION_TOTAL_OPS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the session mask is %ld; its only bit is CTX_SESSION_TOTAL_OPS (%d)",
                         mask, ISHMEMX_SESSION_TOTAL_OPS);
    if (mask && !config)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "a session mask without a configuration");
    if (!ctx->in_session)
        ctx->session = (ishmemx_session_config_t){.total_ops = SIZE_MAX};
    ctx->session_options = (ctx->in_session ? ctx->session_options : 0) | options;
    if (mask)
        ctx->session.total_ops = config->total_ops;
    ctx->in_session = true;
    return ISHMEMX_OK;
}

int ishmemx_session_stop(ishmemx_ctx_t ctx) {
    PYSH_ENTER_CTX(ctx);
    ctx->in_session = false;
    return ISHMEMX_OK;
}
