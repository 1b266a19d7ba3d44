/* SPDX-License-Identifier: BSD-3-Clause
 * Several threads of each PE in put, get, atomics, fence and quiet at once, as a program and its proxy are; and each
 * splitting a team of its own. */
#include <pthread.h>

#include "check.h"

enum { N_THREADS = 3, N_ROUNDS = 400, N_SPLITS = 100, NELEMS = 64 };

static int me, n;
static long *box, *count; /* [N_THREADS][NELEMS], [3] */
static shmem_team_t parent[N_THREADS];

static void *work(void *argument) {
    long thread = *(long *)argument, sent[NELEMS], back[NELEMS];
    int next = (me + 1) % n;

    for (long round = 0; round < N_ROUNDS; round++) {
        for (int i = 0; i < NELEMS; i++)
            sent[i] = round * NELEMS + i + thread;
        if (round % 2)
            shmem_long_put(box + thread * NELEMS, sent, NELEMS, next);
        else
            shmem_long_put_nbi(box + thread * NELEMS, sent, NELEMS, next);
        shmem_fence();
        shmem_long_atomic_add(count, 1, next);
        shmem_ulong_atomic_fetch_xor((unsigned long *)count + 1, 1UL << thread, next);
        shmem_quiet();
        shmem_long_get(back, box + thread * NELEMS, NELEMS, next);
        CHECK(memcmp(sent, back, sizeof sent) == 0);
        shmem_long_atomic_compare_swap(count + 2, thread, thread, next);
    }
    return NULL;
}

static void *split(void *argument) {
    long thread = *(long *)argument, *mine = box + thread * NELEMS;

    for (long round = 0; round < N_SPLITS; round++) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK(!shmem_team_split_strided(parent[thread], n - 1, -1, n, NULL, 0, &team));
        CHECK(shmem_team_my_pe(team) == n - 1 - me);
        mine[0] = me + round;
        CHECK(!shmem_long_sum_reduce(team, mine + 1, mine, 1) && mine[1] == n * (n - 1) / 2 + n * round);
        shmem_team_destroy(team);
    }
    return NULL;
}

static void run(void *(*body)(void *)) {
    pthread_t others[N_THREADS];
    long number[N_THREADS];

    for (long i = 0; i < N_THREADS; i++) {
        number[i] = i;
        CHECK(!pthread_create(&others[i], NULL, body, &number[i]));
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(others[i], NULL);
    shmem_barrier_all();
}

int main(void) {
    int level;

    CHECK(!shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level) && level == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe();
    n = shmem_n_pes();
    box = shmem_calloc(N_THREADS * NELEMS, sizeof *box);
    count = shmem_calloc(3, sizeof *count);
    run(work);
    CHECK(count[0] == (long)N_THREADS * N_ROUNDS && count[1] == 0);
    for (int i = 0; i < N_THREADS; i++)
        CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &parent[i]));
    run(split);
    return conclude();
}
