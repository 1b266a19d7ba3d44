/* SPDX-License-Identifier: BSD-3-Clause
 * Scans: sums over the PEs before (exclusive) or up to (inclusive) the calling one, in PE order. They go
 * through the stage (coll.c) a piece at a time: what a PE staged it may overwrite, so dest may equal source. */
#include <string.h>

#include "elements.h"
#include "internal.h"

typedef struct scan {
    ishmemx_team_t team;
    int type, members; /* PEs 0..members-1 are summed */
    size_t nbytes;     /* of an element */
} scan_t;

static int sum_members(const scan_t *scan, pysh_place_t stage, char *acc, char *copy, size_t n) {
    if (!scan->members)
        memset(acc, 0, n * scan->nbytes);
    for (int i = 0; i < scan->members; i++) {
        const void *in;
        int status = pysh_place_read(stage, n * scan->nbytes, scan->team->pes[i], copy, &in);
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
    pysh_place_t stage = pysh_stage(scan->team);
    int status = pysh_copy(pysh.arena[stage.heap].base + stage.offset, source, n * scan->nbytes);

    status = pysh_stage_sync(scan->team, "scan", status);
    if (!status)
        status = sum_members(scan, stage, acc, copy, n);
    return status ? status : pysh_copy(dest, acc, n * scan->nbytes);
}

static int arguments_check(ishmemx_team_t team, int type, void *dest, const void *source, size_t nelems) {
    pysh_place_t dest_place, source_place;
    size_t nbytes;
    int status = pysh_reduce_check(ISHMEMX_REDUCE_SUM, type);

    if (status)
        return status;
    if (__builtin_mul_overflow(nelems, pysh_type_nbytes(type), &nbytes))
        nbytes = SIZE_MAX;
    status = pysh_coll_check(team, dest, nbytes, source, nbytes, &dest_place, &source_place);
    if (!status && nelems)
        status = pysh_type_check_aligned(type, dest, "dest");
    if (!status && nelems)
        status = pysh_type_check_aligned(type, source, "source");
    if (!status && dest != source)
        status = pysh_check_overlap(dest, nbytes, source, nbytes);
    return status;
}

int ishmemx_sum_scan(ishmemx_team_t team, int exclusive, int type, void *dest, const void *source, size_t nelems) {
    pysh_call_t call = {"sum_scan", exclusive != 0, type, -1, nelems};
    scan_t scan = {.team = team, .type = type};
    int status;

    PYSH_ENTER();
    status = arguments_check(team, type, dest, source, nelems);
    if ((status = pysh_coll_begin(team, &call, status)))
        return status;
    scan.members = team->my_pe + (exclusive ? 0 : 1);
    scan.nbytes = pysh_type_nbytes(type);
    for (size_t done = 0, n; !status && done < nelems; done += n) {
        n = nelems - done < PYSH_STAGE_BYTES / scan.nbytes ? nelems - done : PYSH_STAGE_BYTES / scan.nbytes;
        status = scan_piece(&scan, (char *)dest + done * scan.nbytes, (const char *)source + done * scan.nbytes, n);
    }
    pysh_team_unclaim(team);
    return status;
}
