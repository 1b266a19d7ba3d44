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
 * alike, so they know without a word which one that is. tests/model/cells_model.py has every order of these steps.
 *
 * Members that take themselves for the root each give a cell, and look at none. So what all cells say of their call has
 * a digest of the roots so far too: the next call that all members are in finds them, at no cost. */
#include "teams/cells.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "accel/copy.h"
#include "base/elements.h"
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

/* Where `about` has the digest of roots: above what a cell can have of bytes, in those of cells alone. */
#define ROOTS_BIT 16
_Static_assert(PYSH_CELL_BYTES < 1 << ROOTS_BIT, "bytes of a cell and roots are apart");

/* Of a cell without data, whose call has any number of bytes, and no digest. */
#define TOLD (UINT64_C(1) << 63)

/* The call with the digest in `about`: from here on that is what its cells say. */
static pysh_celled_t with_roots(const struct ishmemx_team *team, const pysh_celled_t *call) {
    pysh_celled_t told = *call;

    told.about ^= (uint64_t)team->roots << ROOTS_BIT;
    return told;
}

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
static inline __attribute__((always_inline)) int give(ishmemx_team_t team, const pysh_celled_t *call, uint64_t number,
                                                      bool has_data) {
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

/* ---- what differs ---- */

static void describe(uint64_t about, char *text, size_t capacity) {
    static const char *const operations[ISHMEMX_REDUCE_COUNT] = {"and", "or", "xor", "max", "min", "sum", "prod"};
    static const char *const kinds[] = {[PYSH_CELL_FCOLLECT] = "fcollect", [PYSH_CELL_ALLTOALL] = "alltoall"};
    int kind = (int)(about >> 56 & 0x7f), op = (int)(about >> 48 & 0xff), number = (int)(about >> 32 & 0xffff);
    int type = kind == PYSH_CELL_REDUCE ? number >> 1 : number;
    unsigned long nbytes = about & (about & TOLD ? UINT32_MAX : (UINT64_C(1) << ROOTS_BIT) - 1);
    unsigned long nelems = nbytes / pysh_type_width(type);

    if (kind == PYSH_CELL_REDUCE && op < ISHMEMX_REDUCE_COUNT)
        snprintf(text, capacity, "%s_reduce%s of %lu %s", operations[op], number & 1 ? "_scatter" : "", nelems,
                 pysh_type_shown(type));
    else if (kind == PYSH_CELL_SCAN)
        snprintf(text, capacity, "%s of %lu %s", op ? "sum_exscan" : "sum_inscan", nelems, pysh_type_shown(type));
    else if (kind == PYSH_CELL_BROADCAST)
        snprintf(text, capacity, "broadcast of %lu bytes from root %d", nbytes, number);
    else if (kind == PYSH_CELL_FCOLLECT || kind == PYSH_CELL_ALLTOALL)
        snprintf(text, capacity, "%s of %lu bytes", kinds[kind], nbytes);
    else
        snprintf(text, capacity, "another collective");
}

#define DIFFERS "; all members must call the same ones in the same order, with the same arguments"

static __attribute__((cold, noinline)) int tell_roots(ishmemx_team_t team, const char *what, int member) {
    return pysh_fail(ISHMEMX_ERR_MISMATCH,
                     "%s: an earlier broadcast had another root on PE %d than on PE %d, or was made by one of them "
                     "alone: numbers since then may be wrong (PYSHMEM_CHECK=1 tells of it in that call)",
                     what, team->pes[member], pysh.pe);
}

/* `mine`: what this PE's cell of call `number` would say. */
static __attribute__((cold, noinline)) int tell_differs(ishmemx_team_t team, const char *what, uint64_t mine,
                                                        int member, uint64_t number) {
    const cell_t *cell = cell_of(team, member, number);
    const uint64_t roots = (uint64_t)UINT16_MAX << ROOTS_BIT;
    char here[80], there[80];

    if (cell->number != number)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "%s: PE %d is in another collective of the team" DIFFERS " (PYSHMEM_CHECK=1 names both)", what,
                         team->pes[member]);
    if (!(mine & TOLD) && !((cell->about ^ mine) & ~roots))
        return tell_roots(team, what, member);
    describe(mine, here, sizeof here);
    describe(cell->about, there, sizeof there);
    return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s on PE %d, but %s on PE %d" DIFFERS, here, pysh.pe, there,
                     team->pes[member]);
}

/* ---- waits ---- */

/* A member has left, and the cell will not come: MISMATCH, and where another member gave one of another call, of that.
 */
static __attribute__((cold, noinline)) int tell_missing(ishmemx_team_t team, const pysh_celled_t *call, int left,
                                                        uint64_t number) {
    for (int i = 0; i < team->n_pes; i++) {
        const cell_t *cell = cell_of(team, i, number);
        if (i != team->my_pe && is_there(cell, number) && cell->number == number && cell->about != call->about)
            return tell_differs(team, call->what, call->about, i, number);
    }
    return pysh_member_tell_left(team, call->what, left);
}

static __attribute__((noinline)) int wait_for(ishmemx_team_t team, const pysh_celled_t *call, const cell_t *cell,
                                              uint64_t number) {
    int left, status = ISHMEMX_OK;
    pysh_wait_t wait;

    pysh_team_wait_begin(team, call->what, &wait);
    while (!is_there(cell, number))
        /* Who has left gave all that it ever gives before it said so, and had seen all cells of the calls that it
         * completed. So where a member has left, whichever, and this cell is not there, the call is not completed: in a
         * broadcast the root may have refused it. */
        if (((left = pysh_team_find_left(team)) >= 0 && !is_there(cell, number) &&
             (status = tell_missing(team, call, left, number))) ||
            (status = pysh_wait_pause(&wait)))
            break;
    pysh_wait_end(&wait);
    return status;
}

/* Until the member's cell is there; MISMATCH then, in *differs_p, when it is of another call. */
static inline __attribute__((always_inline)) int cell_take(ishmemx_team_t team, const pysh_celled_t *call, int member,
                                                           uint64_t number, int *differs_p) {
    const cell_t *cell = cell_of(team, member, number);
    int status = ISHMEMX_OK, looks = pysh.spin < PYSH_FIRST_LOOKS ? (int)pysh.spin : PYSH_FIRST_LOOKS;

    while (!is_there(cell, number) && looks-- > 0)
        continue;
    if (!is_there(cell, number) && (status = wait_for(team, call, cell, number)))
        return status;
    if (__builtin_expect(cell->number != number || cell->about != call->about, 0))
        *differs_p = tell_differs(team, call->what, call->about, member, number);
    return ISHMEMX_OK;
}

/* All members are in the call. Inlined by force: of itself GCC makes a call of it, a tenth of a sum of 8 bytes. */
static inline __attribute__((always_inline)) int cell_sync(ishmemx_team_t team, const pysh_celled_t *call,
                                                           uint64_t number, bool has_data) {
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
    if (differs)
        team->roots = 0; /* all have seen it, so all begin anew */
    return given ? given : differs;
}

int pysh_cells_share(ishmemx_team_t team, const pysh_celled_t *call, pysh_place_t *place_p) {
    uint64_t number = team->celled + 1;
    pysh_celled_t told = with_roots(team, call);

    *place_p = (pysh_place_t){ISHMEMX_HEAP_HOST, offset_of(team, number) + PYSH_CELL_HEAD};
    return cell_sync(team, &told, number, true);
}

static void count_root(ishmemx_team_t team, uint64_t number, int root) {
    team->celled = number;
    team->roots = (uint16_t)(team->roots * 31 + root + 1);
}

int pysh_cells_spread(ishmemx_team_t team, const pysh_celled_t *call, int root, pysh_place_t *place_p) {
    uint64_t number = team->celled + 1;
    pysh_celled_t told = with_roots(team, call);
    int differs = ISHMEMX_OK, left, status;

    *place_p = (pysh_place_t){ISHMEMX_HEAP_HOST, offset_of(team, number) + PYSH_CELL_HEAD};
    if (number - team->cells_met >= PYSH_CELLS)
        return cell_sync(team, &told, number, team->my_pe == root);
    if (team->my_pe == root) {
        if ((left = pysh_team_find_left(team)) >= 0 && (status = tell_missing(team, &told, left, number)))
            return status;
        status = give(team, &told, number, true);
        count_root(team, number, root);
        return status;
    }
    if ((status = cell_take(team, &told, root, number, &differs))) {
        team->resume.told |= is_there(cell_of(team, root, number), number); /* the root does not wait for this PE */
        return status;
    }
    count_root(team, number, root);
    return differs;
}

/* ---- calls whose data goes another way ---- */

void pysh_cells_tell(ishmemx_team_t team, uint64_t about) {
    uint64_t number = team->celled + 1;
    cell_t *cell;

    if (!pysh_cells_serve(team, 0))
        return;
    cell = cell_of(team, team->my_pe, number);
    cell->about = about | TOLD;
    /* release: pairs with the acquire in is_there(), of who is in a call by cells; the others look behind a meeting */
    __atomic_store_n(&cell->number, number, __ATOMIC_RELEASE);
}

int pysh_cells_compare(ishmemx_team_t team, const char *what, uint64_t about) {
    uint64_t number = team->celled + 1;
    int status = ISHMEMX_OK;

    if (!pysh_cells_serve(team, 0))
        return ISHMEMX_OK;
    for (int i = 0; !status && i < team->n_pes; i++) {
        const cell_t *cell = cell_of(team, i, number);
        if (__builtin_expect(!is_there(cell, number) || cell->number != number || cell->about != (about | TOLD), 0))
            status = tell_differs(team, what, about | TOLD, i, number);
    }
    team->celled = number;
    team->cells_met = number - 1;
    __builtin_prefetch(cell_of(team, team->my_pe, number + 1), 1); /* others have it, who read it a round ago */
    return status;
}

int pysh_cells_compare_roots(ishmemx_team_t team, const char *what, const uint16_t *roots) {
    for (int i = 0; i < team->n_pes; i++)
        if (roots[i] != team->roots)
            return tell_roots(team, what, i);
    return ISHMEMX_OK;
}
