/* SPDX-License-Identifier: BSD-3-Clause
 * See cells.h. The calls of a team that go by cells have numbers, the same on all members. In call n a member that has
 * data copies it into the cell n % PYSH_CELLS of its ring, and stores the number beside it; who wants the data waits
 * until the number is there. Numbers of a cell only rise, so a call that was interrupted can be made again.
 *
 * A cell may be written over when all members have read it. Nobody says so; it follows from meetings:
 * - where all members wait for all, who has come out of call n knows that all have entered it, so they have read what
 *   they wanted of the calls before;
 * - the same holds of a sync of the team behind call n, for what was in call n too.
 * In a broadcast only the root gives and nobody tells it of the end. When a ring full of those has passed with no
 * meeting between them, the next is done as the others are: each member gives a cell, without data. All members count
 * alike, so they know without a word which one that is. tests/model/cells_model.py has every order of these steps. */
#include "teams/cells.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "accel/copy.h"
#include "base/state.h"
#include "base/status.h"
#include "node/node.h"
#include "node/wait.h"
#include "teams/sync.h"
#include "teams/team.h"

typedef struct cell {
    uint64_t number; /* of the call that the rest is of; 0: of none */
    uint64_t about;
    char data[PYSH_CELL_BYTES - PYSH_CELL_HEAD];
} cell_t;
_Static_assert(sizeof(cell_t) == PYSH_CELL_BYTES && PYSH_CELL_BYTES % PYSH_CACHE_LINE == 0,
               "cells keep to their lines");

static int64_t offset_of(const struct ishmemx_team *team, uint64_t number) {
    return team->cells + (int64_t)(number % PYSH_CELLS) * PYSH_CELL_BYTES;
}

static cell_t *cell_of(const struct ishmemx_team *team, int member, uint64_t number) {
    return (cell_t *)(void *)(pysh.arena[ISHMEMX_HEAP_HOST].peer[team->pes[member]] + offset_of(team, number));
}

bool pysh_cells_serve(ishmemx_team_t team, size_t nbytes) {
    return nbytes <= PYSH_CELL_BYTES - PYSH_CELL_HEAD && team->nodes.n == 1 && team->n_pes > 1 && pysh.nodes_mapped;
}

void pysh_cells_synced(ishmemx_team_t team) {
    team->cells_met = team->celled;
}

/* The others look at the first line all the time: what is behind it is written before, so that the line is taken from
 * them once, by stores that follow each other. From a GPU all of it comes by one copy. */
static int give_data(cell_t *cell, const pysh_celled_t *call) {
    size_t first = PYSH_CACHE_LINE - PYSH_CELL_HEAD;

    if (call->nbytes <= first || pysh_on_gpu(call->source))
        return pysh_copy(cell->data, call->source, call->nbytes);
    memcpy(cell->data + first, (const char *)call->source + first, call->nbytes - first);
    memcpy(cell->data, call->source, first);
    return ISHMEMX_OK;
}

/* Not twice: a call that is made again after an interrupt may have been read by then. */
static int give(ishmemx_team_t team, const pysh_celled_t *call, uint64_t number, bool has_data) {
    cell_t *cell = cell_of(team, team->my_pe, number);
    int status = ISHMEMX_OK;

    if (team->cell_given == number)
        return ISHMEMX_OK;
    if (has_data)
        status = give_data(cell, call);
    cell->about = call->about;
    /* release: pairs with the acquire in is_there() */
    __atomic_store_n(&cell->number, number, __ATOMIC_RELEASE);
    team->cell_given = number;
    for (int i = 0; i < team->n_pes; i++)
        if (i != team->my_pe)
            pysh_wake(team->pes[i]);
    return status;
}

static bool is_there(const cell_t *cell, uint64_t number) {
    /* acquire: pairs with the release in give() */
    return __atomic_load_n(&cell->number, __ATOMIC_ACQUIRE) >= number;
}

static __attribute__((noinline)) int wait_for(ishmemx_team_t team, const char *what, const cell_t *cell,
                                              uint64_t number) {
    int left, status = ISHMEMX_OK;
    pysh_wait_t wait;

    pysh_team_wait_begin(team, what, &wait);
    while (!is_there(cell, number))
        /* Who has left gave all that it ever gives before it said so, and had seen all cells of the calls that it
         * completed. So where a member has left, whichever, and this cell is not there, the call is not completed: in a
         * broadcast the root may have refused it. */
        if (((left = pysh_team_find_left(team)) >= 0 && !is_there(cell, number) &&
             (status = pysh_member_tell_left(team, what, left))) ||
            (status = pysh_wait_pause(&wait)))
            break;
    pysh_wait_end(&wait);
    return status;
}

/* Until the member's cell is there; MISMATCH then, in *differs_p, when it is of another call. */
static int cell_take(ishmemx_team_t team, const pysh_celled_t *call, int member, uint64_t number, int *differs_p) {
    const cell_t *cell = cell_of(team, member, number);
    int status = ISHMEMX_OK, looks = pysh.spin < PYSH_FIRST_LOOKS ? (int)pysh.spin : PYSH_FIRST_LOOKS;

    while (!is_there(cell, number) && looks-- > 0)
        continue;
    if (!is_there(cell, number) && (status = wait_for(team, call->what, cell, number)))
        return status;
    if (__builtin_expect(cell->number != number || cell->about != call->about, 0))
        *differs_p =
            pysh_fail(ISHMEMX_ERR_MISMATCH,
                      "%s: PE %d is in another collective of the team, or gave another size, type or root; all "
                      "members must call the same ones in the same order, with the same arguments",
                      call->what, team->pes[member]);
    return ISHMEMX_OK;
}

/* All members are in the call. */
static int cell_sync(ishmemx_team_t team, const pysh_celled_t *call, uint64_t number, bool has_data) {
    int given, differs = ISHMEMX_OK, status = ISHMEMX_OK;

    given = give(team, call, number, has_data);
    team->resume.told = true;
    for (int i = 0; !status && i < team->n_pes; i++)
        if (i != team->my_pe)
            status = cell_take(team, call, i, number, &differs);
    if (status)
        return status;
    team->celled = number;
    team->cells_met = number - 1;
    return given ? given : differs;
}

int pysh_cells_share(ishmemx_team_t team, const pysh_celled_t *call, pysh_place_t *place_p) {
    uint64_t number = team->celled + 1;

    *place_p = (pysh_place_t){ISHMEMX_HEAP_HOST, offset_of(team, number) + PYSH_CELL_HEAD};
    return cell_sync(team, call, number, true);
}

int pysh_cells_spread(ishmemx_team_t team, const pysh_celled_t *call, int root, pysh_place_t *place_p) {
    uint64_t number = team->celled + 1;
    int differs = ISHMEMX_OK, status;

    *place_p = (pysh_place_t){ISHMEMX_HEAP_HOST, offset_of(team, number) + PYSH_CELL_HEAD};
    if (number - team->cells_met >= PYSH_CELLS)
        return cell_sync(team, call, number, team->my_pe == root);
    if (team->my_pe == root) {
        if ((status = pysh_team_check_left(team, call->what)))
            return status;
        status = give(team, call, number, true);
        team->celled = number;
        return status;
    }
    if ((status = cell_take(team, call, root, number, &differs))) {
        team->resume.told |= is_there(cell_of(team, root, number), number); /* the root does not wait for this PE */
        return status;
    }
    team->celled = number;
    return differs;
}
