/* SPDX-License-Identifier: BSD-3-Clause
 * What kernels know of teams: a table of slots in device memory, and for each slot flags and a stage that members
 * store to, on the arena that kernels and their peers reach. Where they reach it by stores there are also two halves
 * for data with flags in it: 512 KiB a slot, 32 MiB for the 64 slots, and in the simulator no page before its team
 * exists. A channel of a team is a slot like another.
 *
 * A slot has places for as many members as a node has, for each a flag and a number, not for as many as the job has:
 * larger teams meet in rounds, which need a flag each, and their lists are in the host's memory. */
#include "device/device_teams.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "am/am.h"
#include "base/state.h"
#include "base/status.h"
#include "device/stream_areas.h"
#include "host_proxy/proxy.h"
#include "memory/system_region.h"
#include "node/enter.h"
#include "node/kernel_waits.h"
#include "node/node.h"
#include "teams/ctx.h"
#include "teams/team.h"

#define LL_BYTES     (2LL * ISHMEMX_LL_HALF_BYTES)
#define LEAST_PLACES 3 /* members that meet by a message from each to each, wherever they are: later, not slower */

enum {
    LL_SLOT_UNIT = 1024, /* what a warp stores at a time: see device/team/ll.py */
    ROW_BYTES = ISHMEMX_DEVICE_TEAM_WORDS * 8,
    EPOCHS = ISHMEMX_MAX_TEAMS * ROW_BYTES,
    CLAIMS = EPOCHS + ISHMEMX_MAX_TEAMS * 8,
    STREAM_CALLS = CLAIMS + (ISHMEMX_MAX_TEAMS + 1) * 8, /* the last claim is of all PEs' */
    LISTS = STREAM_CALLS + ISHMEMX_MAX_TEAMS * 8
};

static struct {
    char *symmetric; /* flags of all slots, their stages, their halves for data with flags, the areas for streams */
    int heap;        /* on whose arena that is */
    char *table;     /* device memory: rows, epochs, lists of PEs */
    /* [MAX_TEAMS * n_pes] lists of teams that have more members than a slot has places: memory that host and kernels
     * share, and where kernels see it. NULL: there is none in this job. */
    int32_t *long_lists, *long_lists_seen;
} kernels;

/* Members for which a slot has places. Before it is known how large nodes are, as many as they may be. */
static int places(int n_pes) {
    int most = pysh.largest_node ? pysh.largest_node : ISHMEMX_MAX_NEAR_PES;

    most = most < LEAST_PLACES ? LEAST_PLACES : most;
    return n_pes < most ? n_pes : most;
}

/* A flag a place, or one a round. */
static int64_t device_flags_nbytes(int n_pes) {
    int64_t n = places(n_pes);

    while (n < 63 && 1LL << n < n_pes)
        n++;
    return (n * 8 + PYSH_CACHE_LINE - 1) / PYSH_CACHE_LINE * PYSH_CACHE_LINE;
}

static int64_t all_flags_nbytes(int n_pes) {
    return (ISHMEMX_MAX_TEAMS * device_flags_nbytes(n_pes) + 4095) & -4096;
}

static int64_t stages_end(int n_pes) {
    return all_flags_nbytes(n_pes) + ISHMEMX_MAX_TEAMS * 2LL * ISHMEMX_DEVICE_STAGE_BYTES;
}

static int64_t halves_end(int n_pes) {
    return stages_end(n_pes) + (pysh.p2p ? ISHMEMX_MAX_TEAMS * LL_BYTES : 0);
}

int64_t pysh_device_tables_nbytes(int n_pes) {
    return (halves_end(n_pes) + pysh_stream_areas_nbytes(n_pes) + 4095) & -4096;
}

static_assert(ISHMEMX_LL_HALF_BYTES / ISHMEMX_MAX_NEAR_PES >= LL_SLOT_UNIT, "every member has a slot");

int64_t pysh_device_teams_nbytes(int n_pes) {
    return (LISTS + ISHMEMX_MAX_TEAMS * (int64_t)places(n_pes) * 4 + 4095) & -4096;
}

char *pysh_device_teams_table(void) {
    return kernels.table;
}

static int zero_own(int64_t offset, size_t nbytes) {
    if (!pysh.arena[kernels.heap].cpu_visible)
        return pysh.accel->zero(kernels.symmetric + offset, nbytes);
    memset(kernels.symmetric + offset, 0, nbytes);
    return ISHMEMX_OK;
}

/* Forgets what a team that had the slot before has left there: flags of old rounds are flags of new ones. */
static int slot_clear(int slot) {
    int64_t flags = device_flags_nbytes(pysh.n_pes);
    int status = zero_own(slot * flags, (size_t)flags);

    if (!status && pysh.p2p)
        status = pysh.accel->zero(kernels.symmetric + stages_end(pysh.n_pes) + slot * LL_BYTES, LL_BYTES);
    if (!status)
        status = pysh.accel->zero(kernels.table + EPOCHS + slot * 8, 8);
    if (!status)
        status = pysh_stream_area_clear(slot);
    return status ? status : pysh.accel->zero(kernels.table + CLAIMS + slot * 8, 8);
}

void ishmemx_sim_launches(int change) {
    if (pysh.ready)
        pysh_node_launches(change);
}

/* One that an exception has ended inside of a collective is in none any more. */
void ishmemx_sim_kernel_ends(void) {
    if (kernels.table && pysh.accel && pysh.accel->cpu_visible)
        memset(kernels.table + CLAIMS, 0, STREAM_CALLS - CLAIMS);
    pysh_proxy_kernel_ends();
}

/* On one node, whose arenas this PE maps? Then that is so at all members. */
bool pysh_device_team_is_near(const struct ishmemx_team *team) {
    if (pysh.p2p && !pysh_am_is_open())
        return true;
    for (int i = 0; i < team->n_pes; i++)
        if (!pysh_near(team->pes[i]) || !pysh.arena[ISHMEMX_HEAP_DEVICE].peer[team->pes[i]])
            return false;
    return pysh.p2p;
}

static void row_fill(int64_t *row, const struct ishmemx_team *team, int slot, const void *list) {
    const char *symmetric = kernels.symmetric;
    int n_pes = pysh.n_pes;

    row[ISHMEMX_DEVICE_TEAM_N_PES] = team->n_pes;
    row[ISHMEMX_DEVICE_TEAM_MY_PE] = team->my_pe;
    row[ISHMEMX_DEVICE_TEAM_PES] = (int64_t)(intptr_t)list;
    row[ISHMEMX_DEVICE_TEAM_FLAGS] = (int64_t)(intptr_t)(symmetric + slot * device_flags_nbytes(pysh.n_pes));
    row[ISHMEMX_DEVICE_TEAM_EPOCH] = (int64_t)(intptr_t)(kernels.table + EPOCHS + slot * 8);
    row[ISHMEMX_DEVICE_TEAM_STAGE] =
        (int64_t)(intptr_t)(symmetric + all_flags_nbytes(n_pes) + slot * 2LL * ISHMEMX_DEVICE_STAGE_BYTES);
    row[ISHMEMX_DEVICE_TEAM_NEAR] = pysh_device_team_is_near(team);
    if (team->n_pes > places(n_pes)) {
        row[ISHMEMX_DEVICE_TEAM_NEAR] = ISHMEMX_TEAM_OF_ROUNDS;
    } else if (row[ISHMEMX_DEVICE_TEAM_NEAR]) {
        row[ISHMEMX_DEVICE_TEAM_LL] = (int64_t)(intptr_t)(symmetric + stages_end(n_pes) + slot * LL_BYTES);
        row[ISHMEMX_DEVICE_TEAM_LL_SLOT] = ISHMEMX_LL_HALF_BYTES / team->n_pes / LL_SLOT_UNIT * LL_SLOT_UNIT;
    }
}

/* *list_p: where kernels find the members' numbers. */
static int list_fill(const struct ishmemx_team *team, int slot, const void **list_p) {
    char *list = kernels.table + LISTS + slot * (int64_t)places(pysh.n_pes) * 4;
    size_t nbytes = (size_t)team->n_pes * sizeof *team->pes;

    if (team->n_pes <= places(pysh.n_pes)) {
        *list_p = list;
        return pysh.accel->copy(list, team->pes, nbytes);
    }
    memcpy(&kernels.long_lists[slot * (int64_t)pysh.n_pes], team->pes, nbytes);
    *list_p = &kernels.long_lists_seen[slot * (int64_t)pysh.n_pes];
    return ISHMEMX_OK;
}

static int team_set(const struct ishmemx_team *team, int slot) {
    int64_t row[ISHMEMX_DEVICE_TEAM_WORDS] = {0};
    const void *list;
    int status = ISHMEMX_OK;

    if (!kernels.table)
        return ISHMEMX_OK;
    if (team && team->my_pe >= 0) {
        if ((status = slot_clear(slot)) || (status = list_fill(team, slot, &list)))
            return status;
        row_fill(row, team, slot, list);
    }
    return pysh.accel->copy(kernels.table + slot * (int64_t)ROW_BYTES, row, sizeof row);
}

/* See pysh_board_kernel_epoch(). */
static int kernel_epoch(int collective, int64_t *epoch_p) {
    const char *word = kernels.table + EPOCHS + (collective - 1) * 8;
    int status;

    if (!kernels.table || collective < 1 || collective > PYSH_COLLECTIVE_ALL)
        return ISHMEMX_ERR_STATE;
    if (collective == PYSH_COLLECTIVE_ALL)
        word = pysh.arena[ISHMEMX_HEAP_DEVICE].base + PYSH_SYNC_EPOCH;
    status = pysh.accel->copy(epoch_p, word, sizeof *epoch_p);
    *epoch_p -= !status && collective == PYSH_COLLECTIVE_ALL; /* that word is a number ahead */
    return status;
}

int pysh_device_teams_open(char *symmetric, int heap, char *table) {
    pysh_arena_t *arena = &pysh.arena[heap];

    kernels.symmetric = symmetric;
    kernels.heap = heap;
    kernels.table = table;
    arena->tables = symmetric - arena->base;
    arena->tables_end = arena->tables + pysh_device_tables_nbytes(pysh.n_pes);
    if (pysh.n_pes > places(pysh.n_pes)) {
        void *lists, *seen;
        size_t nbytes = ISHMEMX_MAX_TEAMS * (size_t)pysh.n_pes * sizeof *kernels.long_lists;
        int status = pysh.accel->shared_alloc(nbytes, &lists, &seen);
        if (status)
            return status;
        kernels.long_lists = lists;
        kernels.long_lists_seen = seen;
    }
    pysh_stream_areas_open(symmetric + halves_end(pysh.n_pes), table + STREAM_CALLS);
    pysh_team_set_kernels(team_set);
    pysh_board_kernel_epoch(kernel_epoch);
    return ISHMEMX_OK;
}

void pysh_device_teams_close(void) {
    pysh_team_set_kernels(NULL);
    pysh_board_kernel_epoch(NULL);
    if (kernels.long_lists)
        pysh.accel->shared_free(kernels.long_lists);
    pysh.arena[kernels.heap].tables = pysh.arena[kernels.heap].tables_end = 0;
    memset(&kernels, 0, sizeof kernels);
}

int ishmemx_team_slot(ishmemx_team_t team, int *slot) {
    int status;

    PYSH_ENTER();
    if (!(status = pysh_team_check(team)))
        *slot = team->slot;
    return status;
}

int ishmemx_ctx_team_slot(ishmemx_ctx_t ctx, int *slot) {
    int status;

    PYSH_ENTER();
    if (!ctx)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "the context was destroyed, by itself or with its team (SHMEM_CTX_INVALID)");
    if (ctx->guarded && (status = pysh_ctx_guard(ctx)))
        return status;
    *slot = ctx->team->slot;
    return ISHMEMX_OK;
}
