/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives in which every PE has something of its own for others: collect, alltoall, alltoalls. Small
 * ones go through the stage, large ones are read straight from the members' sources: see coll.c. */
#include <stdlib.h>
#include <string.h>

#include "collectives/request.h"

/* ---- collect: the sizes may differ, so each PE tells its own, with the data when that is small ---- */

#define SMALL_PART (PYSH_STAGE_BYTES - sizeof(pysh_part_t))

static int stage_part(pysh_place_t stage, const pysh_part_t *mine, const void *source) {
    char *own = pysh.arena[stage.heap].base + stage.offset;

    memcpy(own, mine, sizeof *mine);
    if (!mine->nbytes || mine->nbytes > SMALL_PART)
        return ISHMEMX_OK;
    return pysh_copy(own + sizeof *mine, source, mine->nbytes);
}

/* Saturates: more than any dest holds. */
static size_t plus(size_t total, uint64_t nbytes) {
    return __builtin_add_overflow(total, nbytes, &total) ? SIZE_MAX : total;
}

/* Learns the parts, their total, and whether one is too large for the stage. */
static int read_parts(ishmemx_team_t team, pysh_place_t stage, pysh_part_t *parts, size_t *total_p, bool *large_p) {
    *total_p = 0;
    *large_p = false;
    for (int i = 0; i < team->n_pes; i++) {
        const void *data;
        int status = pysh_place_read(stage, sizeof *parts, team->pes[i], &parts[i], &data);
        if (status)
            return status;
        if (data != &parts[i])
            memcpy(&parts[i], data, sizeof *parts);
        *large_p |= parts[i].nbytes > SMALL_PART;
        *total_p = plus(*total_p, parts[i].nbytes);
    }
    return ISHMEMX_OK;
}

static int fetch_part(pysh_place_t stage, const pysh_part_t *part, int pe, char *dest) {
    bool small = part->nbytes <= SMALL_PART;
    pysh_place_t place = {small ? stage.heap : part->heap, small ? stage.offset + (int64_t)sizeof *part : part->offset};

    return pysh_get(dest, pysh.arena[place.heap].base + place.offset, part->nbytes, pe);
}

/* Every PE looks at all, so all fail alike, before anything is written. */
static int check_room(ishmemx_team_t team, const pysh_part_t *parts, size_t total) {
    for (int i = 0; i < team->n_pes; i++)
        if (parts[i].capacity < total)
            return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                             "collect: the parts are %zu bytes together, but dest of PE %d of the "
                             "team holds %llu",
                             total, i, (unsigned long long)parts[i].capacity);
    return ISHMEMX_OK;
}

static int check_dest(ishmemx_team_t team, const void *dest, const pysh_part_t *mine, const void *source,
                      const pysh_part_t *parts, size_t total) {
    pysh_place_t ignored;
    int status = check_room(team, parts, total);

    if (!status)
        status = pysh_coll_check(team, dest, total, source, 0, &ignored, &ignored);
    return status ? status : pysh_check_overlap(dest, total, source, mine->nbytes);
}

static int collect_parts(ishmemx_team_t team, char *dest, const pysh_part_t *mine, const void *source,
                         pysh_part_t *parts) {
    pysh_place_t stage = pysh_stage(team);
    int status = pysh_stage_sync(team, "collect", stage_part(stage, mine, source));
    bool large;
    size_t total;

    if (status || (status = read_parts(team, stage, parts, &total, &large)))
        return status;
    status = check_dest(team, dest, mine, source, parts, total);
    for (int i = 0; !status && i < team->n_pes; i++) {
        if (parts[i].nbytes)
            status = fetch_part(stage, &parts[i], team->pes[i], dest);
        dest += parts[i].nbytes;
    }
    return large ? pysh_coll_end(team, "collect", status) : status;
}

int ishmemx_collect(ishmemx_team_t team, void *dest, size_t capacity, const void *source, size_t nbytes) {
    pysh_call_t call = {"collect", -1, -1, -1, 0};
    pysh_place_t dest_place, place = {0, 0};
    pysh_part_t mine = {.nbytes = nbytes, .capacity = capacity}, *parts;
    int status;

    PYSH_ENTER();
    status = pysh_coll_check(team, dest, 0, source, nbytes, &dest_place, &place);
    if ((status = pysh_coll_begin(team, &call, status)))
        return status;
    mine.heap = place.heap;
    mine.offset = place.offset;
    parts = malloc((size_t)team->n_pes * sizeof *parts);
    if (parts)
        status = collect_parts(team, dest, &mine, source, parts);
    else
        status = pysh_fail(ISHMEMX_ERR_MEMORY, "collect: no memory for the sizes of %d PEs", team->n_pes);
    free(parts);
    pysh_team_unclaim(team);
    return status;
}

/* The parts were announced; all are read straight from the members' sources. */
static int collect_pull(const struct ishmemx_request *request) {
    ishmemx_team_t team = request->team;
    pysh_part_t *parts = malloc((size_t)team->n_pes * sizeof *parts);
    pysh_announcement_t theirs;
    char *dest = request->dest;
    int status = ISHMEMX_OK;
    size_t total = 0;

    if (!parts)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "collect: no memory for the sizes of %d PEs", team->n_pes);
    for (int i = 0; !status && i < team->n_pes; i++) {
        if ((status = pysh_request_read(request, i, &theirs)))
            break;
        parts[i] = theirs.part;
        total = plus(total, parts[i].nbytes);
    }
    if (!status)
        status = check_dest(team, dest, &request->part, request->source, parts, total);
    for (int i = 0; !status && i < team->n_pes; i++) {
        if (parts[i].nbytes)
            status = pysh_get(dest, pysh.arena[parts[i].heap].base + parts[i].offset, parts[i].nbytes, team->pes[i]);
        dest += parts[i].nbytes;
    }
    free(parts);
    return status;
}

int ishmemx_collect_nb(ishmemx_team_t team, void *dest, size_t capacity, const void *source, size_t nbytes,
                       ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = team,
                                    .call = {"collect_nb", -1, -1, -1, 0},
                                    .pull = collect_pull,
                                    .dest = dest,
                                    .source = source,
                                    .part = {.nbytes = nbytes, .capacity = capacity}};
    pysh_place_t ignored;
    int status;

    PYSH_ENTER();
    status = pysh_coll_check(team, dest, 0, source, nbytes, &ignored, &asked.source_place);
    asked.part.heap = asked.source_place.heap;
    asked.part.offset = asked.source_place.offset;
    return pysh_request_begin(&asked, status, request);
}

/* ---- alltoall and alltoalls ---- */

/* Bytes on one side; SIZE_MAX when it is more than any heap holds. */
static size_t span(ishmemx_team_t team, size_t nelems, size_t stride, size_t width) {
    size_t blocks, elements, last;

    if (!nelems || pysh_team_check(team))
        return 0;
    if (__builtin_mul_overflow(nelems, (size_t)team->n_pes, &blocks) ||
        __builtin_mul_overflow(blocks - 1, stride, &last) || __builtin_add_overflow(last, 1, &elements) ||
        __builtin_mul_overflow(elements, width, &elements))
        return SIZE_MAX;
    return elements;
}

static int alltoall_staged(ishmemx_team_t team, char *dest, const void *source, size_t nbytes) {
    pysh_place_t stage = pysh_stage(team);
    char *own = pysh.arena[stage.heap].base + stage.offset;
    int status = pysh_stage_sync(team, "alltoall", pysh_copy(own, source, nbytes * (size_t)team->n_pes));

    own += (size_t)team->my_pe * nbytes;
    for (int i = 0; !status && i < team->n_pes; i++)
        status = pysh_get(dest + (size_t)i * nbytes, own, nbytes, team->pes[i]);
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
    int status = pysh_team_sync(team, "alltoall");

    if (!status)
        status = pysh_coll_end(team, "alltoall",
                               alltoalls_fetch(team, dest, source, dest_stride, source_stride, nelems, width));
    return status;
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
    return status ? status : pysh_check_overlap(dest, dest_bytes, source, source_bytes);
}

static int alltoalls(const char *routine, ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                     ptrdiff_t source_stride, size_t nelems, size_t width) {
    pysh_call_t call = {routine, (int)dest_stride, (int)source_stride, -1, nelems};
    int status = alltoalls_check(routine, team, dest, source, dest_stride, source_stride, nelems, width);

    if ((status = pysh_coll_begin(team, &call, status)))
        return status;
    if (nelems && width && dest_stride == 1 && source_stride == 1 &&
        pysh_stage_fits(nelems * width * (size_t)team->n_pes))
        status = alltoall_staged(team, dest, source, nelems * width);
    else if (nelems && width)
        status = alltoalls_direct(team, dest, source, dest_stride, source_stride, nelems, width);
    pysh_team_unclaim(team);
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
                                    .call = {routine, (int)dest_stride, (int)source_stride, -1, nelems},
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
