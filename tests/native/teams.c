/* SPDX-License-Identifier: BSD-3-Clause
 * Teams: who is in them, in which order, what they refuse; syncs and collectives on them. */
#include <stdlib.h>

#include "check.h"

static int me, n;

/* Every member sees every member's value, in the team's order. */
static void talk(shmem_team_t team) {
    static long *source, *dest;
    int mine = shmem_team_my_pe(team), size = shmem_team_n_pes(team);

    if (!source) {
        source = shmem_malloc(4096 * sizeof *source);
        dest = shmem_malloc(64 * 4096 * sizeof *dest);
    }
    if (team == SHMEM_TEAM_INVALID)
        return;
    for (size_t nelems = 1; nelems <= 4096; nelems *= 4096)
        for (int round = 0; round < 3; round++) {
            int same = 1, root = round % size;
            for (size_t i = 0; i < nelems; i++)
                source[i] = 1000 * me + (long)i + round;
            CHECK(!shmem_long_fcollect(team, dest, source, nelems));
            for (int pe = 0; pe < size; pe++)
                for (size_t i = 0; i < nelems; i++)
                    same &= dest[(size_t)pe * nelems + i] ==
                            1000 * shmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD) + (long)i + round;
            CHECK(same);
            CHECK(!shmem_team_sync(team));
            CHECK(!shmem_long_broadcast(team, dest, source, nelems, root));
            CHECK(dest[nelems - 1] ==
                  1000 * shmem_team_translate_pe(team, root, SHMEM_TEAM_WORLD) + (long)nelems - 1 + round);
            CHECK(!shmem_team_sync(team));
            for (size_t i = 0; i < nelems; i++)
                source[i] = mine + 1;
            CHECK(!shmem_long_sum_reduce(team, source, source, nelems));
            CHECK(source[nelems - 1] == (long)size * (size + 1) / 2);
            CHECK(!shmem_team_sync(team));
        }
}

static void predefined(void) {
    shmem_team_config_t config = {.num_contexts = 77};

    CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me && shmem_team_n_pes(SHMEM_TEAM_WORLD) == n);
    CHECK(shmem_team_n_pes(SHMEM_TEAM_SHARED) == n && shmem_team_my_pe(SHMEM_TEAM_SHARED) == me);
    CHECK(ishmemx_team_n_pes(&ishmemx_team_node) == n);
    talk(SHMEM_TEAM_SHARED);
    shmem_barrier_all();
    CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1 && shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, n, SHMEM_TEAM_SHARED) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, -1, SHMEM_TEAM_SHARED) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD) == -1);
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_get_config(SHMEM_TEAM_INVALID, 0, NULL) != 0);
    CHECK(shmem_team_get_config(SHMEM_TEAM_WORLD, 0, NULL) == 0);
    CHECK(shmem_team_get_config(SHMEM_TEAM_WORLD, SHMEM_TEAM_NUM_CONTEXTS, &config) == 0 && config.num_contexts == 0);
    shmem_team_destroy(SHMEM_TEAM_INVALID);
}

static void strided(void) {
    shmem_team_config_t config = {.num_contexts = 3}, told = {0};
    shmem_team_t team = SHMEM_TEAM_WORLD, inner = SHMEM_TEAM_WORLD;

    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, -1, n, &config, SHMEM_TEAM_NUM_CONTEXTS, &team));
    CHECK(shmem_team_my_pe(team) == n - 1 - me && shmem_team_translate_pe(team, 0, SHMEM_TEAM_WORLD) == n - 1);
    CHECK(!shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &told) && told.num_contexts == 3);
    talk(team);
    CHECK(!shmem_team_split_strided(team, 0, 2, (n + 1) / 2, NULL, 0, &inner)); /* a team of a team */
    CHECK((inner != SHMEM_TEAM_INVALID) == ((n - 1 - me) % 2 == 0));
    talk(inner);
    shmem_team_destroy(inner);
    CHECK(shmem_team_n_pes(inner) == -1); /* destroyed, or none */
    shmem_team_destroy(team);
    CHECK(shmem_team_sync(team) != 0);
    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, 0, 1, NULL, 0, &team));
    CHECK((team != SHMEM_TEAM_INVALID) == (me == n - 1) && shmem_team_n_pes(team) == (me == n - 1 ? 1 : -1));
    talk(team);
    shmem_team_destroy(team);
    shmem_barrier_all();
}

/* One call, a team for each pair of PEs: against the specification, which checking mode says. */
static void pairs(void) {
    const char *checking = getenv("PYSHMEM_CHECK");
    int first = me - me % 2, size = first + 1 < n ? 2 : 1, refused = n > 2 && checking && *checking == '1';
    shmem_team_t team = SHMEM_TEAM_WORLD;

    CHECK(!shmem_team_split_strided(SHMEM_TEAM_WORLD, first, 1, size, NULL, 0, &team) == !refused);
    CHECK(shmem_team_n_pes(team) == (refused ? -1 : size) && shmem_team_my_pe(team) == (refused ? -1 : me % 2));
    talk(team);
    shmem_team_destroy(team);
    shmem_barrier_all();
}

static void refuses(int start, int stride, int size) {
    shmem_team_t team = SHMEM_TEAM_WORLD;

    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, NULL, 0, &team) != 0);
    CHECK(team == SHMEM_TEAM_INVALID);
}

static void refused(void) {
    shmem_team_t team = SHMEM_TEAM_WORLD, other = SHMEM_TEAM_WORLD;
    shmem_team_config_t config = {0};

    refuses(0, 1, n + 1);
    refuses(0, 1, 0);
    refuses(n, 1, 1);
    refuses(-1, 1, 1);
    refuses(0, -1, n + 1);
    if (n > 1) {
        refuses(0, 0, 2);
        refuses(n - 1, 1, 2); /* no wrap-around */
        refuses(0, -1, 2);
        refuses(0, me == 0 ? 1 : 2, 1); /* not what the others ask for */
        refuses(0, 1, me == 0 ? 2 : 1);
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, me == 0 ? 0 : 1, NULL, 0, &team) != 0);
    }
    CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team) != 0 && team == SHMEM_TEAM_INVALID);
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, &config, 64, &team) != 0);
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 0, NULL, 0, &team, NULL, 0, &other) != 0);
    CHECK(team == SHMEM_TEAM_INVALID && other == SHMEM_TEAM_INVALID);
    CHECK(shmem_team_sync(SHMEM_TEAM_INVALID) != 0);
}

static void two_dimensions(int xrange) {
    shmem_team_t x, y;
    int wide = xrange < n ? xrange : n, first = me / wide * wide;

    CHECK(!shmem_team_split_2d(SHMEM_TEAM_WORLD, xrange, NULL, 0, &x, NULL, 0, &y));
    CHECK(shmem_team_my_pe(x) == me % wide && shmem_team_my_pe(y) == me / wide);
    CHECK(shmem_team_n_pes(x) == (n - first < wide ? n - first : wide));
    CHECK(shmem_team_n_pes(y) == (n - me % wide + wide - 1) / wide);
    talk(x);
    talk(y);
    shmem_team_destroy(x);
    shmem_team_destroy(y);
    shmem_barrier_all();
}

static void any_order(void) {
    ishmemx_team_t team;
    int pes[64], twice[2] = {0, 0};

    for (int i = 0; i < n; i++)
        pes[i] = (n - i) % n; /* 0, n-1, n-2, ... */
    CHECK(!ishmemx_team_split_list(SHMEM_TEAM_WORLD, pes, n, NULL, 0, &team));
    CHECK(ishmemx_team_world_pe(team, ishmemx_team_my_pe(team)) == me && ishmemx_team_world_pe(team, n) == -1);
    talk(team);
    shmem_team_destroy(team);
    CHECK(ishmemx_team_split_list(SHMEM_TEAM_WORLD, twice, 2, NULL, 0, &team) != 0 && !team);
    CHECK(!ishmemx_team_split_color(SHMEM_TEAM_WORLD, me % 2 ? -1 : 5, -me, NULL, 0, &team));
    CHECK(ishmemx_team_n_pes(team) == (me % 2 ? -1 : (n + 1) / 2));
    CHECK(me % 2 || ishmemx_team_world_pe(team, 0) == (n - 1) / 2 * 2);
    talk(team);
    shmem_team_destroy(team);
    shmem_barrier_all();
}

/* More than there is room for; then the room is there again. */
static void exhausted(void) {
    shmem_team_t team[80];
    int count = 0;

    for (int lap = 0; lap < 2; lap++) {
        for (count = 0; count < 80; count++)
            if (shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team[count]))
                break;
        CHECK(count > 50 && count < 80 && team[count] == SHMEM_TEAM_INVALID);
        CHECK(!shmem_team_sync(team[count - 1]));
        while (count-- > 0)
            shmem_team_destroy(team[count]);
    }
}

int main(void) {
    int *cell;

    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    cell = shmem_calloc(1, sizeof *cell);
    CHECK(shmem_team_ptr(SHMEM_TEAM_SHARED, cell, me) == cell);
    CHECK(shmem_team_ptr(SHMEM_TEAM_SHARED, cell, n) == NULL && shmem_team_ptr(SHMEM_TEAM_INVALID, cell, 0) == NULL);
    talk(SHMEM_TEAM_INVALID); /* the arrays */
    predefined();
    strided();
    pairs();
    refused();
    two_dimensions(1);
    two_dimensions(2);
    two_dimensions(3);
    two_dimensions(n + 5);
    any_order();
    exhausted();
    return conclude();
}
