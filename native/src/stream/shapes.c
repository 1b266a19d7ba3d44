/* SPDX-License-Identifier: BSD-3-Clause
 * How a kernel is launched: which of the two of its kind, in how many blocks of how many threads.
 *
 * Collectives whose blocks meet the peers' same blocks go by rows, the same on all PEs, that Python keeps
 * (pyshmem/host/tuning/streams.py). The others, and those of teams with members out of reach, sync as a grid or are one
 * block.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/extent.h"
#include "base/state.h"
#include "base/status.h"
#include "device/stream_areas.h"
#include "node/enter.h"
#include "stream/stream.h"

enum {
    MAX_ROWS = 16,
    ROW_WORDS = 4,
    WARP = 32,
    MAX_THREADS = 512, /* the kernels are compiled for so many */
    LINE = 1536,       /* bytes that a warp sends at a time with flags in them: stream_kernels/packets.py */
    LINE_IN_PACKETS = 2048,
    CHUNK = 16,             /* a thread's load or store */
    SMALL = 8,              /* bytes of a thread in the kernels for few bytes: stream_kernels/small_messages.py */
    SMALL_IN_PACKETS = 16,  /* and what they become */
    MAX_SMALL = 256 * 1024, /* on a GPU; behind it 12 of 16 bytes are data instead of 8 */
    /* of grids whose blocks sync: */
    GRID_FROM_BYTES = 64 * 1024,
    GRID_THREADS = 512,
    GRID_BYTES_A_BLOCK = 16 * 1024,
    GRID_MAX_BLOCKS = 64, /* all of them on the GPU at a time, beside what else runs there */
    GRID_MIN_BLOCKS = 2,
    BLOCK_MIN_THREADS = 32,
    SIM_THREADS = 4, /* a simulated thread costs as much as a call */
    SIM_BLOCKS = 2
};

enum { LL, DIRECT, ENGINE }; /* the ways, as host/tuning/streams.py counts them */

typedef struct row {
    int64_t nbytes, way, blocks, threads;
} row_t;

static struct {
    row_t row[MAX_ROWS];
    int count;
} table[ISHMEMX_KERNEL_COUNT];

static const row_t by_default = {INT64_MAX, DIRECT, GRID_MIN_BLOCKS, BLOCK_MIN_THREADS};

static bool by_rows(int kind) {
    return kind == ISHMEMX_KERNEL_BROADCAST || kind == ISHMEMX_KERNEL_FCOLLECT || kind == ISHMEMX_KERNEL_ALLTOALL ||
           kind == ISHMEMX_KERNEL_REDUCE || kind == ISHMEMX_KERNEL_REDUCE_SCATTER;
}

static bool moves(int kind) {
    return kind == ISHMEMX_KERNEL_BROADCAST || kind == ISHMEMX_KERNEL_FCOLLECT || kind == ISHMEMX_KERNEL_ALLTOALL;
}

int ishmemx_stream_rows_set(int kind, int count, const int64_t *rows) {
    row_t row[MAX_ROWS];

    if (kind < 0 || kind >= ISHMEMX_KERNEL_COUNT || !by_rows(kind))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "kernels of kind %d are launched without rows", kind);
    if (count < 1 || count > MAX_ROWS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%d rows; give 1 to %d", count, MAX_ROWS);
    memcpy(row, rows, (size_t)count * sizeof *row);
    for (int i = 0; i < count; i++)
        if (row[i].way < LL || row[i].way > (moves(kind) ? ENGINE : DIRECT) || row[i].blocks < 1 ||
            row[i].blocks > PYSH_STREAM_MAX_BLOCKS || row[i].threads < 1 || row[i].threads > MAX_THREADS)
            return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                             "a row by way %lld of %lld blocks of %lld threads; give 1 to %d of 1 to %d",
                             (long long)row[i].way, (long long)row[i].blocks, (long long)row[i].threads,
                             PYSH_STREAM_MAX_BLOCKS, MAX_THREADS);
    memcpy(table[kind].row, row, (size_t)count * sizeof *row);
    table[kind].count = count;
    return ISHMEMX_OK;
}

int ishmemx_stream_blocks(int *most) {
    int blocks = PYSH_STREAM_MAX_BLOCKS;

    PYSH_ENTER();
    if (pysh.accel && pysh.accel->streams->multiprocessors)
        blocks = pysh.accel->streams->multiprocessors();
    *most = blocks < PYSH_STREAM_MAX_BLOCKS ? blocks : PYSH_STREAM_MAX_BLOCKS;
    return ISHMEMX_OK;
}

static const row_t *row_of(int kind, int64_t nbytes) {
    for (int i = 0; i < table[kind].count; i++)
        if (nbytes <= table[kind].row[i].nbytes)
            return &table[kind].row[i];
    return &by_default;
}

static int64_t rounds(int64_t value, int64_t unit) {
    return value / unit + (value % unit != 0);
}

/* Threads beyond the chunks of work would have nothing to do. */
static void fit(pysh_launch_t *launch, const row_t *row, int64_t useful) {
    int64_t threads = row->threads, blocks;

    if (useful < threads)
        threads = pysh.accel->cpu_visible ? threads : rounds(useful, WARP) * WARP;
    blocks = rounds(useful, threads);
    launch->threads = (int)threads;
    launch->blocks = (int)(blocks < row->blocks ? blocks : row->blocks);
}

/* Does a thread for each piece fit the row? As many blocks as it has, of as few threads as do. */
static bool shape_for_few(pysh_launch_t *launch, const row_t *row, int64_t nbytes) {
    int64_t chunks = rounds(nbytes, SMALL), threads = row->threads;
    bool simulated = pysh.accel->cpu_visible;

    if (!launch->few || row->way != LL || nbytes > MAX_SMALL || chunks * SMALL_IN_PACKETS > launch->slot_nbytes)
        return false;
    if (!simulated)
        threads = rounds(threads, WARP) * WARP;
    while (threads * row->blocks < chunks && 2 * threads <= (simulated ? row->threads : MAX_THREADS))
        threads *= 2;
    if (threads * row->blocks < chunks)
        return false;
    if (chunks < threads && !simulated)
        threads = rounds(chunks, WARP) * WARP;
    launch->threads = (int)threads;
    launch->blocks = (int)rounds(chunks, threads);
    return true;
}

/* `nbytes` go from each PE to each, `others` of them: the row counts all that a PE sends. */
static const row_t *row_of_sent(int kind, int64_t nbytes, int64_t others) {
    size_t sent;

    return row_of(kind,
                  pysh_extent(1, 0, (size_t)nbytes, (size_t)(others ? others : 1), &sent) ? (int64_t)sent : INT64_MAX);
}

static bool has_flags(const row_t *row, int64_t nbytes, int64_t slot_nbytes) {
    return row->way == LL && rounds(nbytes, LINE) <= slot_nbytes / LINE_IN_PACKETS;
}

static int64_t shape_by_rows(pysh_launch_t *launch, int kind, int64_t nbytes, int64_t others) {
    int64_t lines = rounds(nbytes, LINE), useful;
    const row_t *row = row_of_sent(kind, nbytes, others);
    bool direct = !has_flags(row, nbytes, launch->slot_nbytes);
    bool reduces = kind == ISHMEMX_KERNEL_REDUCE || kind == ISHMEMX_KERNEL_REDUCE_SCATTER;

    if (shape_for_few(launch, row, nbytes))
        return ISHMEMX_KEY_LEAN;
    if (direct)
        useful = rounds(nbytes, kind == ISHMEMX_KERNEL_REDUCE ? CHUNK * (others + 1) : CHUNK);
    else
        useful = lines * WARP * (reduces || !others ? 1 : others);
    fit(launch, row, useful ? useful : 1);
    return direct ? ISHMEMX_KEY_WIDE : 0;
}

bool pysh_goes_by_engine(int kind, size_t nbytes, int others) {
    return moves(kind) && row_of_sent(kind, (int64_t)nbytes, others)->way == ENGINE;
}

int pysh_sides_reached(int kind, size_t nbytes, int64_t others, int64_t slot_nbytes) {
    if (by_rows(kind) && has_flags(row_of_sent(kind, (int64_t)nbytes, others), (int64_t)nbytes, slot_nbytes))
        return 0; /* slots are what others reach */
    if (moves(kind))
        return ISHMEMX_SIDE_DEST;
    return kind == ISHMEMX_KERNEL_REDUCE_SCATTER ? ISHMEMX_SIDE_SOURCE : ISHMEMX_SIDE_DEST | ISHMEMX_SIDE_SOURCE;
}

static int between(size_t value, int least, int most) {
    return value<(size_t)least ? least : value>(size_t) most ? most : (int)value;
}

/* The same for kernels whose grid meets, and for those of one block. */
static bool shape_by_bytes(pysh_launch_t *launch, int kind, size_t nbytes) {
    bool wide = nbytes >= GRID_FROM_BYTES && pysh_kernel_syncs_grid(kind);

    if (pysh.accel->cpu_visible) {
        launch->blocks = wide ? SIM_BLOCKS : 1;
        launch->threads = nbytes ? SIM_THREADS : 1;
    } else if (wide) {
        launch->blocks = between(nbytes / GRID_BYTES_A_BLOCK, GRID_MIN_BLOCKS, GRID_MAX_BLOCKS);
        launch->threads = GRID_THREADS;
    } else {
        launch->blocks = 1;
        launch->threads = between(nbytes / CHUNK, BLOCK_MIN_THREADS, MAX_THREADS) / WARP * WARP;
    }
    return wide;
}

bool pysh_kernel_syncs_grid(int kind) {
    return kind == ISHMEMX_KERNEL_COLLECT || kind == ISHMEMX_KERNEL_ALLTOALLS || kind == ISHMEMX_KERNEL_SCAN;
}

int64_t pysh_launch_shape(pysh_launch_t *launch, int kind, bool by_proxy, size_t nbytes) {
    if (by_rows(kind) && !by_proxy)
        return shape_by_rows(launch, kind, (int64_t)nbytes, launch->others);
    return shape_by_bytes(launch, kind, nbytes) ? ISHMEMX_KEY_WIDE : 0;
}
