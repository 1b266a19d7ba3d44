/* SPDX-License-Identifier: BSD-3-Clause
 * Two threads of PE 0 in one collective of a team, while the last PE stays away until one of them was refused: the
 * other's data arrive, and not a byte of the refused one's. In checking mode both take the same arrays, as other ones
 * than the other PEs' are told; by few bytes, and in PE 0's share of many, they give the right data all the same. */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"

enum { N_ROUNDS = 8, ROOM = 4096, SMALL = 8 };

static int me, n;
static size_t nelems;
static shmem_team_t team;
static int (*collective)(long *dest, const long *source);
static long *sources[2], *dests[2], *flag;
static int results[2], array_of[2]; /* by thread */

static int broadcast(long *dest, const long *source) {
    return shmem_long_broadcast(team, dest, source, nelems, n - 1); /* a root of few bytes waits for nobody */
}

static int fcollect(long *dest, const long *source) {
    return shmem_long_fcollect(team, dest, source, nelems);
}

static int collect(long *dest, const long *source) {
    return shmem_long_collect(team, dest, source, nelems);
}

static int alltoall(long *dest, const long *source) {
    return shmem_long_alltoall(team, dest, source, nelems / (size_t)n);
}

static int sum_reduce(long *dest, const long *source) {
    return shmem_long_sum_reduce(team, dest, source, nelems);
}

static int sum_inscan(long *dest, const long *source) {
    return shmem_long_sum_inscan(team, dest, source, nelems);
}

static void *call(void *argument) {
    int thread = *(int *)argument;

    results[thread] = collective(dests[array_of[thread]], sources[array_of[thread]]);
    if (results[thread]) /* the last PE may come */
        shmem_long_p(flag, 1, n - 1);
    return NULL;
}

static void race(void) {
    pthread_t others[2];
    int number[2] = {0, 1}, winner;

    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&others[i], NULL, call, &number[i]));
    for (int i = 0; i < 2; i++)
        pthread_join(others[i], NULL);
    CHECK(!results[0] != !results[1]);
    winner = array_of[results[0] ? 1 : 0];
    CHECK(dests[winner][0] ==
          (collective == broadcast ? 1 : sources[winner][0] + (collective == sum_reduce ? n - 1 : 0)));
}

/* PE 0 gives ones in one thread and twos in the other, the other PEs give ones. */
static void round_of(int (*tried)(long *, const long *), size_t count) {
    collective = tried;
    nelems = count;
    *flag = 0;
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < count; k++)
            sources[i][k] = me == 0 ? i + 1 : 1;
    shmem_barrier_all();
    if (me == 0) {
        race();
    } else {
        if (me == n - 1)
            shmem_long_wait_until(flag, SHMEM_CMP_EQ, 1);
        CHECK(!collective(dests[0], sources[0]));
        for (size_t k = 1; k < count / (size_t)n; k++)
            CHECK(dests[0][k] == dests[0][0]);
    }
    shmem_barrier_all();
}

int main(void) {
    int (*const all[])(long *, const long *) = {broadcast, fcollect, collect, alltoall, sum_reduce, sum_inscan};
    const char *checking = getenv("PYSHMEM_CHECK");
    int level;

    array_of[1] = !checking || *checking == '0';
    CHECK(!shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level) && level == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe();
    n = shmem_n_pes();
    flag = shmem_malloc(sizeof *flag);
    for (int i = 0; i < 2; i++) {
        sources[i] = shmem_malloc(ROOM * sizeof(long));
        dests[i] = shmem_malloc((size_t)n * ROOM * sizeof(long));
    }
    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team));
    for (int round = 0; n > 1 && round < N_ROUNDS; round++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            round_of(all[i], round % 4 ? SMALL : ROOM);
    shmem_team_destroy(team);
    return conclude();
}
