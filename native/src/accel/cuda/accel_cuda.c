/* SPDX-License-Identifier: BSD-3-Clause
 * Device heaps on NVIDIA GPUs: cuMemAlloc arenas that the PEs of a host open with CUDA IPC. Several PEs
 * may share a GPU. All our work runs on streams of our own that do not wait for the default stream. */
#include "accel/cuda/accel_cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/cuda/amo.h"
#include "accel/cuda/driver.h"
#include "accel/cuda/engine.h"
#include "accel/cuda/peers.h"
#include "base/state.h"
#include "base/status.h"
#include "conduit/conduit.h"
#include "memory/retired.h"

#define ALLOCATION_UNIT   (2 * 1024 * 1024) /* so that no arena shares an allocation of the driver's */
#define DETACH_TIMEOUT_NS 2000000000LL

static struct {
    int ordinal;
    CUdevice device;
    CUcontext context; /* primary, retained; NULL: not attached */
    CUstream stream, nbi_stream;
    CUdeviceptr base;
    int64_t nbytes;
    CUipcMemHandle *handles; /* [n_pes] of the PEs' arenas */
    CUdeviceptr *opened;     /* [n_pes] mappings of the peers' arenas; 0: none */
    _Atomic uint64_t nbi_started, nbi_finished;
    pysh_cuda_amo_t amo;
    pthread_mutex_t amo_lock;       /* for slot 0, held while a host call waits */
    pthread_mutex_t amo_slots_lock; /* for the others: no wait under it */
} gpu = {.amo_lock = PTHREAD_MUTEX_INITIALIZER, .amo_slots_lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- our context and capture mode, for the time of a call, on whatever thread it comes from ---- */

typedef struct visit {
    bool pushed;
    int mode;
} visit_t;

static visit_t context_enter(void) {
    visit_t visit = {.mode = pysh_cuda_relax()};
    CUcontext current = NULL;

    pysh_cuda.CtxGetCurrent(&current);
    visit.pushed = current != gpu.context && pysh_cuda.CtxPushCurrent(gpu.context) == 0;
    return visit;
}

static void context_leave(visit_t visit) {
    CUcontext popped;

    if (visit.pushed)
        pysh_cuda.CtxPopCurrent(&popped);
    pysh_cuda_restore(visit.mode);
}

/* ---- attach and detach ---- */

/* The GPU's primary context, current; *card is for the other PEs to know it by. */
static int open_card(int ordinal, int count, pysh_cuda_card_t *card) {
    CUresult result;

    if (ordinal >= count)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "GPU %d was asked for, but this process sees %d", ordinal, count);
    gpu.ordinal = ordinal;
    result = pysh_cuda.DeviceGet(&gpu.device, ordinal);
    if (!result)
        result = pysh_cuda.DeviceGetUuid(&card->uuid, gpu.device);
    if (!result)
        result = pysh_cuda.DeviceGetPCIBusId(card->bus, (int)sizeof card->bus, gpu.device);
    if (!result)
        result = pysh_cuda.DevicePrimaryCtxRetain(&gpu.context, gpu.device);
    if (result) {
        gpu.context = NULL;
        return pysh_cuda_fail(result, "opening GPU %d", ordinal);
    }
    result = pysh_cuda.CtxSetCurrent(gpu.context);
    return result ? pysh_cuda_fail(result, "the context of GPU %d", ordinal) : ISHMEMX_OK;
}

static int attach_card(const ishmemx_config_t *config, pysh_cuda_card_t *card, int count) {
    int ordinal = config->device >= 0 ? config->device : (config->local_pe > 0 ? config->local_pe : 0) % count;
    int status = open_card(ordinal, count, card);
    CUresult result;

    if (status)
        return status;
    result = pysh_cuda.StreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = pysh_cuda.StreamCreate(&gpu.nbi_stream, CU_STREAM_NON_BLOCKING);
    if (result)
        return pysh_cuda_fail(result, "making a stream on GPU %d", gpu.ordinal);
    if ((status = pysh_cuda_engine_open()))
        return status;
    return pysh_cuda_amo_open(&gpu.amo, gpu.stream);
}

static int attach_own(const ishmemx_config_t *config, pysh_cuda_card_t *card) {
    int count, mode;
    int status = pysh_cuda_open(&count);

    if (status)
        return status;
    if (!count)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "there is no NVIDIA GPU, or no driver for it, on this host; "
                                                  "PYSHMEM_DEVICE=sim runs kernels in the simulator");
    mode = pysh_cuda_relax();
    status = attach_card(config, card, count);
    pysh_cuda_restore(mode);
    return status;
}

/* The primary context is the same for all our jobs; this may come after the job, in any thread. */
static void unmap(void *base, size_t nbytes) {
    int mode = pysh_cuda_relax();
    CUdevice device;
    CUcontext context;

    (void)nbytes;
    if (!pysh_cuda.DeviceGet(&device, gpu.ordinal) && !pysh_cuda.DevicePrimaryCtxRetain(&context, device)) {
        if (!pysh_cuda.CtxPushCurrent(context)) {
            pysh_cuda.MemFree((CUdeviceptr)(uintptr_t)base);
            pysh_cuda.CtxPopCurrent(&context);
        }
        pysh_cuda.DevicePrimaryCtxRelease(device);
    }
    pysh_cuda_restore(mode);
}

static void detach(int64_t blocks) {
    int mode;

    if (!gpu.context)
        return;
    mode = pysh_cuda_relax();
    pysh_cuda.CtxSetCurrent(gpu.context);
    for (int pe = 0; gpu.opened && pe < pysh.n_pes; pe++)
        if (gpu.opened[pe])
            pysh_cuda.IpcCloseMemHandle(gpu.opened[pe]);
    /* The driver asks that all mappings go before the memory does. A PE that is late has died. */
    if (gpu.opened && pysh.ready && !atomic_load(pysh.alarm)) {
        pysh.timeout_ns = DETACH_TIMEOUT_NS;
        pysh.conduit->barrier("finalize");
    }
    free(gpu.opened);
    free(gpu.handles);
    gpu.opened = NULL;
    gpu.handles = NULL;
    if (gpu.base)
        pysh_retire((void *)(uintptr_t)gpu.base, (size_t)gpu.nbytes, blocks, unmap);
    gpu.base = 0;
    gpu.nbytes = 0;
    pysh_cuda_amo_close(&gpu.amo);
    pysh_cuda_engine_close();
    if (gpu.stream)
        pysh_cuda.StreamDestroy(gpu.stream);
    if (gpu.nbi_stream)
        pysh_cuda.StreamDestroy(gpu.nbi_stream);
    gpu.stream = gpu.nbi_stream = NULL;
    if (!blocks) /* the context's memory goes with it */
        pysh_cuda.DevicePrimaryCtxRelease(gpu.device);
    gpu.context = NULL;
    pysh_cuda_restore(mode);
}

static int attach(const ishmemx_config_t *config) {
    pysh_cuda_card_t mine = {.bus = ""};
    int status;

    if (pysh.n_pes > ISHMEMX_MAX_DEVICE_PES)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "a device heap serves %d PEs at most; there are %d",
                         ISHMEMX_MAX_DEVICE_PES, pysh.n_pes);
    status = pysh_cuda_agree(attach_own(config, &mine));
    if (!status)
        status = pysh.p2p ? pysh_cuda_check_matrix(gpu.device, &mine) : ISHMEMX_OK;
    if (status)
        detach(0);
    return status;
}

/* ---- the arena ---- */

static int arena_make(int64_t nbytes, CUipcMemHandle *handle) {
    size_t total = ((size_t)nbytes + ALLOCATION_UNIT - 1) / ALLOCATION_UNIT * ALLOCATION_UNIT, vacant = 0, all = 0;
    CUresult result = pysh_cuda.MemAlloc(&gpu.base, total);

    if (result) {
        gpu.base = 0;
        pysh_cuda.MemGetInfo(&vacant, &all);
        return pysh_cuda_fail(result,
                              "allocating a device heap of %s on GPU %d (%s free); lower "
                              "PYSHMEM_DEVICE_HEAP_SIZE",
                              pysh_bytes_text((int64_t)total), gpu.ordinal, pysh_bytes_text((int64_t)vacant));
    }
    gpu.nbytes = nbytes;
    result = pysh_cuda.IpcGetMemHandle(handle, gpu.base);
    return result ? pysh_cuda_fail(result, "sharing the device heap of GPU %d (CUDA IPC)", gpu.ordinal) : ISHMEMX_OK;
}

static int arena_open(const CUipcMemHandle *handles, char **peer) {
    gpu.opened = calloc((size_t)pysh.n_pes, sizeof *gpu.opened);
    if (!gpu.opened)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    for (int pe = 0; pe < pysh.n_pes; pe++) {
        CUresult result = 0;
        if (pe != pysh.pe && !pysh.p2p)
            continue;
        if (pe != pysh.pe)
            result = pysh_cuda.IpcOpenMemHandle(&gpu.opened[pe], handles[pe], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (result) {
            gpu.opened[pe] = 0;
            return pysh_cuda_fail(result, "GPU %d cannot map the device heap of PE %d (CUDA IPC)", gpu.ordinal, pe);
        }
        peer[pe] = (char *)(uintptr_t)(pe == pysh.pe ? gpu.base : gpu.opened[pe]);
    }
    return ISHMEMX_OK;
}

static int arena(int64_t nbytes, char **base_p, char **peer) {
    CUipcMemHandle mine = {{0}};
    visit_t visit = context_enter();
    int status;

    gpu.handles = calloc((size_t)pysh.n_pes, sizeof *gpu.handles);
    status = gpu.handles ? arena_make(nbytes, &mine) : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join the PEs");

    status = pysh_cuda_agree(status);
    if (!status)
        status = pysh.conduit->exchange("init", &mine, gpu.handles, sizeof mine);
    if (!status)
        status = pysh_cuda_agree(arena_open(gpu.handles, peer));
    if (!status)
        *base_p = (char *)(uintptr_t)gpu.base;
    context_leave(visit);
    return status;
}

/* ---- a copy engine in another process ---- */

static int share(pysh_engine_map_t *map, int *fd_p) {
    *map = (pysh_engine_map_t){.pe = pysh.pe, .n_pes = pysh.n_pes, .device = gpu.ordinal, .nbytes = gpu.nbytes};
    memcpy(map->handle, gpu.handles, (size_t)pysh.n_pes * sizeof *gpu.handles);
    *fd_p = -1;
    return ISHMEMX_OK;
}

/* A first copy in each direction: what the driver loads or maps at first use, it does now. */
static CUresult try_copies(int n_pes, char *const *base) {
    CUstream stream = NULL;
    CUdeviceptr scratch = 0;
    CUresult result = pysh_cuda.MemAlloc(&scratch, ALLOCATION_UNIT);

    if (!result)
        result = pysh_cuda.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    for (int pe = 0; !result && pe < n_pes; pe++)
        result = pysh_cuda.MemcpyAsync(scratch, (CUdeviceptr)(uintptr_t)base[pe], 8, stream);
    if (!result)
        result = pysh_cuda.StreamWriteValue64(stream, scratch, 0, 0);
    if (!result)
        result = pysh_cuda.StreamSynchronize(stream);
    if (stream)
        pysh_cuda.StreamDestroy(stream);
    if (scratch)
        pysh_cuda.MemFree(scratch);
    return result;
}

static int join(const pysh_engine_map_t *map, int fd, char **base) {
    pysh_cuda_card_t card;
    CUresult result;
    int count, status = pysh_cuda_open(&count);

    (void)fd;
    if (!status)
        status = open_card(map->device, count, &card);
    if (!status)
        status = pysh_cuda_engine_open();
    for (int pe = 0; !status && pe < map->n_pes; pe++) {
        CUipcMemHandle handle;
        CUdeviceptr mapped = 0;
        memcpy(&handle, map->handle[pe], sizeof handle);
        result = pysh_cuda.IpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (result)
            status = pysh_cuda_fail(result, "GPU %d cannot map the device heap of PE %d (CUDA IPC)", map->device, pe);
        base[pe] = (char *)(uintptr_t)mapped;
    }
    if (!status && (result = try_copies(map->n_pes, base)))
        status = pysh_cuda_fail(result, "a first copy on GPU %d", map->device);
    return status;
}

/* ---- copies ---- */

static bool is_device(const void *address) {
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
    unsigned type = 0;
    CUresult result;
    visit_t visit;

    if (pointer - gpu.base < (CUdeviceptr)gpu.nbytes)
        return true;
    visit = context_enter();
    result = pysh_cuda.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
    context_leave(visit);
    return !result && type == CU_MEMORYTYPE_DEVICE; /* an address the driver does not know is host memory */
}

static CUresult start_copy(void *dest, const void *source, size_t nbytes, CUstream stream) {
    return pysh_cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)dest, (CUdeviceptr)(uintptr_t)source, nbytes, stream);
}

static int copy_fail(CUresult result, const void *dest, const void *source, size_t nbytes) {
    return pysh_cuda_fail(result, "copying %zu bytes from %p to %p", nbytes, source, dest);
}

static int copy(void *dest, const void *source, size_t nbytes) {
    visit_t visit = context_enter();
    CUresult result = start_copy(dest, source, nbytes, gpu.stream);

    if (!result)
        result = pysh_cuda.StreamSynchronize(gpu.stream);
    context_leave(visit);
    return result ? copy_fail(result, dest, source, nbytes) : ISHMEMX_OK;
}

static int copy_on_stream(void *dest, const void *source, size_t nbytes, void *stream) {
    visit_t visit = context_enter();
    CUresult result = start_copy(dest, source, nbytes, stream);

    context_leave(visit);
    return result ? copy_fail(result, dest, source, nbytes) : ISHMEMX_OK;
}

static int copy_nbi(void *dest, const void *source, size_t nbytes) {
    visit_t visit = context_enter();
    CUresult result = start_copy(dest, source, nbytes, gpu.nbi_stream);

    context_leave(visit);
    gpu.nbi_started++;
    return result ? copy_fail(result, dest, source, nbytes) : ISHMEMX_OK;
}

/* Only counts read before the wait are finished by it: a copy of another thread may start meanwhile. */
static int quiet(void) {
    uint64_t started = gpu.nbi_started, finished = gpu.nbi_finished;
    visit_t visit;
    CUresult result;

    if (started == finished)
        return ISHMEMX_OK;
    visit = context_enter();
    result = pysh_cuda.StreamSynchronize(gpu.nbi_stream);
    context_leave(visit);
    if (result)
        return pysh_cuda_fail(result, "completing copies");
    while (finished < started && !atomic_compare_exchange_weak(&gpu.nbi_finished, &finished, started)) {
    }
    return ISHMEMX_OK;
}

static int zero(void *dest, size_t nbytes) {
    visit_t visit = context_enter();
    CUresult result = pysh_cuda.MemsetD8Async((CUdeviceptr)(uintptr_t)dest, 0, nbytes, gpu.stream);

    if (!result)
        result = pysh_cuda.StreamSynchronize(gpu.stream);
    context_leave(visit);
    return result ? pysh_cuda_fail(result, "zeroing %zu bytes at %p", nbytes, dest) : ISHMEMX_OK;
}

static int amo(int op, int type, void *address, uint64_t value, uint64_t cond, uint64_t *fetched_p) {
    visit_t visit = context_enter();
    int status;

    pthread_mutex_lock(&gpu.amo_lock);
    status = pysh_cuda_amo_run(&gpu.amo, gpu.stream, op, type, (CUdeviceptr)(uintptr_t)address, value, cond, fetched_p);
    pthread_mutex_unlock(&gpu.amo_lock);
    context_leave(visit);
    return status;
}

/* By the proxies' threads, which have the context. */
static int amo_begin(int op, int type, void *address, uint64_t value, uint64_t cond, int *slot_p) {
    int status;

    pthread_mutex_lock(&gpu.amo_slots_lock);
    status = pysh_cuda_amo_begin(&gpu.amo, op, type, (CUdeviceptr)(uintptr_t)address, value, cond, slot_p);
    pthread_mutex_unlock(&gpu.amo_slots_lock);
    return status;
}

static int amo_poll(int slot, bool *done_p, uint64_t *fetched_p) {
    int status;

    pthread_mutex_lock(&gpu.amo_slots_lock);
    status = pysh_cuda_amo_poll(&gpu.amo, slot, done_p, fetched_p);
    pthread_mutex_unlock(&gpu.amo_slots_lock);
    return status;
}

static _Atomic bool other_streams;

/* Kernels on the default stream, and on those that wait for it. While one of these captures, the default stream may
 * only be asked whether it does. */
static bool idle(void) {
    visit_t visit = context_enter();
    int capturing = 0;
    CUresult result = atomic_load(&other_streams) ? CUDA_ERROR_NOT_READY : 0;

    if (!result)
        result = pysh_cuda.StreamIsCapturing(NULL, &capturing);
    if (!result)
        result = capturing ? CUDA_ERROR_NOT_READY : pysh_cuda.StreamQuery(NULL);
    context_leave(visit);
    return !result;
}

int ishmemx_other_streams(void) {
    atomic_store(&other_streams, true);
    return ISHMEMX_OK;
}

/* For the thread's life: it has no captures of its own that the mode would have to protect. */
static void thread_begin(void) {
    pysh_cuda.CtxSetCurrent(gpu.context);
    pysh_cuda_relax();
}

/* Any thread of the program may end the waits of kernels. */
static void stamp(void *address, uint64_t value) {
    visit_t visit = context_enter();

    pysh_cuda_engine_stamp(address, value);
    context_leave(visit);
}

/* A GPU of our kind names registered memory as the host does; where it does not, nothing here would work. */
static int host_open(void *base, size_t nbytes) {
    CUdeviceptr seen = 0;
    visit_t visit = context_enter();
    CUresult result =
        pysh_cuda.MemHostRegister(base, nbytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

    if (!result)
        result = pysh_cuda.MemHostGetDevicePointer(&seen, base, 0);
    context_leave(visit);
    if (result)
        return pysh_cuda_fail(result, "pinning the host heap of %s for kernels; lower PYSHMEM_HEAP_SIZE",
                              pysh_bytes_text((int64_t)nbytes));
    if (seen != (CUdeviceptr)(uintptr_t)base)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "this GPU sees host memory at other addresses than the host");
    return ISHMEMX_OK;
}

static void host_close(void *base) {
    visit_t visit = context_enter();

    pysh_cuda.MemHostUnregister(base);
    context_leave(visit);
}

static int shared_alloc(size_t nbytes, void **host_p, void **device_p) {
    void *host = NULL;
    CUdeviceptr device = 0;
    visit_t visit = context_enter();
    CUresult result = pysh_cuda.MemHostAlloc(&host, nbytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);

    if (!result)
        result = pysh_cuda.MemHostGetDevicePointer(&device, host, 0);
    if (result && host)
        pysh_cuda.MemFreeHost(host);
    context_leave(visit);
    if (result)
        return pysh_cuda_fail(result, "allocating %zu bytes of pinned memory", nbytes);
    memset(host, 0, nbytes);
    *host_p = host;
    *device_p = (void *)(uintptr_t)device;
    return ISHMEMX_OK;
}

static void shared_free(void *host) {
    visit_t visit = context_enter();

    pysh_cuda.MemFreeHost(host);
    context_leave(visit);
}

const pysh_accel_t pysh_accel_cuda = {
    .name = "cuda",
    .cpu_visible = false,
    .attach = attach,
    .detach = detach,
    .arena = arena,
    .is_device = is_device,
    .copy = copy,
    .copy_on_stream = copy_on_stream,
    .copy_nbi = copy_nbi,
    .quiet = quiet,
    .zero = zero,
    .offload = pysh_cuda_engine_copy,
    .offload_done = pysh_cuda_engine_done,
    .offload_mark = pysh_cuda_engine_mark,
    .offload_finished = pysh_cuda_engine_finished,
    .share = share,
    .join = join,
    .stamp = stamp,
    .idle = idle,
    .thread_begin = thread_begin,
    .host_open = host_open,
    .host_close = host_close,
    .amo = amo,
    .amo_begin = amo_begin,
    .amo_poll = amo_poll,
    .shared_alloc = shared_alloc,
    .shared_free = shared_free,
};
