/* SPDX-License-Identifier: BSD-3-Clause
 * Broadcast, blocking and non-blocking. */
#include <stdbool.h>
#include <stdint.h>

#include "accel/copy.h"
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

/* Bytes times members, in a team on several nodes: a gather brings every member's block to every node, though only
 * the root's has data. */
#define FEW_BYTES 4096

static int broadcast_staged(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    pysh_celled_t call = {"broadcast", pysh_cell_about(PYSH_CELL_BROADCAST, 0, root, nbytes), source, nbytes};
    pysh_shared_t shared = {.team = team};
    int status = ISHMEMX_OK;

    if (pysh_cells_serve(team, nbytes)) {
        status = pysh_cells_spread(team, &call, root, &shared.place);
        return status ? status : pysh_shared_read(&shared, root, dest, nbytes);
    }
    if (team->my_pe == root)
        status = pysh_stage_write(pysh_stage(team), source, nbytes);
    status = pysh_stage_share_told(team, &call, status, &shared);
    return status ? status : pysh_shared_read(&shared, root, dest, nbytes);
}

static int broadcast_fetch(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    if (team->my_pe != root)
        return pysh_get(dest, source, nbytes, team->pes[root]);
    return dest == source ? ISHMEMX_OK : pysh_copy(dest, source, nbytes);
}

static int broadcast_direct(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    int status = pysh_coll_start(team, "broadcast", pysh_cell_about(PYSH_CELL_BROADCAST, 0, root, nbytes));

    if (status)
        return status;
    status = broadcast_fetch(team, dest, source, nbytes, root); /* again, if the call is: nobody has changed it */
    return pysh_is_unfinished(status) ? status : pysh_coll_end(team, "broadcast", status);
}

static int broadcast_check(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    pysh_place_t dest_place, source_place;
    int status = pysh_coll_check(team, dest, nbytes, source, nbytes, &dest_place, &source_place);

    if (!status)
        status = pysh_check_pe_as("root", root, team->n_pes);
    if (!status && dest != source)
        status = pysh_check_overlap_of(dest, nbytes, "source", source, nbytes, 0, "the same array for both");
    return status;
}

static int (*choose(ishmemx_team_t team, size_t nbytes))(ishmemx_team_t, void *, const void *, size_t, int) {
    bool few = team->nodes.n == 1 || nbytes <= FEW_BYTES / (size_t)team->n_pes;

    if (pysh_stage_fits(nbytes) && few)
        return broadcast_staged;
    return team->nodes.n > 1 ? pysh_rails_broadcast : broadcast_direct;
}

/* `own`: where the root has its data behind the call: dest, or source alone, which is the rule of active sets. */
static int broadcast(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root, void *own) {
    pysh_call_t call = {"broadcast", -1, -1, root, nbytes, dest, source};
    int status;

    PYSH_ENTER();
    if ((status = pysh_coll_begin(team, &call, broadcast_check(team, dest, source, nbytes, root))))
        return status;
    if (nbytes)
        status = choose(team, nbytes)(team, team->my_pe == root ? own : dest, source, nbytes, root);
    pysh_team_unclaim(team, status);
    return status;
}

int ishmemx_broadcast(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    return broadcast(team, dest, source, nbytes, root, dest);
}

int pysh_broadcast_to_others(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    return broadcast(team, dest, source, nbytes, root, (void *)(uintptr_t)source);
}

static int broadcast_pull(const struct ishmemx_request *request) {
    return broadcast_fetch(request->team, request->dest, request->source, request->call.nbytes, request->call.root);
}

int ishmemx_broadcast_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root,
                         ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = team,
                                    .call = {"broadcast_nb", -1, -1, root, nbytes, dest, source},
                                    .pull = nbytes ? broadcast_pull : NULL,
                                    .dest = dest,
                                    .source = source};

    PYSH_ENTER();
    return pysh_request_begin(&asked, broadcast_check(team, dest, source, nbytes, root), request);
}
