/* SPDX-License-Identifier: BSD-3-Clause
 * The stage of a team: a part of each host heap's system region, for small messages. A PE copies its piece there, the
 * team syncs, everybody reads what it needs. One sync is enough, because the stage has two halves used in turn: whoever
 * writes a half again has passed the sync of the call between, which its readers entered only after they had read. So
 * a dest is written by its own PE alone, which may use it otherwise until it enters the call, and source may change as
 * soon as the routine returns. */
#include "teams/stage.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/copy.h"
#include "am/am.h"
#include "base/state.h"
#include "teams/sync.h"
#include "teams/team.h"
#include "transport/transport.h"

/* ---- places: one name for the same bytes of every PE ---- */

static char *stage_mapped(pysh_place_t place, int pe) {
    char *peer = pysh.arena[place.heap].peer[pe];

    return peer ? peer + place.offset : NULL;
}

int pysh_place_read(pysh_place_t place, size_t nbytes, int pe, void *buffer, const void **data_p) {
    const char *peer = stage_mapped(place, pe);

    *data_p = buffer;
    if (pysh_goes_by_am(place.heap, pe))
        return pysh_am_get(place.heap, buffer, place.offset, nbytes, pe);
    if (!peer)
        return pysh.transport->get(place.heap, buffer, place.offset, nbytes, pe, false);
    if (!pysh.arena[place.heap].cpu_visible)
        return pysh.accel->copy(buffer, peer, nbytes);
    *data_p = peer;
    return ISHMEMX_OK;
}

int pysh_place_write(pysh_place_t place, const void *data, size_t nbytes, int pe) {
    char *peer = stage_mapped(place, pe);

    if (pysh_goes_by_am(place.heap, pe))
        return pysh_am_put(place.heap, place.offset, data, nbytes, pe);
    if (!peer)
        return pysh.transport->put(place.heap, place.offset, data, nbytes, pe, false);
    if (!pysh.arena[place.heap].cpu_visible)
        return pysh.accel->copy(peer, data, nbytes);
    memcpy(peer, data, nbytes);
    return ISHMEMX_OK;
}

/* ---- the stage ---- */

bool pysh_stage_fits(size_t nbytes) {
    return nbytes <= PYSH_STAGE_BYTES;
}

pysh_place_t pysh_stage(ishmemx_team_t team) {
    return (pysh_place_t){ISHMEMX_HEAP_HOST, team->stage + (int64_t)(team->staged & 1) * PYSH_STAGE_BYTES};
}

int pysh_stage_sync(ishmemx_team_t team, const char *what, int status) {
    int synced = pysh_team_sync(team, what);

    if (!synced)
        team->staged++; /* a sync that was interrupted did not count: the call can be made again */
    return status ? status : synced;
}

int pysh_stage_write(pysh_place_t stage, const void *source, size_t nbytes) {
    return pysh_copy(pysh.arena[stage.heap].base + stage.offset, source, nbytes);
}

int pysh_stage_read(pysh_place_t stage, void *dest, size_t nbytes, int pe) {
    char *peer = stage_mapped(stage, pe), copy[PYSH_STAGE_BYTES];
    int status;

    if (peer)
        return pysh_copy(dest, peer, nbytes);
    if (!pysh_on_gpu(dest))
        return pysh.transport->get(stage.heap, dest, stage.offset, nbytes, pe, false);
    status = pysh.transport->get(stage.heap, copy, stage.offset, nbytes, pe, false);
    return status ? status : pysh_copy(dest, copy, nbytes);
}
