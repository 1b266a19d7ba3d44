/* SPDX-License-Identifier: BSD-3-Clause
 * Fcollect, blocking and non-blocking: every PE gives as many bytes. */
#include <stdint.h>
#include <stdlib.h>

#include "base/extent.h"
#include "base/status.h"
#include "collectives/collective.h"
#include "collectives/rails.h"
#include "collectives/request.h"
#include "ishmemx.h"
#include "node/enter.h"
#include "ops/rma.h"
#include "teams/gather.h"
#include "teams/stage.h"
#include "teams/sync.h"
#include "teams/team.h"

static int fcollect_staged(ishmemx_team_t team, char *dest, const void *source, size_t nbytes) {
    pysh_celled_t call = {"fcollect", pysh_cell_about(PYSH_CELL_FCOLLECT, 0, 0, nbytes), source, nbytes};
    pysh_shared_t shared;
    int status = pysh_share(team, &call, &shared);

    for (int i = 0; !status && i < team->n_pes; i++)
        status = pysh_shared_read(&shared, i, dest + (size_t)i * nbytes, nbytes);
    return status;
}

/* Each PE begins with its own block, so that not all read from the same PE at once. */
static int fcollect_fetch(ishmemx_team_t team, char *dest, const void *source, size_t nbytes) {
    int status = ISHMEMX_OK;

    for (int i = 0; !status && i < team->n_pes; i++) {
        int member = (team->my_pe + i) % team->n_pes;
        status = pysh_get(dest + (size_t)member * nbytes, source, nbytes, team->pes[member]);
    }
    return status;
}

static int fcollect_direct(ishmemx_team_t team, char *dest, const void *source, size_t nbytes) {
    int status = pysh_coll_start(team, "fcollect", pysh_cell_about(PYSH_CELL_FCOLLECT, 0, 0, nbytes));

    if (status)
        return status;
    status = fcollect_fetch(team, dest, source, nbytes); /* again, if the call is: nobody has changed it */
    return pysh_is_unfinished(status) ? status : pysh_coll_end(team, "fcollect", status);
}

/* On several nodes. */
static int fcollect_by_nodes(ishmemx_team_t team, char *dest, pysh_place_t place, size_t nbytes) {
    size_t n = (size_t)team->n_pes, *at = malloc((n + 1) * (sizeof *at + sizeof(pysh_place_t)));
    pysh_place_t *sources = (pysh_place_t *)(void *)(at + n + 1);
    int status;

    if (!at)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "fcollect: no memory for a list of %d PEs", team->n_pes);
    for (size_t i = 0; i <= n; i++)
        at[i] = i * nbytes;
    for (size_t i = 0; i < n; i++)
        sources[i] = place;
    status = pysh_rails_collect(team, "fcollect", dest, &(pysh_parts_t){at, sources});
    free(at);
    return status;
}

static int fcollect_check(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, pysh_place_t *source_p) {
    pysh_place_t dest_place;
    size_t total = 0;
    int status;

    if (team && team->slot >= 0 && !pysh_extent(1, 0, nbytes, (size_t)team->n_pes, &total))
        total = SIZE_MAX;
    status = pysh_coll_check(team, dest, total, source, nbytes, &dest_place, source_p);
    return status ? status : pysh_check_overlap(dest, total, source, nbytes);
}

static int fcollect(ishmemx_team_t team, char *dest, const void *source, pysh_place_t place, size_t nbytes) {
    if (pysh_stage_fits(nbytes) && pysh_stage_gathers(team, nbytes))
        return fcollect_staged(team, dest, source, nbytes);
    return team->nodes.n > 1 ? fcollect_by_nodes(team, dest, place, nbytes)
                             : fcollect_direct(team, dest, source, nbytes);
}

int ishmemx_fcollect(ishmemx_team_t team, void *dest, const void *source, size_t nbytes) {
    pysh_call_t call = {"fcollect", -1, -1, -1, nbytes, dest, source};
    pysh_place_t place;
    int status;

    PYSH_ENTER();
    if ((status = pysh_coll_begin(team, &call, fcollect_check(team, dest, source, nbytes, &place))))
        return status;
    if (nbytes)
        status = fcollect(team, dest, source, place, nbytes);
    pysh_team_unclaim(team, status);
    return status;
}

static int fcollect_pull(const struct ishmemx_request *request) {
    return fcollect_fetch(request->team, request->dest, request->source, request->call.nbytes);
}

int ishmemx_fcollect_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                        ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = team,
                                    .call = {"fcollect_nb", -1, -1, -1, nbytes, dest, source},
                                    .pull = nbytes ? fcollect_pull : NULL,
                                    .dest = dest,
                                    .source = source};
    pysh_place_t place;

    PYSH_ENTER();
    return pysh_request_begin(&asked, fcollect_check(team, dest, source, nbytes, &place), request);
}
