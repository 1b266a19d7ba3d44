/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives of few bytes, back to back and in any order, with members that are slow now and then: the world team, its
 * reverse, and one of every other PE, so many bytes that some go by cells and some do not. All PEs draw the same calls.
 * Then members that call something else behind the calls that are compared. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

enum { CALLS = 6000, MOST = 80, N_TEAMS = 3 };

static int me;
static uint64_t drawn; /* the same on all PEs */
static long *source, *dest;
static shmem_team_t teams[N_TEAMS];

static unsigned draw(unsigned below) {
    drawn = drawn * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(drawn >> 33) % below;
}

static void be_slow(void) {
    if (draw(8) == (unsigned)me)
        sched_yield();
    if (draw(400) == (unsigned)me)
        nanosleep(&(struct timespec){.tv_nsec = 300 * 1000}, NULL);
}

/* What member `member` gives as element k of a call. */
static long given(int call, int member, size_t k) {
    return call * 1000L + member * 100 + (long)k;
}

static void broadcast(shmem_team_t team, int call, size_t n) {
    int root = (int)draw(840) % shmem_team_n_pes(team);

    CHECK(!shmem_long_broadcast(team, dest, source, n, root));
    for (size_t k = 0; k < n; k++)
        CHECK(dest[k] == given(call, root, k));
}

static void fcollect(shmem_team_t team, int call, size_t n) {
    CHECK(!shmem_long_fcollect(team, dest, source, n));
    for (int i = 0; i < shmem_team_n_pes(team); i++)
        for (size_t k = 0; k < n; k++)
            CHECK(dest[(size_t)i * n + k] == given(call, i, k));
}

static void alltoall(shmem_team_t team, int call, size_t n) {
    size_t block = n / (size_t)shmem_team_n_pes(team);

    CHECK(!shmem_long_alltoall(team, dest, source, block));
    for (int i = 0; i < shmem_team_n_pes(team); i++)
        for (size_t k = 0; k < block; k++)
            CHECK(dest[(size_t)i * block + k] == given(call, i, (size_t)shmem_team_my_pe(team) * block + k));
}

static long sum_of(int call, int members, size_t k) {
    long sum = 0;

    for (int i = 0; i < members; i++)
        sum += given(call, i, k);
    return sum;
}

static void sum(shmem_team_t team, int call, size_t n) {
    long *to = draw(2) ? dest : source;

    CHECK(!shmem_long_sum_reduce(team, to, source, n));
    for (size_t k = 0; k < n; k++)
        CHECK(to[k] == sum_of(call, shmem_team_n_pes(team), k));
}

static void scan(shmem_team_t team, int call, size_t n) {
    CHECK(!shmem_long_sum_inscan(team, dest, source, n));
    for (size_t k = 0; k < n; k++)
        CHECK(dest[k] == sum_of(call, shmem_team_my_pe(team) + 1, k));
}

static void sync(shmem_team_t team, int call, size_t n) {
    (void)call, (void)n;
    CHECK(!shmem_team_sync(team));
}

/* Broadcasts are most, so that they fill rings. */
static void mix(void) {
    void (*const all[])(shmem_team_t, int, size_t) = {broadcast, fcollect, alltoall, sum, scan, sync};
    size_t n_kinds = sizeof all / sizeof *all;

    for (int call = 0; call < CALLS && !failures; call++) {
        shmem_team_t team = teams[draw(N_TEAMS)];
        size_t kind = draw(2) ? 0 : draw((unsigned)n_kinds), n = 1 + draw(draw(4) ? 8 : MOST);

        if (team == SHMEM_TEAM_INVALID) /* draws what the others draw */
            kind = n_kinds;
        for (size_t k = 0; kind < n_kinds && k < n; k++)
            source[k] = given(call, shmem_team_my_pe(team), k);
        be_slow();
        if (kind < n_kinds) {
            uint64_t before = drawn;
            all[kind](team, call, n);
            drawn = before;
        }
        draw(2);
        if (draw(200) == 0)
            shmem_barrier_all();
    }
}

/* A member that calls another routine, or gives another size, gets no number. */
static void differ(void) {
    int status;

    for (int i = 0; i < 40; i++) /* past the calls that are compared */
        CHECK(!shmem_long_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 1));
    status = me == 0 ? shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, 2)
                     : shmem_long_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 1);
    CHECK(status || (shmem_n_pes() > 2 && me > 0) || shmem_n_pes() == 1);
    shmem_barrier_all();
    status = shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, me == 0 ? 1 : 2);
    CHECK(status || shmem_n_pes() == 1);
    shmem_barrier_all();
    CHECK(!shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, 1));
}

int main(void) {
    int n;

    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    source = shmem_malloc(MOST * sizeof *source);
    dest = shmem_malloc((size_t)n * MOST * sizeof *dest);
    teams[0] = SHMEM_TEAM_WORLD;
    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n, NULL, 0, &teams[1]));
    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, NULL, 0, &teams[2]));
    mix();
    shmem_barrier_all();
    if (shmem_team_n_pes(SHMEM_TEAM_SHARED) == n) /* a team on several nodes has no cells */
        differ();
    return conclude();
}
