/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives on a stream whose data copy engines move: copies between two meetings of the members' streams. No
 * multiprocessor has a part in it but for the meetings, and a copy engine fills a link a tenth better than stores. */
#include "stream/engine.h"

#include <stdbool.h>
#include <stdint.h>

#include "accel/accel.h"
#include "base/state.h"
#include "ishmemx.h"
#include "teams/team.h"

#define PIECE 16 /* slices begin at multiples of it, at which copy engines are fast */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Where member `k` has what is at `address` here. */
static char *at_member(ishmemx_team_t team, int k, char *address) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];

    return arena->peer[team->pes[k]] + (address - arena->base);
}

static int stream_copy(void *dest, const void *source, size_t nbytes, void *stream) {
    return nbytes && dest != source ? pysh.accel->streams->copy(dest, source, nbytes, stream) : ISHMEMX_OK;
}

/* The copy within the own memory, on a stream beside, at the time of those to the others. */
static int begin_own(void *dest, const void *source, size_t nbytes, void *stream, void **side_p) {
    int status;

    *side_p = NULL;
    if (!nbytes || dest == source)
        return ISHMEMX_OK;
    if (!pysh.accel->streams->fork)
        return stream_copy(dest, source, nbytes, stream);
    status = pysh.accel->streams->fork(stream, side_p);
    return status ? status : stream_copy(dest, source, nbytes, *side_p);
}

/* Also behind a failure: a stream that is captured must not end with one beside. */
static int end_own(int status, void *stream, void *side) {
    int joined = side ? pysh.accel->streams->join(stream, side) : ISHMEMX_OK;

    return status ? status : joined;
}

/* Of a broadcast among more than two, member `k` behind the root has a slice to pass on, for the root's link is as
 * fast as anybody's. */
typedef struct slice {
    size_t at, nbytes;
} slice_t;

static slice_t slice_of(size_t nbytes, int others, int k) {
    size_t each = ((nbytes + (size_t)others - 1) / (size_t)others + PIECE - 1) / PIECE * PIECE;
    size_t at = least(nbytes, each * (size_t)(k - 1));

    return (slice_t){at, least(each, nbytes - at)};
}

static int from_root(ishmemx_team_t team, char *dest, const char *source, size_t nbytes, void *stream) {
    void *side;
    int n = team->n_pes, status = begin_own(dest, source, nbytes, stream, &side);

    for (int k = 1; !status && k < n; k++) {
        slice_t slice = slice_of(nbytes, n - 1, k);
        status = stream_copy(at_member(team, (team->my_pe + k) % n, dest) + slice.at, source + slice.at, slice.nbytes,
                             stream);
    }
    return end_own(status, stream, side);
}

static int pass_on(ishmemx_team_t team, char *dest, size_t nbytes, int root, void *stream) {
    int n = team->n_pes, status = ISHMEMX_OK;
    slice_t slice = slice_of(nbytes, n - 1, (team->my_pe - root + n) % n);

    for (int k = 1; !status && k < n; k++) {
        int member = (team->my_pe + k) % n;
        if (member != root)
            status = stream_copy(at_member(team, member, dest) + slice.at, dest + slice.at, slice.nbytes, stream);
    }
    return status;
}

int pysh_engine_broadcast(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root, void *stream) {
    int status = ishmemx_sync_on_stream(team, stream); /* the dests are free */

    if (!status && team->my_pe == root)
        status = from_root(team, dest, source, nbytes, stream);
    if (!status && team->n_pes > 2) {
        status = ishmemx_sync_on_stream(team, stream); /* the slices are there */
        if (!status && team->my_pe != root)
            status = pass_on(team, dest, nbytes, root, stream);
    }
    return status ? status : ishmemx_sync_on_stream(team, stream);
}

int pysh_engine_blocks(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, bool own_blocks,
                       void *stream) {
    int n = team->n_pes, me = team->my_pe, status = ishmemx_sync_on_stream(team, stream);
    size_t step = own_blocks ? nbytes : 0;
    char *place = (char *)dest + (size_t)me * nbytes; /* of the own block at every member */
    const char *begin = source;
    void *side = NULL;

    if (!status)
        status = begin_own(place, begin + (size_t)me * step, nbytes, stream, &side);
    for (int k = 1; !status && k < n; k++) { /* nobody is everybody's first */
        int member = (me + k) % n;
        status = stream_copy(at_member(team, member, place), begin + (size_t)member * step, nbytes, stream);
    }
    status = end_own(status, stream, side);
    return status ? status : ishmemx_sync_on_stream(team, stream);
}
