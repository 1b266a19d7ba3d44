/* SPDX-License-Identifier: BSD-3-Clause
 * Contexts: the team that PE numbers are of, and who may use them. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "ishmemx.h"
#include "node/enter.h"

struct ishmemx_ctx {
    ishmemx_team_t team; /* PE numbers on the context are this team's */
    bool guarded;        /* private or destroyed: pysh_ctx_guard() looks closer */
    bool dead;
    long options;
    pthread_t owner; /* of a private context */
    bool in_session;
    long session_options;
    ishmemx_session_config_t session;
    ishmemx_ctx_t next; /* in the list of live or of dead contexts */
};
/* OK, or why a guarded context cannot be used by the calling thread. */
int pysh_ctx_guard(ishmemx_ctx_t ctx);
void pysh_ctx_drop_team(ishmemx_team_t team); /* its contexts; NULL: all */

/* Instead of it where an invalid context means that there is nothing to do. */
#define PYSH_ENTER_CTX(_ctx)                      \
    do {                                          \
        int guard_ = pysh_enter();                \
        if (!guard_ && (_ctx) && (_ctx)->guarded) \
            guard_ = pysh_ctx_guard(_ctx);        \
        if (guard_ || !(_ctx))                    \
            return guard_;                        \
    } while (0)
