/* SPDX-License-Identifier: BSD-3-Clause
 * Device heaps on NVIDIA GPUs: cuMemAlloc arenas that the PEs of a host open with CUDA IPC. Several PEs
 * may share a GPU. All our work runs on streams of our own that do not wait for the default stream. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_amo.h"
#include "cuda_driver.h"
#include "cuda_engine.h"
#include "cuda_peers.h"
#include "internal.h"
#include "retired.h"

#define ALLOCATION_UNIT   (2 * 1024 * 1024) /* so that no arena shares an allocation of the driver's */
#define DETACH_TIMEOUT_NS 2000000000LL

static struct {
    int ordinal;
    CUdevice device;
    CUcontext context; /* primary, retained; NULL: not attached */
    CUstream stream, nbi_stream;
    CUdeviceptr base;
    int64_t nbytes;
    CUdeviceptr *opened; /* [n_pes] mappings of the peers' arenas; 0: none */
    _Atomic uint64_t nbi_started, nbi_finished;
    pysh_cuda_amo_t amo;
    pthread_mutex_t amo_lock;
} gpu = {.amo_lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- our context, for the time of a call, on whatever thread it comes from ---- */

static bool context_enter(void) {
    CUcontext current = NULL;

    pysh_cuda.CtxGetCurrent(&current);
    return current != gpu.context && pysh_cuda.CtxPushCurrent(gpu.context) == 0;
}

static void context_leave(bool pushed) {
    CUcontext popped;

    if (pushed)
        pysh_cuda.CtxPopCurrent(&popped);
}

/* ---- attach and detach ---- */

static int attach_own(const ishmemx_config_t *config, pysh_cuda_card_t *card) {
    int count;
    CUresult result;
    int status = pysh_cuda_open(&count);

    if (status)
        return status;
    if (!count)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "there is no NVIDIA GPU, or no driver for it, on this host; "
                                                  "PYSHMEM_DEVICE=sim runs kernels in the simulator");
    gpu.ordinal = config->device >= 0 ? config->device : (config->local_pe > 0 ? config->local_pe : 0) % count;
    if (gpu.ordinal >= count)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "GPU %d was asked for, but this process sees %d", gpu.ordinal, count);
    result = pysh_cuda.DeviceGet(&gpu.device, gpu.ordinal);
    if (!result)
        result = pysh_cuda.DeviceGetUuid(&card->uuid, gpu.device);
    if (!result)
        result = pysh_cuda.DeviceGetPCIBusId(card->bus, (int)sizeof card->bus, gpu.device);
    if (!result)
        result = pysh_cuda.DevicePrimaryCtxRetain(&gpu.context, gpu.device);
    if (result) {
        gpu.context = NULL;
        return pysh_cuda_fail(result, "opening GPU %d", gpu.ordinal);
    }
    result = pysh_cuda.CtxSetCurrent(gpu.context);
    if (!result)
        result = pysh_cuda.StreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = pysh_cuda.StreamCreate(&gpu.nbi_stream, CU_STREAM_NON_BLOCKING);
    if (result)
        return pysh_cuda_fail(result, "making a stream on GPU %d", gpu.ordinal);
    if ((status = pysh_cuda_engine_open()))
        return status;
    return pysh_cuda_amo_open(&gpu.amo, gpu.stream);
}

/* The primary context is the same for all our jobs; this may come after the job, in any thread. */
static void unmap(void *base, size_t nbytes) {
    CUdevice device;
    CUcontext context;

    (void)nbytes;
    if (pysh_cuda.DeviceGet(&device, gpu.ordinal) || pysh_cuda.DevicePrimaryCtxRetain(&context, device))
        return;
    if (!pysh_cuda.CtxPushCurrent(context)) {
        pysh_cuda.MemFree((CUdeviceptr)(uintptr_t)base);
        pysh_cuda.CtxPopCurrent(&context);
    }
    pysh_cuda.DevicePrimaryCtxRelease(device);
}

static void detach(int64_t blocks) {
    if (!gpu.context)
        return;
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
    gpu.opened = NULL;
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
    CUipcMemHandle mine = {{0}}, *handles = calloc((size_t)pysh.n_pes, sizeof *handles);
    bool pushed = context_enter();
    int status = handles ? arena_make(nbytes, &mine) : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join the PEs");

    status = pysh_cuda_agree(status);
    if (!status)
        status = pysh.conduit->exchange("init", &mine, handles, sizeof mine);
    if (!status)
        status = pysh_cuda_agree(arena_open(handles, peer));
    if (!status)
        *base_p = (char *)(uintptr_t)gpu.base;
    context_leave(pushed);
    free(handles);
    return status;
}

/* ---- copies ---- */

static bool is_device(const void *address) {
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
    unsigned type = 0;
    CUresult result;
    bool pushed;

    if (pointer - gpu.base < (CUdeviceptr)gpu.nbytes)
        return true;
    pushed = context_enter();
    result = pysh_cuda.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
    context_leave(pushed);
    return !result && type == CU_MEMORYTYPE_DEVICE; /* an address the driver does not know is host memory */
}

static CUresult start_copy(void *dest, const void *source, size_t nbytes, CUstream stream) {
    return pysh_cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)dest, (CUdeviceptr)(uintptr_t)source, nbytes, stream);
}

static int copy_fail(CUresult result, const void *dest, const void *source, size_t nbytes) {
    return pysh_cuda_fail(result, "copying %zu bytes from %p to %p", nbytes, source, dest);
}

static int copy(void *dest, const void *source, size_t nbytes) {
    bool pushed = context_enter();
    CUresult result = start_copy(dest, source, nbytes, gpu.stream);

    if (!result)
        result = pysh_cuda.StreamSynchronize(gpu.stream);
    context_leave(pushed);
    return result ? copy_fail(result, dest, source, nbytes) : ISHMEMX_OK;
}

static int copy_on_stream(void *dest, const void *source, size_t nbytes, void *stream) {
    bool pushed = context_enter();
    CUresult result = start_copy(dest, source, nbytes, stream);

    context_leave(pushed);
    return result ? copy_fail(result, dest, source, nbytes) : ISHMEMX_OK;
}

static int copy_nbi(void *dest, const void *source, size_t nbytes) {
    bool pushed = context_enter();
    CUresult result = start_copy(dest, source, nbytes, gpu.nbi_stream);

    context_leave(pushed);
    gpu.nbi_started++;
    return result ? copy_fail(result, dest, source, nbytes) : ISHMEMX_OK;
}

/* Only counts read before the wait are finished by it: a copy of another thread may start meanwhile. */
static int quiet(void) {
    uint64_t started = gpu.nbi_started, finished = gpu.nbi_finished;
    bool pushed;
    CUresult result;

    if (started == finished)
        return ISHMEMX_OK;
    pushed = context_enter();
    result = pysh_cuda.StreamSynchronize(gpu.nbi_stream);
    context_leave(pushed);
    if (result)
        return pysh_cuda_fail(result, "completing copies");
    while (finished < started && !atomic_compare_exchange_weak(&gpu.nbi_finished, &finished, started)) {
    }
    return ISHMEMX_OK;
}

static int zero(void *dest, size_t nbytes) {
    bool pushed = context_enter();
    CUresult result = pysh_cuda.MemsetD8Async((CUdeviceptr)(uintptr_t)dest, 0, nbytes, gpu.stream);

    if (!result)
        result = pysh_cuda.StreamSynchronize(gpu.stream);
    context_leave(pushed);
    return result ? pysh_cuda_fail(result, "zeroing %zu bytes at %p", nbytes, dest) : ISHMEMX_OK;
}

static int amo(int op, int type, void *address, uint64_t value, uint64_t cond, uint64_t *fetched_p) {
    bool pushed = context_enter();
    int status;

    pthread_mutex_lock(&gpu.amo_lock);
    status = pysh_cuda_amo_run(&gpu.amo, gpu.stream, op, type, (CUdeviceptr)(uintptr_t)address, value, cond, fetched_p);
    pthread_mutex_unlock(&gpu.amo_lock);
    context_leave(pushed);
    return status;
}

static _Atomic bool other_streams;

/* Kernels on the default stream, and on those that wait for it. */
static bool idle(void) {
    bool pushed = context_enter();
    CUresult result = atomic_load(&other_streams) ? CUDA_ERROR_NOT_READY : pysh_cuda.StreamQuery(NULL);

    context_leave(pushed);
    return !result;
}

int ishmemx_other_streams(void) {
    atomic_store(&other_streams, true);
    return ISHMEMX_OK;
}

int ishmemx_other_streams_done(void) {
    atomic_store(&other_streams, false);
    return ISHMEMX_OK;
}

static void thread_begin(void) {
    pysh_cuda.CtxSetCurrent(gpu.context);
}

/* A GPU of our kind names registered memory as the host does; where it does not, nothing here would work. */
static int host_open(void *base, size_t nbytes) {
    CUdeviceptr seen = 0;
    bool pushed = context_enter();
    CUresult result =
        pysh_cuda.MemHostRegister(base, nbytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

    if (!result)
        result = pysh_cuda.MemHostGetDevicePointer(&seen, base, 0);
    context_leave(pushed);
    if (result)
        return pysh_cuda_fail(result, "pinning the host heap of %s for kernels; lower PYSHMEM_HEAP_SIZE",
                              pysh_bytes_text((int64_t)nbytes));
    if (seen != (CUdeviceptr)(uintptr_t)base)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "this GPU sees host memory at other addresses than the host");
    return ISHMEMX_OK;
}

static void host_close(void *base) {
    bool pushed = context_enter();

    pysh_cuda.MemHostUnregister(base);
    context_leave(pushed);
}

static int shared_alloc(size_t nbytes, void **host_p, void **device_p) {
    void *host = NULL;
    CUdeviceptr device = 0;
    bool pushed = context_enter();
    CUresult result = pysh_cuda.MemHostAlloc(&host, nbytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);

    if (!result)
        result = pysh_cuda.MemHostGetDevicePointer(&device, host, 0);
    if (result && host)
        pysh_cuda.MemFreeHost(host);
    context_leave(pushed);
    if (result)
        return pysh_cuda_fail(result, "allocating %zu bytes of pinned memory", nbytes);
    memset(host, 0, nbytes);
    *host_p = host;
    *device_p = (void *)(uintptr_t)device;
    return ISHMEMX_OK;
}

static void shared_free(void *host) {
    bool pushed = context_enter();

    pysh_cuda.MemFreeHost(host);
    context_leave(pushed);
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
    .stamp = pysh_cuda_engine_stamp,
    .idle = idle,
    .thread_begin = thread_begin,
    .host_open = host_open,
    .host_close = host_close,
    .amo = amo,
    .shared_alloc = shared_alloc,
    .shared_free = shared_free,
};
