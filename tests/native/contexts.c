/* SPDX-License-Identifier: BSD-3-Clause
 * Contexts, sessions, pe_quiet and locks; with threads where they matter. */
#include <pthread.h>

#include "check.h"

static int me, n;

static void of_teams(void) {
    shmem_team_t team, told;
    shmem_ctx_t ctx, ctx2;
    int *cell = shmem_calloc(4, sizeof *cell), mine, size, all[64];

    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n, NULL, 0, &team));
    mine = shmem_team_my_pe(team);
    size = shmem_team_n_pes(team);
    CHECK(!shmem_team_create_ctx(team, SHMEM_CTX_SERIALIZED, &ctx));
    CHECK(!shmem_ctx_get_team(ctx, &told) && told == team);
    shmem_ctx_int_p(ctx, cell, mine + 1, (mine + 1) % size); /* numbers of the team */
    shmem_ctx_int_atomic_add(ctx, cell + 1, 5, (mine + 1) % size);
    shmem_ctx_fence(ctx);
    for (int i = 0; i < size; i++)
        all[i] = i;
    shmem_ctx_pe_quiet(ctx, all, (size_t)size);
    shmem_pe_quiet(NULL, 0);
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
    CHECK(cell[0] == (mine + size - 1) % size + 1 && cell[1] == 5);
    CHECK(shmem_ctx_int_g(ctx, cell, mine) == cell[0]);
    CHECK(ishmemx_put(ctx, cell, cell + 2, 4, size) == ISHMEMX_ERR_ARGUMENT);
    CHECK(ishmemx_pe_quiet(ctx, &size, 1) == ISHMEMX_ERR_ARGUMENT);
    shmem_ctx_destroy(ctx);
    CHECK(ishmemx_put(ctx, cell, cell + 2, 4, 0) == ISHMEMX_ERR_STATE);
    CHECK(!shmem_team_create_ctx(team, 0, &ctx2));
    shmem_team_destroy(team); /* with its contexts */
    CHECK(ishmemx_quiet(ctx2) == ISHMEMX_ERR_STATE);
    CHECK(shmem_team_create_ctx(team, 0, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
    CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
    CHECK(shmem_ctx_create(1024, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
    CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &told) != 0 && told == SHMEM_TEAM_INVALID);
    CHECK(!shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &told) && told == SHMEM_TEAM_WORLD);
    shmem_ctx_fence(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_barrier_all();
    shmem_free(cell);
}

static void sessions(void) {
    const shmem_ctx_session_config_t config = {.total_ops = 100};
    shmem_ctx_t ctx;

    CHECK(!shmem_ctx_create(SHMEM_CTX_NOSTORE, &ctx));
    shmem_ctx_session_start(ctx, 0, NULL, 0);
    shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH | SHMEM_CTX_SESSION_SAME_AMO, NULL, 0);
    shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
    shmem_ctx_session_stop(ctx);
    shmem_ctx_session_stop(ctx);
    shmem_ctx_session_stop(SHMEM_CTX_INVALID);
    CHECK(ishmemx_session_start(ctx, 4, NULL, 0) == ISHMEMX_ERR_ARGUMENT);
    CHECK(ishmemx_session_start(ctx, 0, NULL, SHMEM_CTX_SESSION_TOTAL_OPS) == ISHMEMX_ERR_ARGUMENT);
    shmem_ctx_destroy(ctx);
}

static void *use_private(void *ctx) {
    return (void *)(long)(ishmemx_quiet((shmem_ctx_t)ctx) == ISHMEMX_ERR_STATE &&
                          ishmemx_ctx_destroy((shmem_ctx_t)ctx) == ISHMEMX_ERR_STATE);
}

/* Whichever thread is refused lets the other PEs go on, so that the sync of the other thread ends. */
static void *sync_too(void *team) {
    long status = ishmemx_team_sync((shmem_team_t)team);

    if (status)
        shmem_barrier_all();
    return (void *)status;
}

static void threads(void) {
    pthread_t thread;
    shmem_team_t team;
    shmem_ctx_t ctx;
    void *result;

    CHECK(!shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx));
    pthread_create(&thread, NULL, use_private, ctx);
    pthread_join(thread, &result);
    CHECK(result != NULL);
    shmem_ctx_quiet(ctx);
    shmem_ctx_destroy(ctx);
    if (n < 2)
        return;
    /* Two threads of PE 0 are in a sync that the others enter only once one of them was refused. */
    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team));
    if (me == 0) {
        pthread_create(&thread, NULL, sync_too, team);
        long status = (long)sync_too(team);
        pthread_join(thread, &result);
        CHECK(status + (long)result == ISHMEMX_ERR_STATE);
    } else {
        shmem_barrier_all();
        shmem_team_sync(team);
    }
}

/* Only the holder touches the count, and it is not atomic. */
static void locks(void) {
    static long *lock, *count;

    lock = shmem_calloc(2, sizeof *lock);
    count = shmem_calloc(1, sizeof *count);
    for (int i = 0; i < 200; i++) {
        if (i % 4)
            shmem_set_lock(lock);
        else
            while (shmem_test_lock(lock))
                continue;
        shmem_long_p(count, shmem_long_g(count, 0) + 1, 0);
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(count, 0) == 200L * n);
    for (int pe = 0; pe < n; pe++)
        CHECK(shmem_long_g(lock, pe) == 0);
    CHECK(ishmemx_clear_lock(lock) == ISHMEMX_ERR_STATE);
    shmem_barrier_all();
    if (me == 0)
        shmem_set_lock(lock + 1);
    shmem_barrier_all();
    CHECK(shmem_test_lock(lock + 1) == 1);
    if (me)
        CHECK(ishmemx_clear_lock(lock + 1) == ISHMEMX_ERR_STATE); /* not by another PE */
    else
        CHECK(ishmemx_set_lock(lock + 1) == ISHMEMX_ERR_STATE); /* not twice */
    shmem_barrier_all();
    if (me == 0)
        shmem_clear_lock(lock + 1);
    shmem_barrier_all();
    shmem_free(count);
    shmem_free(lock);
}

int main(void) {
    int provided;

    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    me = shmem_my_pe();
    n = shmem_n_pes();
    of_teams();
    sessions();
    locks();
    threads();
    return conclude();
}
