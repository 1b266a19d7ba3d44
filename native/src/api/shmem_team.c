/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: teams and contexts. What has an int result returns non-zero on failure; the others
 * do nothing for an invalid handle, as the specification has it. */
#include "api/shell.h"
#include "ishmemx.h"

ROUTINE(int, team_my_pe, shmem_team_t team) {
    return ishmemx_team_my_pe(team);
}

ROUTINE(int, team_n_pes, shmem_team_t team) {
    return ishmemx_team_n_pes(team);
}

ROUTINE(int, team_get_config, shmem_team_t team, long config_mask, shmem_team_config_t *config) {
    return ishmemx_team_get_config(team, config_mask, config);
}

ROUTINE(int, team_translate_pe, shmem_team_t src_team, int src_pe, shmem_team_t dest_team) {
    return ishmemx_team_translate_pe(src_team, src_pe, dest_team);
}

ROUTINE(int, team_split_strided, shmem_team_t parent, int start, int stride, int size,
        const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team) {
    return ishmemx_team_split_strided(parent, start, stride, size, config, config_mask, new_team);
}

ROUTINE(int, team_split_2d, shmem_team_t parent, int xrange, const shmem_team_config_t *xaxis_config, long xaxis_mask,
        shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask, shmem_team_t *yaxis_team) {
    return ishmemx_team_split_2d(parent, xrange, xaxis_config, xaxis_mask, xaxis_team, yaxis_config, yaxis_mask,
                                 yaxis_team);
}

ROUTINE(void, team_destroy, shmem_team_t team) {
    SHELL(ishmemx_team_destroy(team));
}

/* NULL is an answer, not a failure. */
ROUTINE(void *, team_ptr, shmem_team_t team, const void *dest, int pe) {
    void *peer = NULL;

    return ishmemx_team_ptr(team, dest, pe, &peer) ? NULL : peer;
}

ROUTINE(int, ctx_create, long options, shmem_ctx_t *ctx) {
    return ishmemx_ctx_create(SHMEM_TEAM_WORLD, options, ctx);
}

ROUTINE(int, team_create_ctx, shmem_team_t team, long options, shmem_ctx_t *ctx) {
    return ishmemx_ctx_create(team, options, ctx);
}

ROUTINE(void, ctx_destroy, shmem_ctx_t ctx) {
    SHELL(ishmemx_ctx_destroy(ctx));
}

ROUTINE(int, ctx_get_team, shmem_ctx_t ctx, shmem_team_t *team) {
    return ishmemx_ctx_get_team(ctx, team);
}

ROUTINE(void, ctx_session_start, shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config,
        long config_mask) {
    SHELL(ishmemx_session_start(ctx, options, config, config_mask));
}

ROUTINE(void, ctx_session_stop, shmem_ctx_t ctx) {
    SHELL(ishmemx_session_stop(ctx));
}
