/* SPDX-License-Identifier: BSD-3-Clause
 * Broadcast, fcollect and what all collectives share.
 *
 * Small messages go through the team's stage, a part of each host heap's system region: a PE copies its part
 * there, the team syncs, everybody reads what it needs. One sync is enough, because the stage has two
 * halves used in turn: whoever writes a half again has passed the sync of the call between, which its
 * readers entered only after they had read. So dest is free to be in use elsewhere until its own PE
 * enters, and source may change as soon as the routine returns.
 *
 * Large messages are read straight from the members' sources, between two syncs. */
#include <stdlib.h>
#include <string.h>

#include "collectives/request.h"

static int world_pe(ishmemx_team_t team, int member) {
    return team->pes[member];
}

/* ---- agreement, in checking mode ---- */

pysh_record_t pysh_record_of(const pysh_call_t *call, int status) {
    return (pysh_record_t){
        .op = call->op, .type = call->type, .root = call->root, .status = status, .nbytes = call->nbytes};
}

int pysh_record_compare(const pysh_call_t *call, const pysh_record_t *mine, const pysh_record_t *other, int pe) {
    if (!memcmp(mine, other, sizeof *mine))
        return ISHMEMX_OK;
    if (other->status)
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: PE %d refused its arguments; the message is there", call->routine,
                         pe);
    if (mine->nbytes != other->nbytes)
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: %llu bytes on PE %d, but %llu on PE %d", call->routine,
                         (unsigned long long)mine->nbytes, pysh.pe, (unsigned long long)other->nbytes, pe);
    if (mine->root != other->root)
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: root %d on PE %d, but %d on PE %d", call->routine, mine->root,
                         pysh.pe, other->root, pe);
    return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: another operation or type on PE %d than on PE %d", call->routine,
                     pysh.pe, pe);
}

static int agree(ishmemx_team_t team, const pysh_call_t *call, int status) {
    pysh_record_t mine = pysh_record_of(call, status), *all;
    int outcome;

    if (!pysh.check || team->n_pes == 1)
        return status;
    all = calloc((size_t)team->n_pes, sizeof *all);
    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "%s: no memory to compare arguments", call->routine);
    if (team == &ishmemx_team_world) /* it tells besides when others are in a barrier */
        outcome = pysh.conduit->exchange(call->routine, &mine, all, sizeof mine);
    else
        outcome = pysh_team_gather(team, call->routine, &mine, all, sizeof mine);
    for (int i = 0; !outcome && !status && i < team->n_pes; i++)
        outcome = pysh_record_compare(call, &mine, &all[i], world_pe(team, i));
    free(all);
    return status ? status : outcome;
}

int pysh_coll_begin(ishmemx_team_t team, const pysh_call_t *call, int status) {
    int claimed;

    if (!team || team->slot < 0)
        return status;
    if ((claimed = pysh_team_claim(team, call->routine)))
        return status ? status : claimed;
    if ((status = agree(team, call, status)))
        pysh_team_unclaim(team);
    return status;
}

/* ---- places: one name for the same bytes of every PE ---- */

static char *mapped(pysh_place_t place, int pe) {
    char *peer = pysh.arena[place.heap].peer[pe];

    return peer ? peer + place.offset : NULL;
}

int pysh_place_read(pysh_place_t place, size_t nbytes, int pe, void *buffer, const void **data_p) {
    const char *peer = mapped(place, pe);

    *data_p = buffer;
    if (!peer)
        return pysh.conduit->get(place.heap, buffer, place.offset, nbytes, pe);
    if (!pysh.arena[place.heap].cpu_visible)
        return pysh.accel->copy(buffer, peer, nbytes);
    *data_p = peer;
    return ISHMEMX_OK;
}

int pysh_place_write(pysh_place_t place, const void *data, size_t nbytes, int pe) {
    char *peer = mapped(place, pe);

    if (!peer)
        return pysh.conduit->put(place.heap, place.offset, data, nbytes, pe);
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

static int stage_write(pysh_place_t stage, const void *source, size_t nbytes) {
    return pysh_copy(pysh.arena[stage.heap].base + stage.offset, source, nbytes);
}

/* What `pe` staged, to anywhere in this process. */
static int stage_read(pysh_place_t stage, void *dest, size_t nbytes, int pe) {
    char *peer = mapped(stage, pe), copy[PYSH_STAGE_BYTES];
    int status;

    if (peer)
        return pysh_copy(dest, peer, nbytes);
    status = pysh.conduit->get(stage.heap, copy, stage.offset, nbytes, pe);
    return status ? status : pysh_copy(dest, copy, nbytes);
}

int pysh_team_gather(ishmemx_team_t team, const char *what, const void *mine, void *all, size_t nbytes) {
    pysh_place_t stage = pysh_stage(team);
    int status = pysh_stage_sync(team, what, stage_write(stage, mine, nbytes));

    for (int i = 0; !status && i < team->n_pes; i++)
        status = stage_read(stage, (char *)all + (size_t)i * nbytes, nbytes, world_pe(team, i));
    return status;
}

/* ---- beginning and end ---- */

int pysh_coll_check(ishmemx_team_t team, const void *dest, size_t dest_bytes, const void *source, size_t source_bytes,
                    pysh_place_t *dest_p, pysh_place_t *source_p) {
    int status = pysh_team_check(team);

    if (!status && dest_bytes)
        status = pysh_heap_find(dest, dest_bytes, "dest", &dest_p->heap, &dest_p->offset);
    if (!status && source_bytes)
        status = pysh_heap_find(source, source_bytes, "source", &source_p->heap, &source_p->offset);
    return status;
}

/* Whatever became of the copies, the sync takes place: the other members are in it. */
int pysh_coll_end(ishmemx_team_t team, const char *what, int status) {
    int delivered = pysh.conduit->quiet ? pysh.conduit->quiet() : ISHMEMX_OK;
    int synced = pysh_team_sync(team, what);

    return status ? status : delivered ? delivered : synced;
}

/* ---- broadcast and fcollect ---- */

static int arguments_check(ishmemx_team_t team, const void *dest, size_t dest_bytes, const void *source,
                           size_t source_bytes) {
    pysh_place_t dest_place, source_place;

    return pysh_coll_check(team, dest, dest_bytes, source, source_bytes, &dest_place, &source_place);
}

static int broadcast_staged(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    pysh_place_t stage = pysh_stage(team);
    int status = ISHMEMX_OK;

    if (team->my_pe == root)
        status = stage_write(stage, source, nbytes);
    status = pysh_stage_sync(team, "broadcast", status);
    return status ? status : stage_read(stage, dest, nbytes, world_pe(team, root));
}

static int broadcast_fetch(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    if (team->my_pe != root)
        return pysh_get(dest, source, nbytes, world_pe(team, root));
    return dest == source ? ISHMEMX_OK : pysh_copy(dest, source, nbytes);
}

static int broadcast_direct(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    int status = pysh_team_sync(team, "broadcast");

    return status ? status : pysh_coll_end(team, "broadcast", broadcast_fetch(team, dest, source, nbytes, root));
}

static int broadcast_check(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    int status = arguments_check(team, dest, nbytes, source, nbytes);

    if (!status && (root < 0 || root >= team->n_pes))
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "root %d is outside the team of %d PEs (0..%d)", root, team->n_pes,
                           team->n_pes - 1);
    if (!status && dest != source)
        status = pysh_check_overlap(dest, nbytes, source, nbytes);
    return status;
}

int ishmemx_broadcast(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    pysh_call_t call = {"broadcast", -1, -1, root, nbytes};
    int status;

    PYSH_ENTER();
    if ((status = pysh_coll_begin(team, &call, broadcast_check(team, dest, source, nbytes, root))))
        return status;
    if (nbytes)
        status = (pysh_stage_fits(nbytes) ? broadcast_staged : broadcast_direct)(team, dest, source, nbytes, root);
    pysh_team_unclaim(team);
    return status;
}

static int broadcast_pull(const struct ishmemx_request *request) {
    return broadcast_fetch(request->team, request->dest, request->source, request->call.nbytes, request->call.root);
}

int ishmemx_broadcast_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root,
                         ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = team,
                                    .call = {"broadcast_nb", -1, -1, root, nbytes},
                                    .pull = nbytes ? broadcast_pull : NULL,
                                    .dest = dest,
                                    .source = source};

    PYSH_ENTER();
    return pysh_request_begin(&asked, broadcast_check(team, dest, source, nbytes, root), request);
}

static int fcollect_staged(ishmemx_team_t team, char *dest, const void *source, size_t nbytes) {
    pysh_place_t stage = pysh_stage(team);
    int status = pysh_stage_sync(team, "fcollect", stage_write(stage, source, nbytes));

    for (int i = 0; !status && i < team->n_pes; i++)
        status = stage_read(stage, dest + (size_t)i * nbytes, nbytes, world_pe(team, i));
    return status;
}

/* Each PE begins with its own block, so that not all read from the same PE at once. */
static int fcollect_fetch(ishmemx_team_t team, char *dest, const void *source, size_t nbytes) {
    int status = ISHMEMX_OK;

    for (int i = 0; !status && i < team->n_pes; i++) {
        int member = (team->my_pe + i) % team->n_pes;
        status = pysh_get(dest + (size_t)member * nbytes, source, nbytes, world_pe(team, member));
    }
    return status;
}

static int fcollect_direct(ishmemx_team_t team, char *dest, const void *source, size_t nbytes) {
    int status = pysh_team_sync(team, "fcollect");

    return status ? status : pysh_coll_end(team, "fcollect", fcollect_fetch(team, dest, source, nbytes));
}

static int fcollect_check(ishmemx_team_t team, void *dest, const void *source, size_t nbytes) {
    size_t total = 0;
    int status;

    if (team && team->slot >= 0 && __builtin_mul_overflow(nbytes, (size_t)team->n_pes, &total))
        total = SIZE_MAX;
    status = arguments_check(team, dest, total, source, nbytes);
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
