/* SPDX-License-Identifier: BSD-3-Clause
 * collect, alltoall, alltoalls and scans, small and large, on the world team and on a reversed one. */
#include <complex.h>

#include "check.h"

static int me, n; /* in the team */
static long *dest, *source;
enum { ROOM = 100000 };

static void collect(shmem_team_t team, size_t unit) {
    size_t mine = unit * (size_t)(me % 3), at = 0;
    int same = 1;

    for (size_t i = 0; i < mine; i++)
        source[i] = 1000000 * me + (long)i;
    CHECK(!shmem_long_collect(team, dest, mine ? source : NULL, mine)); /* PEs 0 and 3 have nothing */
    for (int pe = 0; pe < n; pe++)
        for (size_t i = 0; i < unit * (size_t)(pe % 3); i++)
            same &= dest[at++] == 1000000 * pe + (long)i;
    CHECK(same);
    shmem_team_sync(team);
}

static void alltoall(shmem_team_t team, size_t nelems, ptrdiff_t dst, ptrdiff_t sst) {
    size_t d = nelems * (size_t)dst, s = nelems * (size_t)sst;
    int same = 1;

    memset(dest, 0xff, (size_t)n * d * sizeof *dest);
    for (int pe = 0; pe < n; pe++)
        for (size_t i = 0; i < nelems; i++)
            source[(size_t)pe * s + i * (size_t)sst] = 1000000 * me + 100000 * pe + (long)i;
    shmem_team_sync(team);
    if (dst == 1 && sst == 1)
        CHECK(!shmem_long_alltoall(team, dest, source, nelems));
    else
        CHECK(!shmem_long_alltoalls(team, dest, source, dst, sst, nelems));
    for (int pe = 0; pe < n; pe++)
        for (size_t i = 0; i < d; i++)
            same &= dest[(size_t)pe * d + i] ==
                    (i % (size_t)dst ? -1 : 1000000 * pe + 100000 * me + (long)(i / (size_t)dst));
    CHECK(same);
    shmem_team_sync(team);
}

static void scans(shmem_team_t team, size_t nelems) {
    double complex *z = (double complex *)dest;
    short *half = (short *)source;
    int same = 1;

    for (size_t i = 0; i < nelems; i++)
        source[i] = (me + 1) * (long)(i + 1);
    CHECK(!shmem_long_sum_inscan(team, dest, source, nelems));
    for (size_t i = 0; i < nelems; i++)
        same &= dest[i] == (long)(i + 1) * (me + 1) * (me + 2) / 2;
    CHECK(same);
    CHECK(!shmem_long_sum_exscan(team, source, source, nelems)); /* in place; 0 on PE 0 */
    for (size_t i = 0; i < nelems; i++)
        same &= source[i] == (long)(i + 1) * me * (me + 1) / 2;
    CHECK(same);
    shmem_team_sync(team);
    z[0] = 1 + me * I;
    CHECK(!shmem_complexd_sum_exscan(team, z, z, 1));
    CHECK(creal(z[0]) == me && cimag(z[0]) == me * (me - 1) / 2);
    half[0] = (short)me;
    CHECK(!shmem_short_sum_inscan(team, half + 1, half, 1));
    CHECK(half[1] == me * (me + 1) / 2 && half[0] == me);
    shmem_team_sync(team);
}

static void all(shmem_team_t team) {
    me = shmem_team_my_pe(team);
    n = shmem_team_n_pes(team);
    for (int round = 0; round < 3; round++) {
        collect(team, 0);
        collect(team, 5);
        collect(team, 700); /* some small, some large */
        collect(team, 20000);
        alltoall(team, 3, 1, 1);
        alltoall(team, 5000, 1, 1);
        alltoall(team, 3, 2, 1);
        alltoall(team, 1000, 1, 3);
        scans(team, 1);
        scans(team, 3000);
    }
}

static void refused(void) {
    CHECK(shmem_long_alltoalls(SHMEM_TEAM_WORLD, dest, source, 0, 1, 1) != 0);
    CHECK(shmem_long_alltoalls(SHMEM_TEAM_WORLD, dest, source, 1, -1, 1) != 0);
    CHECK(shmem_long_alltoall(SHMEM_TEAM_INVALID, dest, source, 1) != 0);
    CHECK(shmem_long_collect(SHMEM_TEAM_INVALID, dest, source, 1) != 0);
    CHECK(shmem_long_sum_inscan(SHMEM_TEAM_INVALID, dest, source, 1) != 0);
    CHECK(shmem_long_alltoall(SHMEM_TEAM_WORLD, dest, dest, 1) != 0);
    CHECK(shmem_long_alltoall(SHMEM_TEAM_WORLD, dest, source, (size_t)1 << 61) != 0);
    CHECK(shmem_long_sum_inscan(SHMEM_TEAM_WORLD, dest + 1, dest, 2) != 0); /* in place, but not quite */
    CHECK(ishmemx_sum_scan(SHMEM_TEAM_WORLD, 0, ISHMEMX_TYPE_BOOL, dest, source, 1) == ISHMEMX_ERR_TYPE);
    CHECK(!shmem_long_alltoall(SHMEM_TEAM_WORLD, dest, source, 0) && !shmem_alltoallmem(SHMEM_TEAM_WORLD, 0, 0, 0));
    CHECK(!shmem_collectmem(SHMEM_TEAM_WORLD, NULL, NULL, 0) && !shmem_long_sum_exscan(SHMEM_TEAM_WORLD, 0, 0, 0));
}

int main(void) {
    shmem_team_t team;

    shmem_init();
    dest = shmem_malloc(ROOM * sizeof *dest);
    source = shmem_malloc(ROOM * sizeof *source);
    all(SHMEM_TEAM_WORLD);
    refused();
    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n, NULL, 0, &team));
    all(team);
    shmem_team_destroy(team);
    return conclude();
}
