/* SPDX-License-Identifier: BSD-3-Clause
 * Scans: sums over the PEs before (exclusive) or up to (inclusive) the calling one, in PE order. Small ones go through
 * the stage (teams/stage.c): what a PE staged it may overwrite, so dest may equal source. Of large ones each member
 * sums a slice for all. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/copy.h"
#include "base/elements.h"
#include "base/extent.h"
#include "base/state.h"
#include "base/status.h"
#include "collectives/chain.h"
#include "collectives/collective.h"
#include "collectives/combine.h"
#include "collectives/reduce.h"
#include "collectives/request.h"
#include "node/enter.h"
#include "teams/gather.h"
#include "teams/stage.h"
#include "teams/sync.h"
#include "teams/team.h"

typedef struct scan {
    ishmemx_team_t team;
    int type, members; /* PEs 0..members-1 are summed */
    size_t nbytes;     /* of an element */
} scan_t;

static int sum_members(const scan_t *scan, const pysh_shared_t *shared, char *acc, char *copy, size_t n) {
    if (!scan->members)
        memset(acc, 0, n * scan->nbytes);
    for (int i = 0; i < scan->members; i++) {
        const void *in;
        int pe;
        pysh_place_t place = pysh_shared_place(shared, i, &pe);
        int status = pysh_place_read(place, n * scan->nbytes, pe, copy, &in);
        if (status)
            return status;
        if (i == 0)
            pysh_combine_begin(scan->type, acc, in, n);
        else
            pysh_combine(ISHMEMX_REDUCE_SUM, scan->type, acc, in, n);
    }
    if (scan->members)
        pysh_combine_end(scan->type, acc, n);
    return ISHMEMX_OK;
}

static int scan_piece(const scan_t *scan, void *dest, const void *source, size_t n) {
    _Alignas(PYSH_CACHE_LINE) char acc[2 * PYSH_STAGE_BYTES]; /* twice: an accumulator may be wider */
    _Alignas(PYSH_CACHE_LINE) char copy[PYSH_STAGE_BYTES];
    int exclusive = scan->members == scan->team->my_pe;
    pysh_celled_t call = {"scan", pysh_cell_about(PYSH_CELL_SCAN, exclusive, scan->type, n * scan->nbytes), source,
                          n * scan->nbytes};
    pysh_shared_t shared;
    int status = pysh_share(scan->team, &call, &shared);

    if (!status)
        status = sum_members(scan, &shared, acc, copy, n);
    return status ? status : pysh_copy(dest, acc, n * scan->nbytes);
}

static int arguments_check(ishmemx_team_t team, int type, void *dest, const void *source, size_t nelems,
                           pysh_place_t *dest_p, pysh_place_t *source_p) {
    size_t nbytes;
    int status = pysh_reduce_check(ISHMEMX_REDUCE_SUM, type);

    if (status)
        return status;
    if (!pysh_extent(1, 0, nelems, pysh_type_nbytes(type), &nbytes))
        nbytes = SIZE_MAX;
    status = pysh_coll_check(team, dest, nbytes, source, nbytes, dest_p, source_p);
    if (!status && nelems)
        status = pysh_type_check_aligned(type, dest, "dest");
    if (!status && nelems)
        status = pysh_type_check_aligned(type, source, "source");
    if (!status && dest != source)
        status = pysh_check_overlap_of(dest, nbytes, "source", source, nbytes, pysh_type_nbytes(type),
                                       "the same array for both");
    return status;
}

static int scan_pull(const struct ishmemx_request *request);

/* As the non-blocking one: a member sums a slice of the elements over all PEs, so that the work of a member does not
 * grow with their number. */
static int scan_sliced(struct ishmemx_request *request) {
    const pysh_chain_t chain = {.team = request->team,
                                .what = "scan",
                                .op = ISHMEMX_REDUCE_SUM,
                                .type = request->call.type,
                                .n = request->nelems,
                                .dest = request->dest_place,
                                .source = request->source_place,
                                .kind = request->call.op ? PYSH_CHAIN_EXSCAN : PYSH_CHAIN_INSCAN};
    uint64_t about;
    int status;

    if (pysh_chain_serves(chain.team, chain.n, request->width))
        return pysh_chain_run(&chain);
    about = pysh_cell_about(PYSH_CELL_SCAN, request->call.op, request->call.type, request->nelems * request->width);
    if ((status = pysh_coll_start(request->team, "scan", about)))
        return status;
    if (!pysh_passed(request->team, &status, NULL, 0)) /* not twice: dest may be source */
        status = pysh_pass(request->team, scan_pull(request), NULL, 0);
    return pysh_coll_end(request->team, "scan", status);
}

int ishmemx_sum_scan(ishmemx_team_t team, int exclusive, int type, void *dest, const void *source, size_t nelems) {
    struct ishmemx_request whole = {
        .team = team,
        .call = {exclusive ? "sum_exscan" : "sum_inscan", exclusive != 0, type, -1, nelems, dest, source},
        .nelems = nelems};
    scan_t scan = {.team = team, .type = type};
    int status;

    PYSH_ENTER();
    status = arguments_check(team, type, dest, source, nelems, &whole.dest_place, &whole.source_place);
    if ((status = pysh_coll_begin(team, &whole.call, status)))
        return status;
    scan.members = team->my_pe + (exclusive ? 0 : 1);
    scan.nbytes = whole.width = pysh_type_nbytes(type);
    if (nelems && pysh_stage_fits(nelems * scan.nbytes) && pysh_stage_gathers(team, nelems * scan.nbytes))
        status = scan_piece(&scan, dest, source, nelems);
    else if (nelems)
        status = scan_sliced(&whole);
    pysh_team_unclaim(team, status);
    return status;
}

/* ---- non-blocking: each member sums its slice of the elements over all PEs, and writes the sums to all ---- */

#define BLOCK_BYTES (64 * 1024)

/* n elements at `at` bytes into dest and source. A member's source is read before its dest, which may be the
 * same, is written. */
static int scan_block(const struct ishmemx_request *r, int64_t at, size_t n, char *acc, char *sum, char *copy) {
    pysh_place_t dest = {r->dest_place.heap, r->dest_place.offset + at};
    pysh_place_t source = {r->source_place.heap, r->source_place.offset + at};
    size_t wide = n * pysh_type_nbytes(pysh_accumulator_type(r->call.type));
    bool exclusive = r->call.op;

    for (int i = 0; i < r->team->n_pes; i++) {
        int status, pe = r->team->pes[i];
        const void *in;

        if ((status = pysh_place_read(source, n * r->width, pe, copy, &in)))
            return status;
        if (exclusive && i == 0) /* all bits 0 are 0 in every type */
            memset(sum, 0, wide);
        else if (exclusive)
            memcpy(sum, acc, wide);
        if (i == 0)
            pysh_combine_begin(r->call.type, acc, in, n);
        else
            pysh_combine(ISHMEMX_REDUCE_SUM, r->call.type, acc, in, n);
        if (!exclusive)
            memcpy(sum, acc, wide);
        pysh_combine_end(r->call.type, sum, n);
        if ((status = pysh_place_write(dest, sum, n * r->width, pe)))
            return status;
    }
    return ISHMEMX_OK;
}

static int scan_pull(const struct ishmemx_request *request) {
    size_t wide = pysh_type_nbytes(pysh_accumulator_type(request->call.type)), block = BLOCK_BYTES / wide, first, last;
    char *buffers = malloc(3 * BLOCK_BYTES);
    int status = ISHMEMX_OK;

    if (!buffers)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "%s: no memory for a block of %d bytes", request->call.routine,
                         BLOCK_BYTES);
    pysh_slice((size_t)request->team->n_pes, (size_t)request->team->my_pe, request->width, request->nelems, &first,
               &last);
    for (size_t n; !status && first < last; first += n) {
        n = last - first < block ? last - first : block;
        status = scan_block(request, (int64_t)(first * request->width), n, buffers, buffers + BLOCK_BYTES,
                            buffers + 2 * BLOCK_BYTES);
    }
    free(buffers);
    return status;
}

int ishmemx_sum_scan_nb(ishmemx_team_t team, int exclusive, int type, void *dest, const void *source, size_t nelems,
                        ishmemx_request_t *request) {
    struct ishmemx_request asked = {
        .team = team,
        .call = {exclusive ? "sum_exscan_nb" : "sum_inscan_nb", exclusive != 0, type, -1, nelems, dest, source},
        .pull = nelems ? scan_pull : NULL,
        .dest = dest,
        .source = source,
        .nelems = nelems};
    int status;

    PYSH_ENTER();
    status = arguments_check(team, type, dest, source, nelems, &asked.dest_place, &asked.source_place);
    if (!status)
        asked.width = pysh_type_nbytes(type);
    return pysh_request_begin(&asked, status, request);
}
