/* SPDX-License-Identifier: BSD-3-Clause
 * The transport over an OpenSHMEM library: the road past one host. Arenas are blocks of the library's
 * heap. PEs that it maps (shmem_ptr) are reached by load and store, the others by its put, get and
 * atomics. When it maps all, as on one host, the transport turns into one that needs no such calls.
 *
 * The library can be initialised only once: it is left at exit, and a later job of this process finds
 * it running. Its calls are made one at a time, whatever thread level it grants: heavy use from several
 * threads has failed in UCX. */
#define _GNU_SOURCE
#include "transport/openshmem/start.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"
#include "join/hello.h"
#include "memory/core_dump.h"
#include "memory/retired.h"
#include "memory/static_copy.h"
#include "memory/system_region.h"
#include "node/control.h"
#include "node/node.h"
#include "node/sleep.h"
#include "transport/openshmem/amo.h"
#include "transport/openshmem/barrier.h"
#include "transport/openshmem/exchange.h"
#include "transport/openshmem/hosts.h"
#include "transport/openshmem/library.h"
#include "transport/openshmem/openshmem.h"
#include "transport/openshmem/progress.h"
#include "transport/openshmem/transfer.h"
#include "transport/transport.h"

#define ARENA_ALIGN ((size_t)2 << 20)
#define SPARE_BYTES ((int64_t)16 << 20) /* control block, alignment and the library's own needs */
#define MAX_BLOCKS  32

static const pysh_transport_t all_mapped_table;
static const pysh_agree_t agree;

static struct {
    pid_t owner;        /* the process that initialised the library; 0: none */
    bool joined;        /* in a job */
    int64_t heap_bytes; /* asked of the library */
    struct {
        char *base;
        int64_t nbytes;
        _Atomic bool used;
    } block[MAX_BLOCKS];                     /* the same on all PEs, but for `used` */
    int n_blocks, arena[ISHMEMX_HEAP_COUNT]; /* blocks of this job; -1: none */
} own;

/* ---- init ---- */

/* The exit of a PE in the middle of a job, or after one that did not end together. What the library does behind this,
 * from its own exit handler, waits for PEs that are gone, or takes the heap from under threads that still run. Of a C
 * program that ends with 0 and never calls finalize, as of start_pes times, it makes a good end; those that wait for
 * this PE in a barrier are told. */
static void leave_job(int status) {
    if (status) { /* the launcher ends the others */
        fflush(NULL);
        _exit(status);
    }
    if (pysh_openshmem_is_over(pysh_os.library)) {
        pysh_os_serve_no_more();
        pysh_openshmem_finalize(pysh_os.library, status);
        return;
    }
    if (own.joined && atomic_load(pysh_os_alarm()) & PYSH_GLOBAL_EXIT)
        pysh_os.library->global_exit(0);
    if (own.joined)
        pysh_os_tell_left();
    pysh_os_serve_no_more(); /* before the library goes */
}

static void leave_library(int status) {
    if (own.owner != getpid())
        return;
    if (own.joined || pysh_os.unfit) {
        leave_job(status);
        return;
    }
    pysh_os_serve_no_more();
    PYSH_OS_LOCK(); /* for good: no progress from here on */
    pysh_openshmem_finalize(pysh_os.library, status);
    own.owner = 0;
}

/* In a child of fork the library's exit handler would wait as the PE that forked, and break what that one shares. */
static void at_exit(int status, void *unused) {
    (void)unused;
    if (own.owner && own.owner != getpid()) {
        fflush(NULL);
        _exit(status);
    }
    leave_library(status);
}

void ishmemx_openshmem_leave(void) {
    leave_library(0);
}

static int64_t places_nbytes(int n_pes) {
    return 2LL * n_pes * PYSH_OS_PLACE_BYTES;
}

static int control_open(void) {
    size_t nbytes = sizeof(pysh_os_control_t);
    int status;

    pysh_os.peer = calloc((size_t)pysh_os.n_pes, sizeof *pysh_os.peer);
    pysh_os.control = pysh_os.library->align(4096, nbytes + (size_t)places_nbytes(pysh_os.n_pes));
    if (!pysh_os.peer || !pysh_os.control)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", pysh_os.n_pes);
    memset(pysh_os.control, 0, nbytes);
    for (int pe = 0; pe < pysh_os.n_pes; pe++)
        pysh_os.peer[pe] = pe == pysh_os.pe ? pysh_os.control : pysh_os.library->ptr(pysh_os.control, pe);
    if ((status = pysh_os_learn_hosts()))
        return status;
    return pysh_os.direct ? ISHMEMX_OK : pysh_os_serve_in_background();
}

/* Found out before the library starts: alone it would be a job of one PE. */
static int check_launcher(const ishmemx_config_t *config) {
    int64_t n_pes;
    int status = ishmemx_setting_number("N_PES", &n_pes);

    if (status || n_pes < 2)
        return status;
    return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                     "conduit openshmem: `python -m pyshmem run` starts no OpenSHMEM jobs; start this one with "
                     "`oshrun -n %d`",
                     config->n_pes);
}

static int library_start(const ishmemx_config_t *config) {
    int level = 0, status;

    if ((status = check_launcher(config)))
        return status;
    own.heap_bytes = config->heap_bytes + SPARE_BYTES + pysh.team_tables_nbytes + places_nbytes(config->n_pes);
    if (config->accelerator != ISHMEMX_DEVICE_NONE)
        own.heap_bytes += pysh.am_nbytes;
    if (config->accelerator == ISHMEMX_DEVICE_SIM)
        own.heap_bytes += config->device_heap_bytes + pysh.kernel_tables_nbytes;
    if ((status = pysh_openshmem_open(&pysh_os.library)) || (status = pysh_openshmem_check_srun(config->n_pes, 0)) ||
        (status = pysh_openshmem_start(pysh_os.library, own.heap_bytes, pysh.several_hosts, &level)))
        return status;
    own.owner = getpid();
    on_exit(at_exit, NULL);
    pysh_os.pe = pysh_os.library->my_pe();
    pysh_os.n_pes = pysh_os.library->n_pes();
    return ISHMEMX_OK;
}

static int check_place(const ishmemx_config_t *config) {
    if (pysh_os.n_pes > PYSH_OS_MAX_PES)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "the openshmem conduit has at most %d PEs, not %d", PYSH_OS_MAX_PES,
                         pysh_os.n_pes);
    if (pysh_os.pe == config->pe && pysh_os.n_pes == config->n_pes)
        return ISHMEMX_OK;
    if (pysh_openshmem_check_srun(config->n_pes, pysh_os.n_pes))
        return ISHMEMX_ERR_MISMATCH;
    return pysh_fail(ISHMEMX_ERR_MISMATCH,
                     "%s says PE %d of %d, but the launcher PE %d of %d; start the job with the launcher of that "
                     "library (oshrun for Open MPI)%s",
                     pysh_os.library->path, pysh_os.pe, pysh_os.n_pes, config->pe, config->n_pes,
                     pysh.several_hosts ? pysh.one_host_advice : ", or take PYSHMEM_CONDUIT=shm");
}

/* All PEs have seen the same versions, so all come here, and learn the paths too. */
static int other_version(const pysh_hello_t *mine, pysh_hello_t *all, int pe) {
    char (*paths)[PYSH_HELLO_PATH] = calloc((size_t)pysh_os.n_pes, sizeof *paths);

    if (paths && pysh_os_exchange("init", mine->path, paths, sizeof *paths) == ISHMEMX_OK) {
        memcpy(all[pe].path, paths[pe], sizeof *paths);
        memcpy(all[0].path, paths[0], sizeof *paths);
    }
    free(paths);
    return pysh_hello_mismatch(&all[pe], &all[0]);
}

/* Everybody's hello must agree; it doubles as the barrier of init. */
static int compare_hellos(const ishmemx_config_t *config) {
    pysh_hello_t mine, *all = calloc((size_t)pysh_os.n_pes, sizeof *all);
    char *heard = malloc((size_t)pysh_os.n_pes * PYSH_HELLO_BYTES);
    int status;

    if (!all || !heard) {
        free(all);
        free(heard);
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", pysh_os.n_pes);
    }
    pysh_hello_fill(config, &mine);
    status = pysh_os_exchange("init", &mine, heard, PYSH_HELLO_BYTES);
    for (int pe = 0; !status && pe < pysh_os.n_pes; pe++)
        memcpy(&all[pe], heard + (size_t)pe * PYSH_HELLO_BYTES, PYSH_HELLO_BYTES);
    free(heard);
    for (int pe = 1; !status && pe < pysh_os.n_pes; pe++) {
        if (strcmp(all[pe].version, all[0].version))
            status = other_version(&mine, all, pe);
        else if (all[pe].accelerator != all[0].accelerator || all[pe].heap_bytes != all[0].heap_bytes ||
                 all[pe].device_heap_bytes != all[0].device_heap_bytes)
            status = pysh_fail(ISHMEMX_ERR_MISMATCH,
                               "PE %d wants heaps of %s and %s on accelerator %d, PE 0 of %s and %s on accelerator %d; "
                               "PYSHMEM_HEAP_SIZE, PYSHMEM_DEVICE_HEAP_SIZE and PYSHMEM_DEVICE must be the same "
                               "everywhere",
                               pe, pysh_bytes_text(all[pe].heap_bytes), pysh_bytes_text(all[pe].device_heap_bytes),
                               (int)all[pe].accelerator, pysh_bytes_text(all[0].heap_bytes),
                               pysh_bytes_text(all[0].device_heap_bytes), (int)all[0].accelerator);
    }
    free(all);
    return status;
}

static int node_open(void) {
    int status = pysh_node_open(pysh_os.n_pes);

    if (status)
        return status;
    for (int pe = 0; pe < pysh_os.n_pes; pe++)
        pysh_node.slot[pe] = pysh_os.peer[pe] ? &pysh_os.peer[pe]->slot : NULL;
    pysh_node.own = &pysh_os.control->slot;
    pysh_node.alarm = pysh_os_alarm();
    pysh_node.remote = !pysh_os.direct;
    pysh_node.on_host = pysh_os_on_host;
    pysh_node.host = pysh_os_host;
    pysh_node.progress = pysh_os_progress;
    pysh_node.liveness = pysh_os_liveness;
    pysh_node.abort = pysh_os_abort;
    return ISHMEMX_OK;
}

static int os_open(const ishmemx_config_t *config, int *pe_p, int *n_pes_p) {
    pysh_hello_t hello;
    int status = ISHMEMX_OK;

    if (own.owner && (own.owner != getpid() || pysh_os.unfit || pysh_openshmem_is_over(pysh_os.library)))
        return pysh_fail(ISHMEMX_ERR_STATE, "the OpenSHMEM library cannot begin another job %s",
                         own.owner != getpid() ? "in a forked process"
                         : pysh_os.unfit       ? "after one that failed"
                                               : "after MPI_Finalize: call that behind the last job");
    if (!own.owner)
        status = library_start(config);
    if (!status)
        status = check_place(config);
    if (!status && !pysh_os.control)
        status = control_open();
    if (status)
        return status;
    pysh_sleep_prepare();
    pysh_hello_fill(config, &hello);
    pysh_control_set_process(&pysh_os.control->slot, &hello.process);
    pysh_control_set_activity(&pysh_os.control->slot, NULL, 0, PYSH_WAITS);
    atomic_store(&pysh_os.control->slot.state, PYSH_PE_RUNNING);
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        own.arena[heap] = -1;
    pysh.agree = &agree;
    if ((status = node_open()))
        return status;
    if ((status = compare_hellos(config))) {
        pysh_node_close();
        return status;
    }
    own.joined = pysh_os.unfit = true; /* until the job has ended together */
    *pe_p = pysh_os.pe;
    *n_pes_p = pysh_os.n_pes;
    return ISHMEMX_OK;
}

/* ---- arenas ---- */

/* Blocks that fit and that no PE uses any more, as bits. */
static int reusable(int64_t nbytes, uint32_t *mask_p) {
    uint32_t mine = 0, *all = calloc((size_t)pysh_os.n_pes, sizeof *all);
    int status;

    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to ask %d PEs", pysh_os.n_pes);
    for (int i = 0; i < own.n_blocks; i++)
        if (own.block[i].nbytes == nbytes && !atomic_load(&own.block[i].used))
            mine |= 1u << i;
    status = pysh_os_exchange("init", &mine, all, sizeof mine);
    *mask_p = mine;
    for (int pe = 0; !status && pe < pysh_os.n_pes; pe++)
        *mask_p &= all[pe];
    free(all);
    return status;
}

static int take_block(int heap, int64_t nbytes, int *index_p) {
    uint32_t mask = 0;
    char *base;
    int status = reusable(nbytes, &mask);

    if (status)
        return status;
    if (mask) {
        *index_p = __builtin_ctz(mask);
        atomic_store(&own.block[*index_p].used, true);
        if (heap == ISHMEMX_HEAP_HOST) /* the rest is as the earlier job left it; teams clear their tables */
            memset(own.block[*index_p].base, 0, PYSH_SYSTEM_BYTES);
        return ISHMEMX_OK;
    }
    PYSH_OS_LOCK(); /* the thread that serves other hosts waits; the library waits for the other PEs */
    base = own.n_blocks < MAX_BLOCKS ? pysh_os.library->align(ARENA_ALIGN, (size_t)nbytes) : NULL;
    PYSH_OS_UNLOCK();
    if (!base)
        return pysh_fail(ISHMEMX_ERR_MEMORY,
                         "no room for a symmetric %s heap of %s: the first init of this process made the OpenSHMEM "
                         "library's of %s; drop all arrays of an earlier job before the next, and give the first the "
                         "largest PYSHMEM_%sHEAP_SIZE",
                         heap ? "device" : "host", pysh_bytes_text(nbytes), pysh_bytes_text(own.heap_bytes),
                         heap ? "DEVICE_" : "");
    *index_p = own.n_blocks++;
    own.block[*index_p].base = base;
    own.block[*index_p].nbytes = nbytes;
    atomic_store(&own.block[*index_p].used, true);
    return ISHMEMX_OK;
}

static int os_barrier(const char *what, bool mine, bool *all_p) {
    return pysh_os_arrive(what, PYSH_OS_ARRIVAL + (mine ? PYSH_OS_VOTE : 0), all_p);
}

/* The CPU's stores reach all memory of all PEs: the library has nothing to do, nor to complete. */
static void no_calls(void) {
    pysh.transport = &all_mapped_table;
    pysh_node.progress = NULL;
}

static int os_arena(int heap, int64_t nbytes, char **base_p, char **peer) {
    bool mapped = true, all_mapped;
    int index = 0, status = take_block(heap, nbytes, &index);
    char *base;

    if (status)
        return status;
    own.arena[heap] = index;
    base = own.block[index].base;
    PYSH_OS_LOCK();
    for (int pe = 0; pe < pysh_os.n_pes; pe++) {
        peer[pe] = pe == pysh_os.pe ? base : pysh_os.library->ptr(base, pe);
        mapped = mapped && peer[pe];
    }
    PYSH_OS_UNLOCK();
    for (int pe = 0; pe < pysh_os.n_pes; pe++)
        if (peer[pe])
            pysh_arena_no_dump(peer[pe], (size_t)nbytes);
    if ((status = os_barrier("init", mapped && pysh_os.direct, &all_mapped)))
        return status;
    if (heap == ISHMEMX_HEAP_HOST && all_mapped)
        no_calls();
    *base_p = base;
    return ISHMEMX_OK;
}

/* ---- finalize ---- */

static void give_back(void *base, size_t nbytes) {
    (void)nbytes;
    for (int i = 0; i < own.n_blocks; i++)
        if (own.block[i].base == base)
            atomic_store(&own.block[i].used, false);
}

static void os_leave(void) {
    /* release: pairs with the acquire in liveness */
    atomic_store_explicit(&pysh_os.control->slot.state, PYSH_PE_FINALIZED, memory_order_release);
}

static void os_close(const int64_t *blocks) {
    pysh_node_activity(NULL, 0, PYSH_WAITS);
    os_leave();
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        if (own.arena[heap] >= 0)
            pysh_retire(own.block[own.arena[heap]].base, (size_t)own.block[own.arena[heap]].nbytes, blocks[heap],
                        give_back);
    own.joined = false;
    pysh_node_close();
}

static int os_exchange(const char *what, const void *mine, void *all, size_t nbytes) {
    int status = pysh_os_exchange(what, mine, all, nbytes);

    if (!status && strcmp(what, "finalize") == 0)
        pysh_os.unfit = false;
    return status;
}

static int os_amo(int heap, int op, int type, int64_t dest, uint64_t value, uint64_t cond, int pe,
                  uint64_t *fetched_p) {
    return pysh_os_amo(op, type, pysh.arena[heap].base + dest, value, cond, pe, fetched_p);
}

/* ---- the tables ---- */

static const pysh_agree_t agree = {.exchange = os_exchange, .barrier = os_barrier};

#define COMMON .name = "openshmem", .open = os_open, .close = os_close, .leave = os_leave, .arena = os_arena

const pysh_transport_t pysh_transport_openshmem = {COMMON,
                                                   .put = pysh_os_put,
                                                   .get = pysh_os_get,
                                                   .amo = os_amo,
                                                   .raise = pysh_os_raise,
                                                   .post = pysh_os_post,
                                                   .flush = pysh_os_flush,
                                                   .outstanding = pysh_os_outstanding,
                                                   .reaches = pysh_os_reaches};

/* Every PE maps every heap of the others, and they are on one host. */
static const pysh_transport_t all_mapped_table = {COMMON, .put = pysh_static_put, .get = pysh_static_get,
                                                  .amo = pysh_static_amo, .reaches = pysh_static_reaches};
