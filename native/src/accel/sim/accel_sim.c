/* SPDX-License-Identifier: BSD-3-Clause
 * The simulator's accelerator: its device heap is memory that all PEs map, its copy engine memcpy. */
#define _GNU_SOURCE
#include "accel/sim/accel_sim.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "accel/accel.h"
#include "accel/sim/engine.h"
#include "accel/sim/streams.h"
#include "agree/agree.h"
#include "base/cpu_amo.h"
#include "base/state.h"
#include "base/status.h"
#include "transport/transport.h"

#define PAGE_BYTES   4096
#define LARGE_BYTES  (64 * 1024)
#define GROWN_BYTES  ((int64_t)64 << 30) /* of addresses: a GPU's memory */
#define GROWTH_BYTES ((int64_t)32 << 20)

static int attach(const ishmemx_config_t *config) {
    (void)config;
    return ISHMEMX_OK;
}

static void detach(int64_t blocks) {
    (void)blocks; /* the arena is the transport's */
    pysh_sim_engine_stop();
}

/* Bytes that this PE's host could give it, when all its PEs ask for as much. */
static int64_t available(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    long long kib = -1;
    int near = 0;

    while (file && kib < 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lld", &kib) != 1)
            kib = -1;
    if (file)
        fclose(file);
    for (int pe = pysh_near_begin(); pe < pysh_near_end(); pe++)
        near += pysh_near(pe);
    return kib < 0 ? INT64_MAX : kib * 1024 / near;
}

/* Pages come when they are touched: the file has room for all from the start. What the host cannot give is refused,
 * as a GPU would, before it is touched. All PEs ask the same host, and hear the least answer. */
static int grow(const char *what, int64_t upto) {
    int64_t mine = available(), at = pysh.arena[ISHMEMX_HEAP_DEVICE].mapped;
    int64_t *all = calloc((size_t)pysh.n_pes, sizeof *all);
    int status;

    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    upto = (upto + GROWTH_BYTES - 1) / GROWTH_BYTES * GROWTH_BYTES;
    status = pysh.agree->exchange(what, &mine, all, sizeof mine);
    for (int pe = 0; !status && pe < pysh.n_pes; pe++)
        if (upto - at > all[pe])
            status = pysh_fail(ISHMEMX_ERR_MEMORY,
                               "the device heap, %s now, cannot grow by %s: the host of PE %d has %s of memory for it",
                               pysh_bytes_text(at), pysh_bytes_text(upto - at), pe, pysh_bytes_text(all[pe]));
    free(all);
    if (!status)
        atomic_store_explicit(&pysh.arena[ISHMEMX_HEAP_DEVICE].mapped, upto, memory_order_release);
    return status;
}

/* The pages go back; a part of a heap that is used again is taken again. */
static int trim(const char *what, int64_t downto) {
    int64_t at = (downto + GROWTH_BYTES - 1) / GROWTH_BYTES * GROWTH_BYTES;
    pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];

    (void)what;
    if (at >= arena->mapped)
        return ISHMEMX_OK;
    madvise(arena->base + at, (size_t)(arena->mapped - at), MADV_REMOVE);
    atomic_store_explicit(&arena->mapped, at, memory_order_release);
    return ISHMEMX_OK;
}

/* Other nodes' arenas may be mapped for all that: a node is then a part of a host, which counts as one. */
static int arena(int64_t *nbytes_p, bool grows, char **base_p, char **peer) {
    int64_t upto = *nbytes_p;
    int status = ISHMEMX_OK;

    if (grows && !pysh.transport->arena_file)
        status = pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                           "a simulated heap of conduit %s has all its memory at once; give its size by "
                           "PYSHMEM_DEVICE_HEAP_SIZE",
                           pysh.transport->name);
    else if (grows && *nbytes_p < GROWN_BYTES)
        *nbytes_p = GROWN_BYTES;
    if (!status)
        status = pysh.transport->arena(ISHMEMX_HEAP_DEVICE, *nbytes_p, base_p, peer);
    if (!status && grows) /* as of a heap of a fixed size, nobody asks whether the host has so much */
        atomic_store_explicit(&pysh.arena[ISHMEMX_HEAP_DEVICE].mapped,
                              (upto + GROWTH_BYTES - 1) / GROWTH_BYTES * GROWTH_BYTES, memory_order_release);
    for (int pe = 0; !status && pe < pysh.n_pes; pe++)
        if (!pysh_near(pe))
            peer[pe] = NULL;
    return status;
}

static int share(pysh_engine_map_t *map, int *fd_p) {
    *map = (pysh_engine_map_t){.pe = pysh.pe, .n_pes = pysh.n_pes, .nbytes = pysh.arena[ISHMEMX_HEAP_DEVICE].nbytes};
    if (!pysh.transport->arena_file)
        return pysh_fail(
            ISHMEMX_ERR_UNSUPPORTED,
            "PYSHMEM_ENGINE=process: the device heap of conduit %s is in no file that another process maps",
            pysh.transport->name);
    *fd_p = pysh.transport->arena_file(ISHMEMX_HEAP_DEVICE, &map->stride);
    return ISHMEMX_OK;
}

static int join(const pysh_engine_map_t *map, int fd, char **base) {
    size_t total = (size_t)map->stride * (size_t)map->n_pes;
    char *region = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (region == MAP_FAILED)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "mapping the device heaps: %s", strerror(errno));
    for (int i = 0; i < ISHMEMX_MAX_NEAR_PES; i++)
        if (map->near[i] >= 0)
            base[i] = region + map->near[i] * map->stride;
    return ISHMEMX_OK;
}

static bool is_device(const void *address) {
    (void)address;
    return false;
}

static int copy(void *dest, const void *source, size_t nbytes) {
    memmove(dest, source, nbytes);
    return ISHMEMX_OK;
}

static int quiet(void) {
    return ISHMEMX_OK;
}

/* Large ranges give their pages back, which then read as zero: what no kernel touches costs no memory. */
static int zero(void *dest, size_t nbytes) {
    size_t head = -(uintptr_t)dest % PAGE_BYTES;
    size_t whole = nbytes > head ? (nbytes - head) / PAGE_BYTES * PAGE_BYTES : 0;

    if (whole < LARGE_BYTES || madvise((char *)dest + head, whole, MADV_REMOVE)) {
        memset(dest, 0, nbytes);
        return ISHMEMX_OK;
    }
    memset(dest, 0, head);
    memset((char *)dest + head + whole, 0, nbytes - head - whole);
    return ISHMEMX_OK;
}

static int amo(int op, int type, void *address, uint64_t value, uint64_t cond, uint64_t *fetched_p) {
    uint64_t old = pysh_amo_apply(op, type, address, value, cond);

    if (fetched_p)
        *fetched_p = old;
    return ISHMEMX_OK;
}

/* Simulated kernels run in the thread that launches them, which is in a call now. */
static bool idle(void) {
    return true;
}

/* Simulated kernels read the host's. */
static int clock_offset(int64_t *offset_ns_p, int64_t *within_ns_p) {
    *offset_ns_p = *within_ns_p = 0;
    return ISHMEMX_OK;
}

static void thread_begin(void) {}

static int host_open(void *base, size_t nbytes) {
    (void)base;
    (void)nbytes;
    return ISHMEMX_OK;
}

static void host_close(void *base) {
    (void)base;
}

static int shared_alloc(size_t nbytes, void **host_p, void **device_p) {
    void *block = calloc(1, nbytes);

    if (!block)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for %zu bytes shared with kernels", nbytes);
    *host_p = *device_p = block;
    return ISHMEMX_OK;
}

const pysh_accel_t pysh_accel_sim = {
    .name = "sim",
    .cpu_visible = true,
    .attach = attach,
    .detach = detach,
    .arena = arena,
    .grow = grow,
    .trim = trim,
    .is_device = is_device,
    .copy = copy,
    .streams = &pysh_sim_streams,
    .copy_nbi = copy,
    .quiet = quiet,
    .zero = zero,
    .offload = pysh_sim_engine_copy,
    .offload_done = pysh_sim_engine_done,
    .offload_mark = pysh_sim_engine_mark,
    .offload_finished = pysh_sim_engine_finished,
    .share = share,
    .join = join,
    .complete = pysh_sim_engine_complete,
    .idle = idle,
    .clock = clock_offset,
    .thread_begin = thread_begin,
    .host_open = host_open,
    .host_close = host_close,
    .amo = amo,
    .shared_alloc = shared_alloc,
    .shared_free = free,
};
