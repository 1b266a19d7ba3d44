/* SPDX-License-Identifier: BSD-3-Clause
 * See host.h. */
#define _GNU_SOURCE
#include "transport/mapped/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/memory_file.h"
#include "base/process.h"
#include "base/state.h"
#include "base/status.h"
#include "join/hello.h"
#include "join/rendezvous.h"
#include "memory/core_dump.h"
#include "memory/heap.h"
#include "memory/retired.h"
#include "node/control.h"
#include "node/kernel_waits.h"
#include "node/liveness.h"
#include "node/node.h"
#include "node/wait.h"

#define ARENA_ALIGN ((size_t)16 << 20) /* each PE's arena begins so: the most shmem_align can give */

enum { FD_CONTROL = 0, FD_ARENA, N_FDS = FD_ARENA + ISHMEMX_HEAP_COUNT };

static struct {
    unsigned round; /* jobs this process has finished */
    int arena_fd[ISHMEMX_HEAP_COUNT];
    char *region[ISHMEMX_HEAP_COUNT]; /* the arenas of all PEs of the host, one behind the other */
    size_t region_nbytes[ISHMEMX_HEAP_COUNT];
} own;

pysh_host_t pysh_host;

/* The number in the job of the i-th PE of this host. */
static int number_of(int i) {
    return pysh_host.pes ? pysh_host.pes[i] : i;
}

/* ---- meeting ---- */

static void close_all(int *fds, int n_fds) {
    for (int i = 0; i < n_fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* The first PE: the host's control segment (the launcher's, if there is one) and the memory of the arenas. */
static int make_descriptors(const ishmemx_config_t *config, int *fds) {
    int status = ISHMEMX_OK;

    for (int i = 0; i < N_FDS; i++)
        fds[i] = -1;
    if (config->control_fd < 0) {
        status = ishmemx_control_create(config->n_pes, &fds[FD_CONTROL]);
    } else {
        fds[FD_CONTROL] = fcntl(config->control_fd, F_DUPFD_CLOEXEC, 0);
        if (fds[FD_CONTROL] < 0)
            status =
                pysh_fail(ISHMEMX_ERR_ARGUMENT, "PYSHMEM_CONTROL_FD is %d: %s", config->control_fd, strerror(errno));
    }
    for (int heap = 0; !status && heap < ISHMEMX_HEAP_COUNT; heap++) {
        fds[FD_ARENA + heap] = pysh_memory_file(heap ? "pyshmem-device-heap" : "pyshmem-heap");
        if (fds[FD_ARENA + heap] < 0)
            status = ISHMEMX_ERR_SYSTEM;
    }
    if (!status)
        status = pysh_control_map(fds[FD_CONTROL], config->n_pes, &pysh_host.control);
    if (status)
        close_all(fds, N_FDS);
    return status;
}

/* Fails in a process that has a PE's environment and is none: the launcher's segment is not open in it, or the PE is
 * another process, whose job would otherwise be reset under it. */
static int check_place(const ishmemx_config_t *config) {
    pysh_control_slot_t *slot;
    pysh_control_t *control;
    pysh_process_t process;
    pysh_hello_t own;
    int status;

    if (config->control_fd < 0)
        return ISHMEMX_OK;
    if ((status = pysh_control_map(config->control_fd, config->n_pes, &control)))
        return status == ISHMEMX_ERR_MISMATCH
                   ? status
                   : pysh_fail(
                         ISHMEMX_ERR_ARGUMENT,
                         "this process was started by PE %d, as multiprocessing and subprocess do, which makes it "
                         "no PE: start PEs by pyshmem run, or pyshmem.launch. If it is to be in the PE's place, "
                         "what starts it must not close files (close_fds=False of subprocess): "
                         "PYSHMEM_CONTROL_FD is %d, which is not the job's control segment here",
                         config->pe, config->control_fd);
    pysh_hello_fill(config, &own);
    slot = &control->slot[config->pe];
    process = pysh_control_process(slot);
    if (atomic_load(&slot->state) == PYSH_PE_RUNNING && process.pid != own.process.pid &&
        pysh_process_same_namespace(&process) && !pysh_process_ended(&process))
        status =
            pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                      "PE %d of this job is process %d, which has not finalised; this one has only its environment "
                      "and is no PE",
                      config->pe, (int)process.pid);
    pysh_control_unmap(control);
    return status;
}

/* The first PE, while no other uses the segment: enters all PEs of the host, so that a death is seen from the start. */
static void enter_all(const pysh_hello_t *hello) {
    pysh_control_t *control = pysh_host.control;

    pysh_control_reset(control);
    control->few = control->n_pes <= PYSH_FEW_PES && control->n_pes <= pysh_cores();
    for (int i = 0; i < pysh_host.n; i++) {
        pysh_control_slot_t *slot = &control->slot[number_of(i)];
        pysh_control_set_process(slot, &hello[i].process);
        atomic_store(&slot->state, PYSH_PE_RUNNING);
    }
}

/* `config` is the job's, `here` the same of the host alone: whose n_pes is the host's, and pe the index there. */
static int host_meet(const ishmemx_config_t *config, const ishmemx_config_t *here, int *fds) {
    pysh_rendezvous_t rendezvous;
    pysh_hello_t self;
    int status;

    if (here->pe != 0) {
        status = pysh_rendezvous_join(here, own.round, fds, N_FDS);
        if (status || !(status = pysh_control_map(fds[FD_CONTROL], config->n_pes, &pysh_host.control)))
            return status;
        close_all(fds, N_FDS);
        return status;
    }
    if (here->n_pes == 1) {
        if ((status = make_descriptors(config, fds)))
            return status;
        pysh_hello_fill(config, &self);
        enter_all(&self);
        return ISHMEMX_OK;
    }
    if ((status = pysh_rendezvous_gather(here, own.round, &rendezvous)))
        return status;
    if ((status = make_descriptors(config, fds))) {
        pysh_rendezvous_refuse(&rendezvous, status, config->job);
        return status;
    }
    enter_all(rendezvous.hello);
    return pysh_rendezvous_release(&rendezvous, fds, N_FDS, config->job);
}

int pysh_host_open(const ishmemx_config_t *config, const int *pes, int n, int index) {
    ishmemx_config_t here = *config;
    int fds[N_FDS], status;

    if (config->n_pes > PYSH_MAX_PES)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "a job has at most %d PEs, not %d", PYSH_MAX_PES, config->n_pes);
    here.pe = index;
    here.n_pes = n;
    pysh_host.pe = config->pe;
    pysh_host.pes = pes;
    pysh_host.n = n;
    if ((status = check_place(config)) || (status = host_meet(config, &here, fds)))
        return status;
    pysh_host.slot = &pysh_host.control->slot[config->pe];
    close(fds[FD_CONTROL]);
    memcpy(own.arena_fd, fds + FD_ARENA, sizeof own.arena_fd);
    return ISHMEMX_OK;
}

int pysh_host_watch(void) {
    int status = pysh_node_open(pysh_host.control->n_pes);

    if (status)
        return status;
    for (int i = 0; i < pysh_host.n; i++)
        pysh_node.slot[number_of(i)] = &pysh_host.control->slot[number_of(i)];
    pysh_node.own = pysh_host.slot;
    pysh_node.sleepers = &pysh_host.control->sleepers;
    pysh_node.alarm = &pysh_host.control->aborted;
    return pysh_peers_watch(pysh_host.control, pysh_host.pe);
}

int pysh_host_liveness(void) {
    const char *why = pysh_control_abort_reason(pysh_host.control);

    if (why)
        return pysh_fail(ISHMEMX_ERR_PEER, "the job is being aborted: %s", why);
    return pysh_peers_check(pysh_host.control, pysh_host.pe);
}

/* ---- the end ---- */

void pysh_host_leave(void) {
    /* release: pairs with the acquire in pysh_peers_check() */
    atomic_store_explicit(&pysh_host.slot->state, PYSH_PE_FINALIZED, memory_order_release);
}

static void unmap(void *base, size_t nbytes) {
    munmap(base, nbytes);
}

#define PAGE_BYTES ((uintptr_t)4096)

/* The whole pages of [base, +nbytes): none where it ends before it begins. */
static size_t whole_pages(void *base, size_t nbytes, char **first_p) {
    uintptr_t first = ((uintptr_t)base + PAGE_BYTES - 1) & -PAGE_BYTES, end = ((uintptr_t)base + nbytes) & -PAGE_BYTES;

    *first_p = (char *)first;
    return end > first ? end - first : 0;
}

/* Of all mappings of the memory, by any PE. A system that cannot keeps them. */
void pysh_host_give_back(void *base, size_t nbytes) {
    char *first;
    size_t whole = whole_pages(base, nbytes, &first);

    if (whole)
        (void)madvise(first, whole, MADV_REMOVE);
}

/* Its addresses stay taken: who looks there is told by a signal, and nobody else comes there before all is unmapped. */
static void let_go(char *base, size_t nbytes) {
    char *first;
    size_t whole = whole_pages(base, nbytes, &first);

    if (whole)
        (void)mmap(first, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* What holds no PE's block: the own pages go, whoever has them mapped; and where a block keeps the region, the rest of
 * it is no longer mapped, in all PEs' arenas. Not in a job that fails, whose PEs may be in anything. */
static void empty_region(int heap, bool keeps) {
    size_t stride = own.region_nbytes[heap] / (size_t)pysh_host.n, n_holes;
    const pysh_extent_t *holes = pysh_heap_holes(heap, &n_holes), system = {0, pysh.arena[heap].system};

    if (!holes || pysh_control_abort_reason(pysh_host.control))
        return;
    for (size_t i = 0; i <= n_holes; i++) {
        pysh_extent_t part = i ? holes[i - 1] : system;
        pysh_host_give_back(pysh.arena[heap].base + part.offset, (size_t)part.nbytes);
        for (int i = 0; keeps && i < pysh_host.n; i++)
            let_go(own.region[heap] + (size_t)i * stride + part.offset, (size_t)part.nbytes);
    }
}

void pysh_host_close(const int64_t *blocks) {
    for (int heap = 0; pysh_host.control && heap < ISHMEMX_HEAP_COUNT; heap++)
        if (own.region[heap])
            empty_region(heap, blocks[heap] > 0);
    if (pysh_host.control) {
        pysh_control_set_activity(pysh_host.slot, NULL, 0, PYSH_WAITS);
        pysh_host_leave();
        pysh_node_close();
        pysh_control_unmap(pysh_host.control);
    }
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        if (own.region[heap])
            pysh_retire(own.region[heap], own.region_nbytes[heap], blocks[heap], unmap);
    close_all(own.arena_fd, ISHMEMX_HEAP_COUNT);
    pysh_peers_unwatch();
    memset(own.region, 0, sizeof own.region);
    pysh_host.control = NULL;
    pysh_host.slot = NULL;
    own.round++;
}

void pysh_host_open_failed(void) {
    pysh_host_close((int64_t[ISHMEMX_HEAP_COUNT]){0});
    own.round--;
}

/* ---- arenas ---- */

/* `nbytes` of `fd` at an address that is a multiple of ARENA_ALIGN; NULL with errno. */
static char *map_aligned(int fd, size_t nbytes) {
    char *reserved = mmap(NULL, nbytes + ARENA_ALIGN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t head;
    char *base;

    if (reserved == MAP_FAILED)
        return NULL;
    head = -(uintptr_t)reserved % ARENA_ALIGN;
    base = mmap(reserved + head, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        int why = errno;
        munmap(reserved, nbytes + ARENA_ALIGN);
        errno = why;
        return NULL;
    }
    if (head)
        munmap(reserved, head);
    munmap(base + nbytes, ARENA_ALIGN - head);
    return base;
}

/* The memory grows to its size by the first PE that comes here; the others ask for the same size. */
int pysh_host_arena(int heap, int64_t nbytes, char **base_p, char **peer) {
    size_t stride = ((size_t)nbytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN, total;
    char *region = NULL;

    if (__builtin_mul_overflow(stride, (size_t)pysh_host.n, &total) || total >= INT64_MAX)
        errno = ENOMEM;
    else if (pysh_memory_file_size(own.arena_fd[heap], total) == 0)
        region = map_aligned(own.arena_fd[heap], total);
    if (!region)
        return pysh_fail(
            ISHMEMX_ERR_SYSTEM,
            "symmetric %s heap of %s for each of %d PEs: %s; lower PYSHMEM_%sHEAP_SIZE, or %sheap_size= of init",
            heap == ISHMEMX_HEAP_HOST ? "host" : "device", pysh_bytes_text(nbytes), pysh_host.n,
            pysh_memory_file_reason(errno), heap == ISHMEMX_HEAP_HOST ? "" : "DEVICE_",
            heap == ISHMEMX_HEAP_HOST ? "" : "device_");
    pysh_arena_no_dump(region, total);
    own.region[heap] = region;
    own.region_nbytes[heap] = total;
    for (int i = 0; i < pysh_host.n; i++) {
        char *base = region + (size_t)i * stride;
        if (number_of(i) == pysh_host.pe)
            *base_p = base;
        peer[number_of(i)] = base;
    }
    return ISHMEMX_OK;
}

int pysh_host_arena_file(int heap, int64_t *stride_p) {
    *stride_p = (int64_t)(own.region_nbytes[heap] / (size_t)pysh_host.n);
    return own.arena_fd[heap];
}
