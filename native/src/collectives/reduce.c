/* SPDX-License-Identifier: BSD-3-Clause
 * Reductions. Every element is combined in PE order 0..n-1, so every PE gets the same bits; half and
 * bfloat16 accumulate in float and are rounded once, at the end.
 *
 * Small ones go through the stage (teams/stage.c) and every PE computes the whole result. Large ones are cut
 * into a slice a PE: between two syncs its owner reads the slice of every source, block by block, and
 * writes the result to every dest. Nobody else reads or writes that slice, so dest may equal source.
 * In a team on several nodes large ones go from node to node: chain.c. */
#include "collectives/reduce.h"

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
#include "collectives/request.h"
#include "memory/address.h"
#include "node/enter.h"
#include "teams/gather.h"
#include "teams/stage.h"
#include "teams/sync.h"
#include "teams/team.h"

#define CPU_BLOCK_BYTES PYSH_STAGE_BYTES /* stays in the first-level cache */
#define GPU_BLOCK_BYTES (256 * 1024)     /* a copy costs some microseconds whatever its size */

#define ROW(_op, _name, _family)                                                \
    [ISHMEMX_REDUCE_##_op] = {{_name "_reduce", _name "_reduce_scatter"},       \
                              {_name "_reduce_nb", _name "_reduce_scatter_nb"}, \
                              PYSH_FAMILY_REDUCE_##_family}

static const struct {
    const char *name[2], *name_nb[2]; /* of the reduction, and of that whose result is scattered */
    unsigned family;
} operations[ISHMEMX_REDUCE_COUNT] = {
    ROW(AND, "and", BITWISE), ROW(OR, "or", BITWISE),      ROW(XOR, "xor", BITWISE),      ROW(MAX, "max", ORDER),
    ROW(MIN, "min", ORDER),   ROW(SUM, "sum", ARITHMETIC), ROW(PROD, "prod", ARITHMETIC),
};

typedef struct reduction {
    ishmemx_team_t team;
    int op, type;
    size_t nbytes;    /* of an element */
    size_t block;     /* elements at a time */
    bool scatter;     /* source has a block for each member, who gets the result of that */
    bool synced;      /* a non-blocking request: all have announced it, and its flags tell them of the end */
    char *acc, *copy; /* a block in the accumulator's type; a block of a source the CPU cannot reach */
    const char *name;
} reduction_t;

int pysh_reduce_check(int op, int type) {
    if (op < 0 || op >= ISHMEMX_REDUCE_COUNT)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "there is no reduction number %d", op);
    return pysh_type_check(type, operations[op].family, operations[op].name[0]);
}

/* Combines the n elements that are `at` bytes into what every member shares; the result is in r->acc, in the element's
 * type. */
static int combine_members(const reduction_t *r, const pysh_shared_t *shared, int64_t at, size_t n) {
    for (int i = 0; i < r->team->n_pes; i++) {
        const void *in;
        int pe, status;
        pysh_place_t place = pysh_shared_place(shared, i, &pe);
        place.offset += at;
        status = pysh_place_read(place, n * r->nbytes, pe, r->copy, &in);
        if (status)
            return status;
        if (i == 0)
            pysh_combine_begin(r->type, r->acc, in, n);
        else
            pysh_combine(r->op, r->type, r->acc, in, n);
    }
    pysh_combine_end(r->type, r->acc, n);
    return ISHMEMX_OK;
}

/* Where in every source the n elements begin that the caller combines, in bytes: its block of a reduce_scatter, or 0.
 */
static int64_t own_block(const reduction_t *r, size_t n) {
    return r->scatter ? (int64_t)((size_t)r->team->my_pe * n * r->nbytes) : 0;
}

static size_t source_nbytes(const reduction_t *r, size_t n) {
    return n * r->nbytes * (r->scatter ? (size_t)r->team->n_pes : 1);
}

static uint64_t about_of(const reduction_t *r, size_t n) {
    return pysh_cell_about(PYSH_CELL_REDUCE, r->op, r->type << 1 | r->scatter, source_nbytes(r, n));
}

static int reduce_staged(const reduction_t *r, void *dest, const void *source, size_t n) {
    pysh_celled_t call = {r->name, about_of(r, n), source, source_nbytes(r, n)};
    pysh_shared_t shared;
    int status = pysh_share(r->team, &call, &shared);

    if (!status)
        status = combine_members(r, &shared, own_block(r, n), n);
    return status ? status : pysh_copy(dest, r->acc, n * r->nbytes);
}

void pysh_slice(size_t members, size_t mine, size_t width, size_t n, size_t *first_p, size_t *last_p) {
    size_t line = PYSH_CACHE_LINE / width;
    size_t slice = ((n + members - 1) / members + line - 1) / line * line;

    *first_p = mine * slice < n ? mine * slice : n;
    *last_p = n - *first_p < slice ? n : *first_p + slice;
}

static int reduce_slice(const reduction_t *r, pysh_place_t dest, pysh_place_t source, size_t n) {
    ishmemx_team_t team = r->team;
    const pysh_shared_t sources = {.team = team, .place = source};
    size_t first, last, count;
    int status = ISHMEMX_OK;

    pysh_slice((size_t)team->n_pes, (size_t)team->my_pe, r->nbytes, n, &first, &last);
    for (; !status && first < last; first += count) {
        int64_t at = (int64_t)(first * r->nbytes);
        count = last - first < r->block ? last - first : r->block;
        status = combine_members(r, &sources, at, count);
        for (int i = 0; !status && i < team->n_pes; i++)
            status =
                pysh_place_write((pysh_place_t){dest.heap, dest.offset + at}, r->acc, count * r->nbytes, team->pes[i]);
    }
    return status;
}

/* Nobody else reads the caller's block of its source, which dest may be. */
static int reduce_block(const reduction_t *r, pysh_place_t dest, pysh_place_t source, size_t n) {
    const pysh_shared_t sources = {.team = r->team, .place = source};
    int status = ISHMEMX_OK;

    for (size_t first = 0, count; !status && first < n; first += count) {
        int64_t at = (int64_t)(first * r->nbytes);
        count = n - first < r->block ? n - first : r->block;
        status = combine_members(r, &sources, own_block(r, n) + at, count);
        if (!status)
            status = pysh_copy(pysh.arena[dest.heap].base + dest.offset + at, r->acc, count * r->nbytes);
    }
    return status;
}

static int reduce_direct(const reduction_t *r, pysh_place_t dest, pysh_place_t source, size_t n) {
    return r->scatter ? reduce_block(r, dest, source, n) : reduce_slice(r, dest, source, n);
}

static int reduce_by_nodes(const reduction_t *r, pysh_place_t dest, pysh_place_t source, size_t n) {
    const pysh_chain_t chain = {.team = r->team,
                                .what = r->name,
                                .op = r->op,
                                .type = r->type,
                                .n = n,
                                .dest = dest,
                                .source = source,
                                .kind = r->scatter ? PYSH_CHAIN_SCATTER : PYSH_CHAIN_REDUCE};

    return pysh_chain_run(&chain);
}

static int reduce_sliced(const reduction_t *r, pysh_place_t dest, pysh_place_t source, size_t n) {
    int status;

    if (r->synced)
        return reduce_direct(r, dest, source, n);
    if ((status = pysh_coll_start(r->team, r->name, about_of(r, n))))
        return status;
    if (!pysh_passed(r->team, &status, NULL, 0)) /* not twice: dest may be source */
        status = pysh_pass(r->team, reduce_direct(r, dest, source, n), NULL, 0);
    return pysh_coll_end(r->team, r->name, status);
}

static int arguments_check(const reduction_t *r, void *dest, const void *source, size_t nreduce, pysh_place_t *dest_p,
                           pysh_place_t *source_p) {
    ishmemx_team_t team = r->team;
    size_t nbytes, blocks;
    int status = pysh_team_check(team);

    if (!status)
        status = pysh_reduce_check(r->op, r->type);
    if (status || !nreduce)
        return status;
    if (!pysh_extent(1, 0, nreduce, pysh_type_nbytes(r->type), &nbytes) ||
        !pysh_extent(1, 0, nbytes, r->scatter ? (size_t)team->n_pes : 1, &blocks))
        nbytes = blocks = SIZE_MAX;
    status = pysh_heap_find(dest, nbytes, "dest", &dest_p->heap, &dest_p->offset);
    if (!status)
        status = pysh_heap_find(source, blocks, "source", &source_p->heap, &source_p->offset);
    if (!status)
        status = pysh_type_check_aligned(r->type, dest, "dest");
    if (!status)
        status = pysh_type_check_aligned(r->type, source, "source");
    if (!status && dest != (const char *)source + (r->scatter ? (size_t)team->my_pe * nbytes : 0))
        status = pysh_check_overlap_of(dest, nbytes, "source", source, blocks, pysh_type_nbytes(r->type),
                                       r->scatter ? "as dest this PE's block of source" : "the same array for both");
    return status;
}

static bool all_mapped(ishmemx_team_t team, int heap) {
    for (int i = 0; i < team->n_pes; i++)
        if (!pysh.arena[heap].peer[team->pes[i]])
            return false;
    return true;
}

/* The buffers: on the stack where the CPU reaches the sources, else large and from malloc. */
static int reduce(reduction_t *r, void *dest, const void *source, pysh_place_t dest_place, pysh_place_t source_place,
                  size_t n) {
    _Alignas(PYSH_CACHE_LINE) char small[2 * CPU_BLOCK_BYTES]; /* twice: an accumulator may be wider */
    size_t wide = pysh_type_nbytes(pysh_accumulator_type(r->type));
    size_t nbytes = source_nbytes(r, n);
    bool staged = !r->synced && pysh_stage_fits(nbytes) && pysh_stage_gathers(r->team, nbytes);
    bool mapped = all_mapped(r->team, ISHMEMX_HEAP_HOST);
    bool direct = all_mapped(r->team, source_place.heap) && pysh.arena[dest_place.heap].cpu_visible &&
                  pysh.arena[source_place.heap].cpu_visible;
    char *large = NULL;
    int status;

    if (!staged && !r->synced && pysh_chain_serves(r->team, nbytes / r->nbytes, r->nbytes))
        return reduce_by_nodes(r, dest_place, source_place, nbytes / r->nbytes);
    r->acc = small;
    r->block = CPU_BLOCK_BYTES / r->nbytes;
    if (!(staged ? mapped : direct)) {
        r->block = GPU_BLOCK_BYTES / r->nbytes;
        large = malloc(r->block * (wide + r->nbytes));
        if (!large)
            return pysh_fail(ISHMEMX_ERR_MEMORY, "%s: no memory for a block of %d bytes", r->name, GPU_BLOCK_BYTES);
        r->acc = large;
        r->copy = large + r->block * wide;
    }
    status = staged ? reduce_staged(r, dest, source, n) : reduce_sliced(r, dest_place, source_place, n);
    free(large);
    return status;
}

static int blocking(reduction_t *r, void *dest, const void *source, size_t nreduce) {
    pysh_place_t dest_place = {0, 0}, source_place = {0, 0};
    pysh_call_t call = {
        r->scatter ? "reduce_scatter" : "reduce", r->op, r->type, -1, 0, r->scatter ? NULL : dest, source};
    int status = arguments_check(r, dest, source, nreduce, &dest_place, &source_place);

    if (!status) {
        call.routine = operations[r->op].name[r->scatter];
        call.nbytes = nreduce * pysh_type_nbytes(r->type);
    }
    if ((status = pysh_coll_begin(r->team, &call, status)))
        return status;
    r->nbytes = pysh_type_nbytes(r->type);
    r->name = call.routine;
    if (nreduce)
        status = reduce(r, dest, source, dest_place, source_place, nreduce);
    pysh_team_unclaim(r->team, status);
    return status;
}

int ishmemx_reduce(ishmemx_team_t team, int op, int type, void *dest, const void *source, size_t nreduce) {
    reduction_t r = {.team = team, .op = op, .type = type};

    PYSH_ENTER();
    return blocking(&r, dest, source, nreduce);
}

int ishmemx_reduce_scatter(ishmemx_team_t team, int op, int type, void *dest, const void *source, size_t nreduce) {
    reduction_t r = {.team = team, .op = op, .type = type, .scatter = true};

    PYSH_ENTER();
    return blocking(&r, dest, source, nreduce);
}

static int pull(const struct ishmemx_request *request, bool scatter) {
    reduction_t r = {.team = request->team,
                     .op = request->call.op,
                     .type = request->call.type,
                     .nbytes = request->width,
                     .scatter = scatter,
                     .synced = true,
                     .name = request->call.routine};

    return reduce(&r, request->dest, request->source, request->dest_place, request->source_place, request->nelems);
}

static int reduce_pull(const struct ishmemx_request *request) {
    return pull(request, false);
}

static int reduce_scatter_pull(const struct ishmemx_request *request) {
    return pull(request, true);
}

static int reduce_begin(const reduction_t *r, void *dest, const void *source, size_t nreduce,
                        ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = r->team,
                                    .call = {r->scatter ? "reduce_scatter_nb" : "reduce_nb", r->op, r->type, -1, 0,
                                             r->scatter ? NULL : dest, source},
                                    .dest = dest,
                                    .source = source,
                                    .nelems = nreduce};
    int status = arguments_check(r, dest, source, nreduce, &asked.dest_place, &asked.source_place);

    if (nreduce)
        asked.pull = r->scatter ? reduce_scatter_pull : reduce_pull;
    if (!status) {
        asked.call.routine = operations[r->op].name_nb[r->scatter];
        asked.width = pysh_type_nbytes(r->type);
        asked.call.nbytes = nreduce * asked.width;
    }
    return pysh_request_begin(&asked, status, request);
}

int ishmemx_reduce_nb(ishmemx_team_t team, int op, int type, void *dest, const void *source, size_t nreduce,
                      ishmemx_request_t *request) {
    const reduction_t r = {.team = team, .op = op, .type = type};

    PYSH_ENTER();
    return reduce_begin(&r, dest, source, nreduce, request);
}

int ishmemx_reduce_scatter_nb(ishmemx_team_t team, int op, int type, void *dest, const void *source, size_t nreduce,
                              ishmemx_request_t *request) {
    const reduction_t r = {.team = team, .op = op, .type = type, .scatter = true};

    PYSH_ENTER();
    return reduce_begin(&r, dest, source, nreduce, request);
}
