/* SPDX-License-Identifier: BSD-3-Clause
 * Collect, blocking and non-blocking: the sizes may differ, so each PE gives its own, with the data when that is small.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/copy.h"
#include "base/state.h"
#include "base/status.h"
#include "collectives/collective.h"
#include "collectives/rails.h"
#include "collectives/request.h"
#include "node/enter.h"
#include "ops/rma.h"
#include "teams/gather.h"
#include "teams/stage.h"
#include "teams/team.h"

#define SMALL_CONTRIBUTION (PYSH_STAGE_BYTES - sizeof(pysh_contribution_t))
#define GATHERED_BYTES 512 /* of a member's stage, in a team on several nodes: few, as each one's go to every node */

static int stage_contribution(pysh_place_t stage, const pysh_contribution_t *mine, const void *source) {
    char *own = pysh.arena[stage.heap].base + stage.offset;

    memcpy(own, mine, sizeof *mine);
    if (!mine->nbytes || mine->nbytes > SMALL_CONTRIBUTION)
        return ISHMEMX_OK;
    return pysh_copy(own + sizeof *mine, source, mine->nbytes);
}

/* Saturates: more than any dest holds. */
static size_t plus(size_t total, uint64_t nbytes) {
    return __builtin_add_overflow(total, nbytes, &total) ? SIZE_MAX : total;
}

/* Learns the contributions, their total and the largest. */
static int read_contributions(const pysh_shared_t *shared, pysh_contribution_t *contributions, size_t *total_p,
                              uint64_t *largest_p) {
    int status = ISHMEMX_OK;

    *total_p = *largest_p = 0;
    for (int i = 0; !status && i < shared->team->n_pes; i++) {
        if ((status = pysh_shared_read(shared, i, &contributions[i], sizeof *contributions)))
            break;
        if (contributions[i].nbytes > *largest_p)
            *largest_p = contributions[i].nbytes;
        *total_p = plus(*total_p, contributions[i].nbytes);
    }
    return status;
}

static int fetch_contribution(pysh_place_t stage, const pysh_contribution_t *contribution, int pe, char *dest) {
    bool small = contribution->nbytes <= SMALL_CONTRIBUTION;
    pysh_place_t place = {small ? stage.heap : contribution->heap,
                          small ? stage.offset + (int64_t)sizeof *contribution : contribution->offset};

    return pysh_own_get(dest, pysh.arena[place.heap].base + place.offset, contribution->nbytes, pe);
}

static int fetch_each(ishmemx_team_t team, pysh_place_t stage, const pysh_contribution_t *contributions, char *dest) {
    int status = ISHMEMX_OK;

    for (int i = 0; !status && i < team->n_pes; i++) {
        if (contributions[i].nbytes)
            status = fetch_contribution(stage, &contributions[i], team->pes[i], dest);
        dest += contributions[i].nbytes;
    }
    return status;
}

/* ---- on several nodes ---- */

/* Gathered of each member: its record and, where there is room for both, the first of its data. */
static size_t gathered_nbytes(ishmemx_team_t team) {
    return pysh_stage_gathers(team, GATHERED_BYTES) ? GATHERED_BYTES : sizeof(pysh_contribution_t);
}

static int read_gathered(const pysh_shared_t *shared, const pysh_contribution_t *contributions, char *dest) {
    int status = ISHMEMX_OK, pe;

    for (int i = 0; !status && i < shared->team->n_pes; i++) {
        pysh_place_t place = pysh_shared_place(shared, i, &pe);
        place.offset += (int64_t)sizeof *contributions;
        status = pysh_stage_read(place, dest, contributions[i].nbytes, pe);
        dest += contributions[i].nbytes;
    }
    return status;
}

/* Few bytes, too, are read from the sources: they stay until all members meet at the end. */
static int fetch_by_nodes(ishmemx_team_t team, const pysh_contribution_t *contributions, char *dest) {
    size_t n = (size_t)team->n_pes, *at = malloc((n + 1) * (sizeof *at + sizeof(pysh_place_t)));
    pysh_place_t *sources = (pysh_place_t *)(void *)(at + n + 1);
    int status;

    if (!at)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "collect: no memory for a list of %d PEs", team->n_pes);
    at[0] = 0;
    for (size_t i = 0; i < n; i++) {
        at[i + 1] = at[i] + contributions[i].nbytes;
        sources[i] = (pysh_place_t){contributions[i].heap, contributions[i].offset};
    }
    status = pysh_rails_collect(team, "collect", dest, &(pysh_parts_t){at, sources});
    free(at);
    return status;
}

/* ---- all of it ---- */

/* Every PE looks at all, so all fail alike, before anything is written. */
static int check_room(ishmemx_team_t team, const pysh_contribution_t *contributions, size_t total) {
    for (int i = 0; i < team->n_pes; i++)
        if (contributions[i].capacity < total)
            return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                             "collect: the parts are %zu bytes together, but dest of PE %d of the "
                             "team holds %llu",
                             total, i, (unsigned long long)contributions[i].capacity);
    return ISHMEMX_OK;
}

static int check_dest(ishmemx_team_t team, const void *dest, const pysh_contribution_t *contributions, size_t total) {
    pysh_place_t ignored;
    int status = check_room(team, contributions, total);

    if (!status)
        status = pysh_coll_check(team, dest, total, NULL, 0, &ignored, &ignored);
    for (int i = 0; !status && i < team->n_pes; i++)
        status = pysh_check_overlap(dest, total, pysh.arena[contributions[i].heap].base + contributions[i].offset,
                                    contributions[i].nbytes);
    return status;
}

static int fetch_contributions(ishmemx_team_t team, char *dest, const pysh_contribution_t *mine, const void *source,
                               pysh_contribution_t *contributions) {
    pysh_shared_t shared;
    size_t total, gathered = gathered_nbytes(team);
    uint64_t largest;
    int status;

    if (!pysh_passed(team, &status, &shared, sizeof shared)) {
        status = stage_contribution(pysh_stage(team), mine, source);
        status = pysh_stage_share(team, "collect", gathered, status, &shared);
        pysh_pass(team, status, &shared, sizeof shared);
    }
    if (status || (status = read_contributions(&shared, contributions, &total, &largest)))
        return status;
    status = check_dest(team, dest, contributions, total);
    if (team->nodes.n > 1 && !status)
        return largest <= gathered - sizeof *mine ? read_gathered(&shared, contributions, dest)
                                                  : fetch_by_nodes(team, contributions, dest);
    if (!status)
        status = fetch_each(team, shared.place, contributions, dest);
    if (pysh_is_unfinished(status))
        return status;
    return largest > SMALL_CONTRIBUTION && team->nodes.n == 1 ? pysh_coll_end(team, "collect", status) : status;
}

int ishmemx_collect(ishmemx_team_t team, void *dest, size_t capacity, const void *source, size_t nbytes) {
    pysh_call_t call = {"collect", -1, -1, -1, 0, NULL, NULL};
    pysh_place_t dest_place, place = {0, 0};
    pysh_contribution_t mine = {.nbytes = nbytes, .capacity = capacity}, *contributions;
    int status;

    PYSH_ENTER();
    status = pysh_coll_check(team, dest, 0, source, nbytes, &dest_place, &place);
    if ((status = pysh_coll_begin(team, &call, status)))
        return status;
    mine.heap = place.heap;
    mine.offset = place.offset;
    contributions = malloc((size_t)team->n_pes * sizeof *contributions);
    if (contributions)
        status = fetch_contributions(team, dest, &mine, source, contributions);
    else
        status = pysh_fail(ISHMEMX_ERR_MEMORY, "collect: no memory for the sizes of %d PEs", team->n_pes);
    free(contributions);
    pysh_team_unclaim(team, status);
    return status;
}

/* The parts were announced; all are read straight from the members' sources. */
static int collect_pull(const struct ishmemx_request *request) {
    ishmemx_team_t team = request->team;
    pysh_contribution_t *contributions = malloc((size_t)team->n_pes * sizeof *contributions);
    pysh_announcement_t theirs;
    char *dest = request->dest;
    int status = ISHMEMX_OK;
    size_t total = 0;

    if (!contributions)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "collect: no memory for the sizes of %d PEs", team->n_pes);
    for (int i = 0; !status && i < team->n_pes; i++) {
        if ((status = pysh_request_read(request, i, &theirs)))
            break;
        contributions[i] = theirs.contribution;
        total = plus(total, contributions[i].nbytes);
    }
    if (!status)
        status = check_dest(team, dest, contributions, total);
    for (int i = 0; !status && i < team->n_pes; i++) {
        if (contributions[i].nbytes)
            status = pysh_get(dest, pysh.arena[contributions[i].heap].base + contributions[i].offset,
                              contributions[i].nbytes, team->pes[i]);
        dest += contributions[i].nbytes;
    }
    free(contributions);
    return status;
}

int ishmemx_collect_nb(ishmemx_team_t team, void *dest, size_t capacity, const void *source, size_t nbytes,
                       ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = team,
                                    .call = {"collect_nb", -1, -1, -1, 0, NULL, NULL},
                                    .pull = collect_pull,
                                    .dest = dest,
                                    .source = source,
                                    .contribution = {.nbytes = nbytes, .capacity = capacity}};
    pysh_place_t ignored;
    int status;

    PYSH_ENTER();
    status = pysh_coll_check(team, dest, 0, source, nbytes, &ignored, &asked.source_place);
    asked.contribution.heap = asked.source_place.heap;
    asked.contribution.offset = asked.source_place.offset;
    return pysh_request_begin(&asked, status, request);
}
