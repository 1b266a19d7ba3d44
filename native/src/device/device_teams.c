/* SPDX-License-Identifier: BSD-3-Clause
 * What kernels know of teams: a table of slots in device memory, and for each slot flags and a stage that members
 * store to, on the arena that kernels and their peers reach. */
#include "device/device_teams.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "base/state.h"
#include "base/status.h"
#include "conduit/board.h"
#include "conduit/conduit.h"
#include "job/enter.h"
#include "memory/system_region.h"
#include "teams/ctx.h"
#include "teams/team.h"

static struct {
    char *symmetric; /* flags of all slots, then their stages */
    int heap;        /* on whose arena that is */
    char *table;     /* device memory: rows, epochs, lists of PEs */
} kernels;

static int64_t flags_nbytes(int n_pes) {
    return ((int64_t)n_pes * 8 + PYSH_CACHE_LINE - 1) / PYSH_CACHE_LINE * PYSH_CACHE_LINE;
}

static int64_t all_flags_nbytes(int n_pes) {
    return (ISHMEMX_MAX_TEAMS * flags_nbytes(n_pes) + 4095) & -4096;
}

int64_t pysh_device_tables_nbytes(int n_pes) {
    return all_flags_nbytes(n_pes) + ISHMEMX_MAX_TEAMS * 2LL * ISHMEMX_DEVICE_STAGE_BYTES;
}

enum {
    ROW_BYTES = ISHMEMX_DEVICE_TEAM_WORDS * 8,
    EPOCHS = ISHMEMX_MAX_TEAMS * ROW_BYTES,
    LISTS = EPOCHS + ISHMEMX_MAX_TEAMS * 8
};

int64_t pysh_device_teams_nbytes(int n_pes) {
    return (LISTS + ISHMEMX_MAX_TEAMS * (int64_t)n_pes * 4 + 4095) & -4096;
}

char *pysh_device_teams_table(void) {
    return kernels.table;
}

static int zero_own_flags(int64_t offset) {
    size_t nbytes = (size_t)flags_nbytes(pysh.n_pes);

    if (!pysh.arena[kernels.heap].cpu_visible)
        return pysh.accel->zero(kernels.symmetric + offset, nbytes);
    memset(kernels.symmetric + offset, 0, nbytes);
    return ISHMEMX_OK;
}

static int team_set(const struct ishmemx_team *team, int slot) {
    int64_t row[ISHMEMX_DEVICE_TEAM_WORDS] = {0}, flags = slot * flags_nbytes(pysh.n_pes);
    char *list = kernels.table + LISTS + slot * (int64_t)pysh.n_pes * 4, *epoch = kernels.table + EPOCHS + slot * 8;
    int status = ISHMEMX_OK;

    if (!kernels.table)
        return ISHMEMX_OK;
    if (team && team->my_pe >= 0) {
        row[ISHMEMX_DEVICE_TEAM_N_PES] = team->n_pes;
        row[ISHMEMX_DEVICE_TEAM_MY_PE] = team->my_pe;
        row[ISHMEMX_DEVICE_TEAM_PES] = (int64_t)(intptr_t)list;
        row[ISHMEMX_DEVICE_TEAM_FLAGS] = (int64_t)(intptr_t)(kernels.symmetric + flags);
        row[ISHMEMX_DEVICE_TEAM_EPOCH] = (int64_t)(intptr_t)epoch;
        row[ISHMEMX_DEVICE_TEAM_STAGE] = (int64_t)(intptr_t)(kernels.symmetric + all_flags_nbytes(pysh.n_pes) +
                                                             slot * 2LL * ISHMEMX_DEVICE_STAGE_BYTES);
        if ((status = zero_own_flags(flags)) || (status = pysh.accel->zero(epoch, 8)) ||
            (status = pysh.accel->copy(list, team->pes, (size_t)team->n_pes * sizeof *team->pes)))
            return status;
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
    kernels.symmetric = symmetric;
    kernels.heap = heap;
    kernels.table = table;
    pysh_team_set_kernels(team_set);
    pysh_board_kernel_epoch(kernel_epoch);
    return ISHMEMX_OK;
}

void pysh_device_teams_close(void) {
    pysh_team_set_kernels(NULL);
    pysh_board_kernel_epoch(NULL);
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
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the context is invalid (a null handle)");
    if (ctx->guarded && (status = pysh_ctx_guard(ctx)))
        return status;
    *slot = ctx->team->slot;
    return ISHMEMX_OK;
}
