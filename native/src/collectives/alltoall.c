/* SPDX-License-Identifier: BSD-3-Clause
 * Alltoall and alltoalls, blocking and non-blocking. */
#include <stdbool.h>
#include <stdint.h>

#include "accel/copy.h"
#include "base/extent.h"
#include "base/state.h"
#include "base/status.h"
#include "collectives/collective.h"
#include "collectives/request.h"
#include "node/enter.h"
#include "ops/rma.h"
#include "teams/gather.h"
#include "teams/stage.h"
#include "teams/sync.h"
#include "teams/team.h"

/* Bytes on one side; SIZE_MAX when it is more than any heap holds. */
static size_t span(ishmemx_team_t team, size_t nelems, size_t stride, size_t width) {
    size_t elements, nbytes;

    if (pysh_team_check(team))
        return 0;
    return pysh_extent(1, 0, nelems, (size_t)team->n_pes, &elements) && pysh_extent(elements, stride, 1, width, &nbytes)
               ? nbytes
               : SIZE_MAX;
}

/* On several nodes, more blocks than each node's members want come to it, in fewer messages. */
static bool small(ishmemx_team_t team, size_t nbytes) {
    size_t all = nbytes * (size_t)team->n_pes;

    return pysh_stage_fits(all) && pysh_stage_gathers(team, all);
}

static int alltoall_staged(ishmemx_team_t team, char *dest, const void *source, size_t nbytes) {
    size_t all = nbytes * (size_t)team->n_pes;
    pysh_celled_t call = {"alltoall", pysh_cell_about(PYSH_CELL_ALLTOALL, 0, 0, all), source, all};
    pysh_shared_t shared;
    int pe, status = pysh_share(team, &call, &shared);

    for (int i = 0; !status && i < team->n_pes; i++) {
        pysh_place_t place = pysh_shared_place(&shared, i, &pe);
        place.offset += (int64_t)((size_t)team->my_pe * nbytes);
        status = pysh_stage_read(place, dest + (size_t)i * nbytes, nbytes, pe);
    }
    return status;
}

/* Each PE begins with its own block, so that not all read from the same PE at once. */
static int alltoalls_fetch(ishmemx_team_t team, char *dest, const char *source, ptrdiff_t dest_stride,
                           ptrdiff_t source_stride, size_t nelems, size_t width) {
    size_t dest_block = nelems * (size_t)dest_stride * width, source_block = nelems * (size_t)source_stride * width;
    int status = ISHMEMX_OK;

    source += (size_t)team->my_pe * source_block;
    for (int i = 0; !status && i < team->n_pes; i++) {
        int member = (team->my_pe + i) % team->n_pes;
        char *to = dest + (size_t)member * dest_block;
        if (dest_stride == 1 && source_stride == 1)
            status = pysh_get(to, source, nelems * width, team->pes[member]);
        else
            status = ishmemx_iget(&ishmemx_ctx_default, to, source, dest_stride, source_stride, 1, nelems, width,
                                  team->pes[member]);
    }
    return status;
}

static int alltoalls_direct(ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                            ptrdiff_t source_stride, size_t nelems, size_t width) {
    uint64_t about = pysh_cell_about(PYSH_CELL_ALLTOALL, 0, 0, nelems * width * (size_t)team->n_pes);
    int status = pysh_coll_start(team, "alltoall", about);

    if (status)
        return status;
    status = alltoalls_fetch(team, dest, source, dest_stride, source_stride, nelems, width); /* again, if the call is */
    return pysh_is_unfinished(status) ? status : pysh_coll_end(team, "alltoall", status);
}

static int alltoalls_check(const char *routine, ishmemx_team_t team, const void *dest, const void *source,
                           ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t nelems, size_t width) {
    pysh_place_t dest_place, source_place;
    size_t dest_bytes, source_bytes;
    int status = ISHMEMX_OK;

    if (dest_stride < 1 || source_stride < 1)
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: the strides are %td and %td, not at least 1", routine,
                           dest_stride, source_stride);
    dest_bytes = span(team, nelems, (size_t)dest_stride, width);
    source_bytes = span(team, nelems, (size_t)source_stride, width);
    if (!status)
        status = pysh_coll_check(team, dest, dest_bytes, source, source_bytes, &dest_place, &source_place);
    return status ? status : pysh_check_overlap_of(dest, dest_bytes, "source", source, source_bytes, width, NULL);
}

static int alltoalls(const char *routine, ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                     ptrdiff_t source_stride, size_t nelems, size_t width) {
    pysh_call_t call = {routine, (int)dest_stride, (int)source_stride, -1, nelems, NULL, source};
    int status = alltoalls_check(routine, team, dest, source, dest_stride, source_stride, nelems, width);

    if ((status = pysh_coll_begin(team, &call, status)))
        return status;
    if (nelems && width && dest_stride == 1 && source_stride == 1 && small(team, nelems * width))
        status = alltoall_staged(team, dest, source, nelems * width);
    else if (nelems && width)
        status = alltoalls_direct(team, dest, source, dest_stride, source_stride, nelems, width);
    pysh_team_unclaim(team, status);
    return status;
}

int ishmemx_alltoall(ishmemx_team_t team, void *dest, const void *source, size_t nbytes) {
    PYSH_ENTER();
    return alltoalls("alltoall", team, dest, source, 1, 1, nbytes, 1);
}

int ishmemx_alltoalls(ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                      ptrdiff_t source_stride, size_t nelems, size_t width) {
    PYSH_ENTER();
    return alltoalls("alltoalls", team, dest, source, dest_stride, source_stride, nelems, width);
}

static int alltoalls_pull(const struct ishmemx_request *r) {
    return alltoalls_fetch(r->team, r->dest, r->source, r->dest_stride, r->source_stride, r->nelems, r->width);
}

static int alltoalls_begin(const char *routine, ishmemx_team_t team, void *dest, const void *source,
                           ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t nelems, size_t width,
                           ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = team,
                                    .call = {routine, (int)dest_stride, (int)source_stride, -1, nelems, NULL, source},
                                    .pull = nelems && width ? alltoalls_pull : NULL,
                                    .dest = dest,
                                    .source = source,
                                    .dest_stride = dest_stride,
                                    .source_stride = source_stride,
                                    .nelems = nelems,
                                    .width = width};
    int status = alltoalls_check(routine, team, dest, source, dest_stride, source_stride, nelems, width);

    return pysh_request_begin(&asked, status, request);
}

int ishmemx_alltoall_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                        ishmemx_request_t *request) {
    PYSH_ENTER();
    return alltoalls_begin("alltoall_nb", team, dest, source, 1, 1, nbytes, 1, request);
}

int ishmemx_alltoalls_nb(ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                         ptrdiff_t source_stride, size_t nelems, size_t width, ishmemx_request_t *request) {
    PYSH_ENTER();
    return alltoalls_begin("alltoalls_nb", team, dest, source, dest_stride, source_stride, nelems, width, request);
}
