/* SPDX-License-Identifier: BSD-3-Clause
 * Non-blocking collectives from C: several at a time on two teams, waited for by two threads. */
#include <ishmemx.h>
#include <pthread.h>

#include "check.h"

enum { N_ROUNDS = 20, N_REQUESTS = 6, ROOM = 5000 };

static ishmemx_request_t requests[N_REQUESTS];

static void *await_half(void *argument) {
    for (int i = *(int *)argument; i < N_REQUESTS; i += 2)
        CHECK(!ishmemx_request_wait(requests[i]));
    return NULL;
}

int main(void) {
    int level, me, n, half[2] = {0, 1}, done = 0;
    long *source, *sums, *all, *blocks, *given;
    shmem_team_t backward;
    pthread_t other;

    CHECK(!shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level) && level == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe();
    n = shmem_n_pes();
    source = shmem_malloc((size_t)n * ROOM * sizeof(long));
    sums = shmem_malloc(2 * ROOM * sizeof(long));
    all = shmem_malloc((size_t)n * ROOM * sizeof(long));
    blocks = shmem_malloc((size_t)n * ROOM * sizeof(long));
    given = shmem_malloc(ROOM * sizeof(long));
    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n, NULL, 0, &backward));
    for (int round = 0; round < N_ROUNDS; round++) {
        size_t count = round % 2 ? ROOM : 3, nbytes = count * sizeof(long);
        ishmemx_team_t world = (ishmemx_team_t)SHMEM_TEAM_WORLD, reversed = (ishmemx_team_t)backward;

        for (size_t i = 0; i < (size_t)n * ROOM; i++)
            source[i] = me + round;
        CHECK(!ishmemx_reduce_nb(world, ISHMEMX_REDUCE_SUM, ISHMEMX_TYPE_INT64, sums, source, count, &requests[0]));
        CHECK(!ishmemx_sum_scan_nb(reversed, 0, ISHMEMX_TYPE_INT64, sums + ROOM, source, count, &requests[1]));
        CHECK(!ishmemx_fcollect_nb(world, all, source, nbytes, &requests[2]));
        CHECK(!ishmemx_alltoall_nb(reversed, blocks, source, nbytes, &requests[3]));
        CHECK(!ishmemx_broadcast_nb(world, given, source, nbytes, n - 1, &requests[4]));
        CHECK(!ishmemx_barrier_nb(world, &requests[5]));
        CHECK(!pthread_create(&other, NULL, await_half, &half[1]));
        await_half(&half[0]);
        pthread_join(other, NULL);
        for (size_t i = 0; i < count; i += count - 1) {
            CHECK(sums[i] == n * round + n * (n - 1) / 2);
            CHECK(sums[ROOM + i] == (n - me) * round + (n - me) * (n - 1 + me) / 2); /* PEs me to n - 1 */
            CHECK(given[i] == n - 1 + round);
            for (int pe = 0; pe < n; pe++) {
                CHECK(all[(size_t)pe * count + i] == pe + round);
                CHECK(blocks[(size_t)pe * count + i] == n - 1 - pe + round);
            }
        }
        for (int i = 0; i < N_REQUESTS; i++) {
            CHECK(!ishmemx_request_test(requests[i], &done) && done == 1);
            CHECK(!ishmemx_request_free(requests[i]));
        }
    }
    CHECK(!ishmemx_sync_nb((ishmemx_team_t)SHMEM_TEAM_WORLD, &requests[0]));
    CHECK(!ishmemx_request_free(requests[0])); /* the library completes it */
    CHECK(ishmemx_request_wait(NULL) == ISHMEMX_ERR_ARGUMENT);
    CHECK(!ishmemx_sync_nb((ishmemx_team_t)backward, &requests[1]));
    shmem_team_destroy(backward);
    CHECK(!ishmemx_request_wait(requests[1]) && !ishmemx_request_free(requests[1]));
    return conclude();
}
