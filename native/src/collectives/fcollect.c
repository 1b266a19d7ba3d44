/* SPDX-License-Identifier: BSD-3-Clause
 * Fcollect, blocking and non-blocking: every PE gives as many bytes. */
#include <stdint.h>

#include "base/status.h"
#include "collectives/collective.h"
#include "collectives/request.h"
#include "ishmemx.h"
#include "job/enter.h"
#include "ops/rma.h"
#include "teams/stage.h"
#include "teams/team.h"

static int fcollect_staged(ishmemx_team_t team, char *dest, const void *source, size_t nbytes) {
    pysh_place_t stage = pysh_stage(team);
    int status = pysh_stage_sync(team, "fcollect", pysh_stage_write(stage, source, nbytes));

    for (int i = 0; !status && i < team->n_pes; i++)
        status = pysh_stage_read(stage, dest + (size_t)i * nbytes, nbytes, team->pes[i]);
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
    int status = pysh_team_sync(team, "fcollect");

    return status ? status : pysh_coll_end(team, "fcollect", fcollect_fetch(team, dest, source, nbytes));
}

static int fcollect_check(ishmemx_team_t team, void *dest, const void *source, size_t nbytes) {
    pysh_place_t dest_place, source_place;
    size_t total = 0;
    int status;

    if (team && team->slot >= 0 && __builtin_mul_overflow(nbytes, (size_t)team->n_pes, &total))
        total = SIZE_MAX;
    status = pysh_coll_check(team, dest, total, source, nbytes, &dest_place, &source_place);
    return status ? status : pysh_check_overlap(dest, total, source, nbytes);
}

int ishmemx_fcollect(ishmemx_team_t team, void *dest, const void *source, size_t nbytes) {
    pysh_call_t call = {"fcollect", -1, -1, -1, nbytes};
    int status;

    PYSH_ENTER();
    if ((status = pysh_coll_begin(team, &call, fcollect_check(team, dest, source, nbytes))))
        return status;
    if (nbytes)
        status = (pysh_stage_fits(nbytes) ? fcollect_staged : fcollect_direct)(team, dest, source, nbytes);
    pysh_team_unclaim(team);
    return status;
}

static int fcollect_pull(const struct ishmemx_request *request) {
    return fcollect_fetch(request->team, request->dest, request->source, request->call.nbytes);
}

int ishmemx_fcollect_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                        ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = team,
                                    .call = {"fcollect_nb", -1, -1, -1, nbytes},
                                    .pull = nbytes ? fcollect_pull : NULL,
                                    .dest = dest,
                                    .source = source};

    PYSH_ENTER();
    return pysh_request_begin(&asked, fcollect_check(team, dest, source, nbytes), request);
}
