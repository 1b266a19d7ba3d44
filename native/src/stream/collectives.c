/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives on a stream: kernels of the device library, with the arguments of its routines as words. Numbers of
 * calls are in device memory, so that a captured launch is as good again. */
#include <stdbool.h>
#include <stdint.h>

#include "am/am.h"
#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "collectives/reduce.h"
#include "device/device_teams.h"
#include "device/stream_areas.h"
#include "node/enter.h"
#include "stream/engine.h"
#include "stream/stream.h"
#include "teams/team.h"

enum { OUTSIDE = 16 }; /* bytes at multiples of which dest and source begin that are on no heap */

/* ---- beginning and end ---- */

typedef struct call {
    ishmemx_team_t team;
    const char *routine;
    void *stream;
    bool waits;    /* for the library's own stream */
    bool by_proxy; /* members are out of reach of loads and stores */
    pysh_launch_t launch;
} call_t;

/* What all kernels of teams begin with: the slot, and what the area of the slot has. */
static void add_team(call_t *call) {
    ishmemx_team_t team = call->team;
    pysh_stream_area_t area = pysh_stream_area(team->slot, team->n_pes);
    const int64_t words[] = {team->slot, team->my_pe, team->n_pes, area.calls, area.flags, area.units, area.slot};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        pysh_words_int(&call->launch, words[i]);
    call->launch.others = team->n_pes - 1;
    call->launch.slot_nbytes = area.slot;
    call->launch.half = area.slot * call->launch.others;
    call->launch.first = area.units;
}

/* Where the member behind this PE has what is at `address` here. */
static int64_t at_next(ishmemx_team_t team, int64_t address) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];
    int next = team->pes[(team->my_pe + 1) % team->n_pes];

    return address + (arena->peer[next] - arena->base);
}

/* Would the kernel for few bytes do, whatever their number? The same on all PEs, for arrays are symmetric. */
static void offer_few(call_t *call, const void *dest, const void *source, size_t nbytes, size_t width) {
    ishmemx_team_t team = call->team;
    int n = team->n_pes, me = team->my_pe;

    call->launch.few = !call->by_proxy && n > 1 && nbytes && width <= 8 && !pysh.check &&
                       !(((uintptr_t)dest | (uintptr_t)source | nbytes) % 4);
    if (call->launch.few) /* a PE has no slot for itself */
        call->launch.first = at_next(team, call->launch.first + (me + 1 < n ? me : n - 2) * call->launch.slot_nbytes);
}

static int collective_begin(call_t *call, void *stream) {
    int status;

    PYSH_ENTER();
    call->launch.n_words = 0;
    call->stream = stream;
    call->waits = stream == ISHMEMX_STREAM_OWN;
    if (call->team && (status = pysh_team_check(call->team)))
        return status;
    if (call->waits && (status = pysh_stream_own(&call->stream)))
        return status;
    if ((status = pysh_stream_check(call->stream)))
        return status;
    if (call->team) {
        call->by_proxy = !pysh_device_team_is_near(call->team);
        add_team(call);
    }
    return ISHMEMX_OK;
}

static int wait_if_own(const call_t *call, int status) {
    return status || !call->waits ? status : pysh_stream_wait(call->stream, call->routine);
}

/* Kernels of grids that meet choose among the ways to each member by themselves. */
static int stream_end(call_t *call, int64_t key, size_t nbytes) {
    bool by_proxy = call->by_proxy && !pysh_kernel_syncs_grid((int)(key & ((1 << ISHMEMX_KEY_OP_SHIFT) - 1)));
    int status = pysh_kernel_launch(&call->launch, key | (by_proxy ? ISHMEMX_KEY_FAR : 0), nbytes, call->stream);

    return wait_if_own(call, status);
}

static int sides_reached(const call_t *call, int kind, size_t nbytes) {
    return call->by_proxy ? ISHMEMX_SIDE_DEST | ISHMEMX_SIDE_SOURCE
                          : pysh_sides_reached(kind, nbytes, call->launch.others, call->launch.slot_nbytes);
}

int ishmemx_stream_sides(ishmemx_team_t team, int kind, size_t nbytes, int *sides) {
    call_t call = {.team = team};
    size_t all;
    int status;

    PYSH_ENTER();
    if ((status = pysh_team_check(team)) || (status = pysh_stream_check(NULL)) ||
        (status = pysh_check_extent(1, 0, nbytes, (size_t)team->n_pes, &all)))
        return status;
    call.by_proxy = !pysh_device_team_is_near(team);
    add_team(&call);
    *sides = sides_reached(&call, kind, nbytes);
    return ISHMEMX_OK;
}

static bool on_heap(int heap, const void *address) {
    const pysh_arena_t *arena = &pysh.arena[heap];

    return (uint64_t)((const char *)address - arena->base) < (uint64_t)arena->nbytes;
}

/* Memory outside of the heaps begins like what is on them, so that all members choose the same kernel. */
static int check_side(const void *address, size_t nbytes, bool reached, const char *what) {
    char *own;

    if (reached || on_heap(ISHMEMX_HEAP_DEVICE, address) || on_heap(ISHMEMX_HEAP_HOST, address))
        return pysh_stream_reach(address, nbytes, pysh.pe, what, &own);
    if ((uintptr_t)address % OUTSIDE)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s begins at %p, on no heap, where it has to begin at a multiple of %d",
                         what, address, OUTSIDE);
    return pysh_stream_local(address, what);
}

/* dest and source on the device heap, or where `reached`, of enum ishmemx_side, has them; 0 elements are anywhere.
 * Their bytes have been counted: they are no more than memory holds. */
static int add_sides(call_t *call, void *dest, size_t dest_nelems, const void *source, size_t source_nelems,
                     size_t width, int reached) {
    int status = ISHMEMX_OK;

    if (dest_nelems)
        status = check_side(dest, dest_nelems * width, reached & ISHMEMX_SIDE_DEST, "dest");
    if (!status && source_nelems)
        status = check_side(source, source_nelems * width, reached & ISHMEMX_SIDE_SOURCE, "source");
    if (status)
        return status;
    pysh_words_array(&call->launch, dest, dest_nelems, width);
    pysh_words_array(&call->launch, source, source_nelems, width);
    return ISHMEMX_OK;
}

/* ---- synchronisation ---- */

static int without_data(int kind, ishmemx_team_t team, const char *routine, void *stream) {
    call_t call = {.team = team, .routine = routine};
    int status = collective_begin(&call, stream);

    if (!status && team && !call.by_proxy) { /* the own flag at the next PE; one block, of a thread a PE */
        pysh_words_int(&call.launch, at_next(team, call.launch.words[4] + 8 * team->my_pe));
        call.launch.early = true;
    }
    return status ? status : stream_end(&call, kind, 0);
}

int ishmemx_sync_on_stream(ishmemx_team_t team, void *stream) {
    if (!team)
        return pysh_team_check(team);
    return without_data(ISHMEMX_KERNEL_TEAM_SYNC, team, "sync", stream);
}

int ishmemx_barrier_all_on_stream(void *stream) {
    return without_data(ISHMEMX_KERNEL_BARRIER_ALL, &ishmemx_team_world, "barrier_all", stream);
}

int ishmemx_quiet_on_stream(void *stream) {
    return without_data(ISHMEMX_KERNEL_QUIET, NULL, "quiet", stream);
}

/* ---- data, as bytes ---- */

static int by_engine(int kind, const call_t *call, void *dest, const void *source, size_t nbytes, int root) {
    if (kind == ISHMEMX_KERNEL_BROADCAST)
        return pysh_engine_broadcast(call->team, dest, source, nbytes, root, call->stream);
    return pysh_engine_blocks(call->team, dest, source, nbytes, kind == ISHMEMX_KERNEL_ALLTOALL, call->stream);
}

static int of_bytes(int kind, call_t *call, void *dest, size_t dest_nbytes, const void *source, size_t source_nbytes,
                    size_t nbytes, int root) {
    int status = add_sides(call, dest, dest_nbytes, source, source_nbytes, 1, sides_reached(call, kind, nbytes));

    if (status)
        return status;
    if (!call->by_proxy && pysh_goes_by_engine(kind, nbytes, call->launch.others))
        return wait_if_own(call, by_engine(kind, call, dest, source, nbytes, root));
    pysh_words_int(&call->launch, (int64_t)nbytes);
    if (root >= 0)
        pysh_words_int(&call->launch, root);
    offer_few(call, dest, source, nbytes, 1);
    return stream_end(call, pysh_kernel_key(kind, 0, ISHMEMX_TYPE_UINT8), nbytes);
}

/* `nbytes` of each member, or for each: all of them are no more than memory holds. */
static int begin_bytes(call_t *call, size_t nbytes, size_t *all_p, void *stream) {
    int status = call->team ? collective_begin(call, stream) : pysh_team_check(call->team);

    return status ? status : pysh_check_extent(1, 0, nbytes, (size_t)call->team->n_pes, all_p);
}

int ishmemx_broadcast_on_stream(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root,
                                void *stream) {
    call_t call = {.team = team, .routine = "broadcast"};
    size_t all;
    int status = begin_bytes(&call, nbytes, &all, stream);

    if (!status)
        status = pysh_check_pe_as("root", root, team->n_pes);
    return status ? status : of_bytes(ISHMEMX_KERNEL_BROADCAST, &call, dest, nbytes, source, nbytes, nbytes, root);
}

int ishmemx_fcollect_on_stream(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, void *stream) {
    call_t call = {.team = team, .routine = "fcollect"};
    size_t all;
    int status = begin_bytes(&call, nbytes, &all, stream);

    return status ? status : of_bytes(ISHMEMX_KERNEL_FCOLLECT, &call, dest, all, source, nbytes, nbytes, -1);
}

int ishmemx_collect_on_stream(ishmemx_team_t team, void *dest, size_t capacity, const void *source, size_t nbytes,
                              void *stream) {
    call_t call = {.team = team, .routine = "collect"};
    size_t all;
    int status = begin_bytes(&call, nbytes, &all, stream);

    return status ? status : of_bytes(ISHMEMX_KERNEL_COLLECT, &call, dest, capacity, source, nbytes, nbytes, -1);
}

int ishmemx_alltoall_on_stream(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, void *stream) {
    call_t call = {.team = team, .routine = "alltoall"};
    size_t all;
    int status = begin_bytes(&call, nbytes, &all, stream);

    return status ? status : of_bytes(ISHMEMX_KERNEL_ALLTOALL, &call, dest, all, source, all, nbytes, -1);
}

/* ---- data, as elements ---- */

/* The element that stands for all of its width. */
static int type_of_width(size_t width) {
    switch (width) {
    case 1:
        return ISHMEMX_TYPE_UINT8;
    case 2:
        return ISHMEMX_TYPE_UINT16;
    case 4:
        return ISHMEMX_TYPE_UINT32;
    case 8:
        return ISHMEMX_TYPE_UINT64;
    default:
        return ISHMEMX_TYPE_COMPLEXD;
    }
}

int ishmemx_alltoalls_on_stream(ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,
                                size_t nelems, size_t width, void *stream) {
    call_t call = {.team = team, .routine = "alltoalls"};
    size_t count, dest_nelems, source_nelems, ignored;
    int status = begin_bytes(&call, nelems, &count, stream);

    if (!status && (dst < 1 || sst < 1))
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "strides of %td and %td; give 1 or more", dst, sst);
    if (status || (status = pysh_check_extent(count, (size_t)dst, 1, width, &ignored)) ||
        (status = pysh_check_extent(count, (size_t)sst, 1, width, &ignored)) ||
        (status = pysh_check_extent(count, (size_t)dst, 1, 1, &dest_nelems)) ||
        (status = pysh_check_extent(count, (size_t)sst, 1, 1, &source_nelems)) ||
        (status = add_sides(&call, dest, dest_nelems, source, source_nelems, width,
                            ISHMEMX_SIDE_DEST | ISHMEMX_SIDE_SOURCE)))
        return status;
    pysh_words_int(&call.launch, dst);
    pysh_words_int(&call.launch, sst);
    pysh_words_int(&call.launch, (int64_t)nelems);
    return stream_end(&call, pysh_kernel_key(ISHMEMX_KERNEL_ALLTOALLS, 0, type_of_width(width)), nelems * width);
}

/* A collective of typed elements: `blocks` of `nelems` at the source, one at dest. */
static int of_elements(ishmemx_team_t team, const char *routine, int kind, int op, int type, void *dest,
                       const void *source, size_t nelems, bool blocks, void *stream) {
    call_t call = {.team = team, .routine = routine};
    size_t width = 0, all, ignored;
    int status = pysh_reduce_check(kind == ISHMEMX_KERNEL_SCAN ? ISHMEMX_REDUCE_SUM : op, type);

    if (!status)
        status = team ? collective_begin(&call, stream) : pysh_team_check(team);
    if (!status && type == ISHMEMX_TYPE_LONGDOUBLE)
        status = pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "GPUs have no long double: use arrays on the host heap");
    if (!status)
        status = pysh_type_check_aligned(type, dest, "dest");
    if (!status)
        status = pysh_type_check_aligned(type, source, "source");
    if (!status && (width = pysh_type_nbytes(type)))
        status = pysh_check_extent((size_t)team->n_pes, nelems, nelems, width, &ignored);
    if (status)
        return status;
    all = blocks ? nelems * (size_t)team->n_pes : nelems;
    if ((status = add_sides(&call, dest, nelems, source, all, width, sides_reached(&call, kind, nelems * width))))
        return status;
    pysh_words_int(&call.launch, (int64_t)nelems);
    if (kind != ISHMEMX_KERNEL_SCAN)
        offer_few(&call, dest, source, nelems * width, width);
    return stream_end(&call, pysh_kernel_key(kind, op, type), nelems * width);
}

int ishmemx_reduce_on_stream(ishmemx_team_t team, int op, int type, void *dest, const void *source, size_t nreduce,
                             void *stream) {
    return of_elements(team, "reduce", ISHMEMX_KERNEL_REDUCE, op, type, dest, source, nreduce, false, stream);
}

int ishmemx_reduce_scatter_on_stream(ishmemx_team_t team, int op, int type, void *dest, const void *source,
                                     size_t nelems, void *stream) {
    return of_elements(team, "reduce_scatter", ISHMEMX_KERNEL_REDUCE_SCATTER, op, type, dest, source, nelems, true,
                       stream);
}

int ishmemx_sum_scan_on_stream(ishmemx_team_t team, int exclusive, int type, void *dest, const void *source,
                               size_t nelems, void *stream) {
    return of_elements(team, "sum_scan", ISHMEMX_KERNEL_SCAN, exclusive != 0, type, dest, source, nelems, false,
                       stream);
}

/* In checking mode PEs compare their arguments first, which is the host's affair. */
int ishmemx_only_gpu(const void *dest, const void *source) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];

    return arena->base && !pysh.check && !arena->cpu_visible && pysh.p2p && !pysh_am_is_open() &&
           on_heap(ISHMEMX_HEAP_DEVICE, dest) && on_heap(ISHMEMX_HEAP_DEVICE, source);
}
