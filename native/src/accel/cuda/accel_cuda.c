/* SPDX-License-Identifier: BSD-3-Clause
 * Device heaps on NVIDIA GPUs: cuMemAlloc arenas that the PEs of a host open with CUDA IPC, or such as grow. Several
 * PEs may share a GPU. All our work runs on streams of our own that do not wait for the default stream. */
#include "accel/cuda/accel_cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/cuda/amo.h"
#include "accel/cuda/amo_polled.h"
#include "accel/cuda/driver.h"
#include "accel/cuda/engine.h"
#include "accel/cuda/gpu.h"
#include "accel/cuda/growing.h"
#include "accel/cuda/peers.h"
#include "accel/cuda/streams.h"
#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/retired.h"

#define DETACH_TIMEOUT_NS 2000000000LL

pysh_cuda_gpu_t pysh_gpu = {.amo_lock = PTHREAD_MUTEX_INITIALIZER, .amo_slots_lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- our context and capture mode, for the time of a call, on whatever thread it comes from ---- */

pysh_cuda_visit_t pysh_cuda_enter(void) {
    pysh_cuda_visit_t visit = {.mode = pysh_cuda_relax()};
    CUcontext current = NULL;

    pysh_cuda.CtxGetCurrent(&current);
    visit.pushed = current != pysh_gpu.context && pysh_cuda.CtxPushCurrent(pysh_gpu.context) == 0;
    return visit;
}

void pysh_cuda_leave(pysh_cuda_visit_t visit) {
    CUcontext popped;

    if (visit.pushed)
        pysh_cuda.CtxPopCurrent(&popped);
    pysh_cuda_restore(visit.mode);
}

/* ---- attach and detach ---- */

static int attach_card(const ishmemx_config_t *config, pysh_cuda_card_t *card, int count) {
    int ordinal = config->device >= 0 ? config->device : (config->local_pe > 0 ? config->local_pe : 0) % count;
    int status = pysh_cuda_open_card(ordinal, count, card);
    CUresult result;

    if (status)
        return status;
    result = pysh_cuda.StreamCreate(&pysh_gpu.stream, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = pysh_cuda.StreamCreate(&pysh_gpu.nbi_stream, CU_STREAM_NON_BLOCKING);
    if (result)
        return pysh_cuda_fail(result, "making a stream on GPU %d", pysh_gpu.ordinal);
    if ((status = pysh_cuda_engine_open()))
        return status;
    if ((status = pysh_cuda_amo_open(&pysh_gpu.amo, pysh_gpu.stream)))
        return status;
    return pysh_cuda_streams_open();
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
    if (!pysh_cuda.DeviceGet(&device, pysh_gpu.ordinal) && !pysh_cuda.DevicePrimaryCtxRetain(&context, device)) {
        if (!pysh_cuda.CtxPushCurrent(context)) {
            if (!pysh_cuda_grown_release((uintptr_t)base))
                pysh_cuda.MemFree((CUdeviceptr)(uintptr_t)base);
            pysh_cuda.CtxPopCurrent(&context);
        }
        pysh_cuda.DevicePrimaryCtxRelease(device);
    }
    pysh_cuda_restore(mode);
}

static void detach(int64_t blocks) {
    bool closed;
    int mode;

    if (!pysh_gpu.context)
        return;
    mode = pysh_cuda_relax();
    pysh_cuda.CtxSetCurrent(pysh_gpu.context);
    for (int pe = 0; pysh_gpu.opened && pe < pysh.n_pes; pe++)
        if (pysh_gpu.opened[pe])
            pysh_cuda.IpcCloseMemHandle(pysh_gpu.opened[pe]);
    pysh_cuda_grown_leave();
    /* The driver asks that all mappings go before the memory does. A PE that is late has died. */
    if ((pysh_gpu.opened || pysh_cuda_grown()) && pysh.ready && !atomic_load(pysh.alarm)) {
        pysh.timeout_ns = DETACH_TIMEOUT_NS;
        pysh.agree->barrier("finalize", false, NULL);
    }
    free(pysh_gpu.opened);
    free(pysh_gpu.handles);
    pysh_gpu.opened = NULL;
    pysh_gpu.handles = NULL;
    pysh_cuda_grown_close();
    if (pysh_gpu.base)
        pysh_retire((void *)(uintptr_t)pysh_gpu.base, (size_t)pysh_gpu.nbytes, blocks, unmap);
    pysh_gpu.base = 0;
    pysh_gpu.nbytes = 0;
    pysh_cuda_streams_close();
    closed = pysh_cuda_amo_close(&pysh_gpu.amo);
    pysh_cuda_engine_close();
    if (pysh_gpu.stream)
        pysh_cuda.StreamDestroy(pysh_gpu.stream);
    if (pysh_gpu.nbi_stream)
        pysh_cuda.StreamDestroy(pysh_gpu.nbi_stream);
    pysh_gpu.stream = pysh_gpu.nbi_stream = NULL;
    if (!blocks && closed) /* the context's memory goes with it */
        pysh_cuda.DevicePrimaryCtxRelease(pysh_gpu.device);
    pysh_gpu.context = NULL;
    pysh_cuda_restore(mode);
}

static int attach(const ishmemx_config_t *config) {
    pysh_cuda_card_t mine = {.bus = ""};
    int status;

    status = pysh_cuda_agree("init", attach_own(config, &mine));
    if (!status)
        status = pysh.p2p ? pysh_cuda_check_matrix(pysh_gpu.device, &mine) : ISHMEMX_OK;
    if (status)
        detach(0);
    return status;
}

/* ---- the arena ---- */

static int arena_make(int64_t nbytes, CUipcMemHandle *handle) {
    size_t total =
               ((size_t)nbytes + PYSH_CUDA_ALLOCATION_UNIT - 1) / PYSH_CUDA_ALLOCATION_UNIT * PYSH_CUDA_ALLOCATION_UNIT,
           vacant = 0, all = 0;
    CUresult result = pysh_cuda.MemAlloc(&pysh_gpu.base, total);

    if (result) {
        pysh_gpu.base = 0;
        pysh_cuda.MemGetInfo(&vacant, &all);
        return pysh_cuda_fail(result,
                              "allocating a device heap of %s on GPU %d (%s free); lower "
                              "PYSHMEM_DEVICE_HEAP_SIZE",
                              pysh_bytes_text((int64_t)total), pysh_gpu.ordinal, pysh_bytes_text((int64_t)vacant));
    }
    pysh_gpu.nbytes = nbytes;
    result = pysh_cuda.IpcGetMemHandle(handle, pysh_gpu.base);
    return result ? pysh_cuda_fail(result, "sharing the device heap of GPU %d (CUDA IPC)", pysh_gpu.ordinal)
                  : ISHMEMX_OK;
}

static int arena_open(const CUipcMemHandle *handles, char **peer) {
    pysh_gpu.opened = calloc((size_t)pysh.n_pes, sizeof *pysh_gpu.opened);
    if (!pysh_gpu.opened)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    for (int pe = 0; pe < pysh.n_pes; pe++) {
        CUresult result = 0;
        if (pe != pysh.pe && !(pysh.p2p && pysh_near(pe)))
            continue;
        if (pe != pysh.pe)
            result = pysh_cuda.IpcOpenMemHandle(&pysh_gpu.opened[pe], handles[pe], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (result) {
            pysh_gpu.opened[pe] = 0;
            return pysh_cuda_fail(result, "GPU %d cannot map the device heap of PE %d (CUDA IPC)", pysh_gpu.ordinal,
                                  pe);
        }
        peer[pe] = (char *)(uintptr_t)(pe == pysh.pe ? pysh_gpu.base : pysh_gpu.opened[pe]);
    }
    return ISHMEMX_OK;
}

static int arena(int64_t *nbytes_p, bool grows, char **base_p, char **peer) {
    CUipcMemHandle mine = {{0}};
    pysh_cuda_visit_t visit;
    int status;

    if (grows)
        return pysh_cuda_grown_arena(nbytes_p, base_p, peer);
    visit = pysh_cuda_enter();
    pysh_gpu.handles = calloc((size_t)pysh.n_pes, sizeof *pysh_gpu.handles);
    status =
        pysh_gpu.handles ? arena_make(*nbytes_p, &mine) : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join the PEs");

    status = pysh_cuda_agree("init", status);
    if (!status)
        status = pysh.agree->exchange("init", &mine, pysh_gpu.handles, sizeof mine);
    if (!status)
        status = pysh_cuda_agree("init", arena_open(pysh_gpu.handles, peer));
    if (!status)
        *base_p = (char *)(uintptr_t)pysh_gpu.base;
    pysh_cuda_leave(visit);
    return status;
}

/* ---- copies ---- */

static bool is_device(const void *address) {
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
    unsigned type = 0;
    CUresult result;
    pysh_cuda_visit_t visit;

    if (pointer - pysh_gpu.base < (CUdeviceptr)pysh_gpu.nbytes)
        return true;
    visit = pysh_cuda_enter();
    result = pysh_cuda.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
    pysh_cuda_leave(visit);
    return !result && type == CU_MEMORYTYPE_DEVICE; /* an address the driver does not know is host memory */
}

static CUresult start_copy(void *dest, const void *source, size_t nbytes, CUstream stream) {
    return pysh_cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)dest, (CUdeviceptr)(uintptr_t)source, nbytes, stream);
}

static int copy_fail(CUresult result, const void *dest, const void *source, size_t nbytes) {
    return pysh_cuda_fail(result, "copying %zu bytes from %p to %p", nbytes, source, dest);
}

static int copy(void *dest, const void *source, size_t nbytes) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = start_copy(dest, source, nbytes, pysh_gpu.stream);

    if (!result)
        result = pysh_cuda.StreamSynchronize(pysh_gpu.stream);
    pysh_cuda_leave(visit);
    return result ? copy_fail(result, dest, source, nbytes) : ISHMEMX_OK;
}

static int copy_nbi(void *dest, const void *source, size_t nbytes) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = start_copy(dest, source, nbytes, pysh_gpu.nbi_stream);

    pysh_cuda_leave(visit);
    pysh_gpu.nbi_started++;
    return result ? copy_fail(result, dest, source, nbytes) : ISHMEMX_OK;
}

/* Only counts read before the wait are finished by it: a copy of another thread may start meanwhile. */
static int quiet(void) {
    uint64_t started = pysh_gpu.nbi_started, finished = pysh_gpu.nbi_finished;
    pysh_cuda_visit_t visit;
    CUresult result;

    if (started == finished)
        return ISHMEMX_OK;
    visit = pysh_cuda_enter();
    result = pysh_cuda.StreamSynchronize(pysh_gpu.nbi_stream);
    pysh_cuda_leave(visit);
    if (result)
        return pysh_cuda_fail(result, "completing copies");
    while (finished < started && !atomic_compare_exchange_weak(&pysh_gpu.nbi_finished, &finished, started)) {
    }
    return ISHMEMX_OK;
}

static int zero(void *dest, size_t nbytes) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = pysh_cuda.MemsetD8Async((CUdeviceptr)(uintptr_t)dest, 0, nbytes, pysh_gpu.stream);

    if (!result)
        result = pysh_cuda.StreamSynchronize(pysh_gpu.stream);
    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "zeroing %zu bytes at %p", nbytes, dest) : ISHMEMX_OK;
}

static int amo(int op, int type, void *address, uint64_t value, uint64_t cond, uint64_t *fetched_p) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    int status;

    pthread_mutex_lock(&pysh_gpu.amo_lock);
    status = pysh_cuda_amo_run(&pysh_gpu.amo, pysh_gpu.stream, op, type, (CUdeviceptr)(uintptr_t)address, value, cond,
                               fetched_p);
    pthread_mutex_unlock(&pysh_gpu.amo_lock);
    pysh_cuda_leave(visit);
    return status;
}

static _Thread_local bool has_context; /* a thread of the library's: since thread_begin() */

/* For what proxies do: they have the context. A thread of the program that waits for memory out of reach does it too,
 * and may have none. */
static pysh_cuda_visit_t enter_beside_proxies(bool *entered_p) {
    *entered_p = !has_context;
    return has_context ? (pysh_cuda_visit_t){.pushed = false} : pysh_cuda_enter();
}

static int amo_begin(int op, int type, void *address, uint64_t value, uint64_t cond, int *slot_p) {
    bool entered;
    pysh_cuda_visit_t visit = enter_beside_proxies(&entered);
    int status;

    pthread_mutex_lock(&pysh_gpu.amo_slots_lock);
    status = pysh_cuda_amo_begin(&pysh_gpu.amo, op, type, (CUdeviceptr)(uintptr_t)address, value, cond, slot_p);
    pthread_mutex_unlock(&pysh_gpu.amo_slots_lock);
    if (entered)
        pysh_cuda_leave(visit);
    return status;
}

static int amo_poll(int slot, bool *done_p, uint64_t *fetched_p) {
    bool entered;
    pysh_cuda_visit_t visit = enter_beside_proxies(&entered);
    int status;

    pthread_mutex_lock(&pysh_gpu.amo_slots_lock);
    status = pysh_cuda_amo_poll(&pysh_gpu.amo, slot, done_p, fetched_p);
    pthread_mutex_unlock(&pysh_gpu.amo_slots_lock);
    if (entered)
        pysh_cuda_leave(visit);
    return status;
}

static int offload(int pe, void *dest, const void *source, size_t nbytes, const pysh_completion_t *completions,
                   int n_completions, uint64_t *token_p) {
    bool entered;
    pysh_cuda_visit_t visit = enter_beside_proxies(&entered);
    int status = pysh_cuda_engine_copy(pe, dest, source, nbytes, completions, n_completions, token_p);

    if (entered)
        pysh_cuda_leave(visit);
    return status;
}

static int offload_done(uint64_t token, bool *done_p) {
    bool entered;
    pysh_cuda_visit_t visit = enter_beside_proxies(&entered);
    int status = pysh_cuda_engine_done(token, done_p);

    if (entered)
        pysh_cuda_leave(visit);
    return status;
}

static _Atomic bool other_streams;

/* Kernels on the default stream, and on those that wait for it. While one of these captures, the default stream may
 * only be asked whether it does: an error. */
static CUresult ask_default_stream(void) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    int capturing = 0;
    CUresult result = pysh_cuda.StreamIsCapturing(NULL, &capturing);

    if (!result)
        result = capturing ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : pysh_cuda.StreamQuery(NULL);
    pysh_cuda_leave(visit);
    return result;
}

static bool idle(void) {
    return !atomic_load(&other_streams) && !ask_default_stream();
}

int ishmemx_default_stream_busy(void) {
    return pysh.accel == &pysh_accel_cuda && ask_default_stream() == CUDA_ERROR_NOT_READY;
}

int ishmemx_other_streams(void) {
    atomic_store(&other_streams, true);
    return ISHMEMX_OK;
}

int ishmemx_other_streams_done(void) {
    atomic_store(&other_streams, false);
    return ISHMEMX_OK;
}

/* For the thread's life: it has no captures of its own that the mode would have to protect. */
static void thread_begin(void) {
    pysh_cuda.CtxSetCurrent(pysh_gpu.context);
    pysh_cuda_relax();
    has_context = true;
}

/* Any thread of the program may end the waits of kernels. */
static void complete(void *address, uint64_t value) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();

    pysh_cuda_engine_complete(address, value);
    pysh_cuda_leave(visit);
}

/* ---- host memory that kernels load and store ---- */

/* A GPU of our kind names registered memory as the host does; where it does not, nothing here would work. */
static int host_open(void *base, size_t nbytes) {
    CUdeviceptr seen = 0;
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result =
        pysh_cuda.MemHostRegister(base, nbytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

    if (!result)
        result = pysh_cuda.MemHostGetDevicePointer(&seen, base, 0);
    pysh_cuda_leave(visit);
    if (result)
        return pysh_cuda_fail(result, "pinning the host heap of %s for kernels; lower PYSHMEM_HEAP_SIZE",
                              pysh_bytes_text((int64_t)nbytes));
    if (seen != (CUdeviceptr)(uintptr_t)base)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "this GPU sees host memory at other addresses than the host");
    return ISHMEMX_OK;
}

static void host_close(void *base) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();

    pysh_cuda.MemHostUnregister(base);
    pysh_cuda_leave(visit);
}

int pysh_cuda_shared_alloc(size_t nbytes, void **host_p, void **device_p) {
    void *host = NULL;
    CUdeviceptr device = 0;
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = pysh_cuda.MemHostAlloc(&host, nbytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);

    if (!result)
        result = pysh_cuda.MemHostGetDevicePointer(&device, host, 0);
    if (result && host)
        pysh_cuda.MemFreeHost(host);
    pysh_cuda_leave(visit);
    if (result)
        return pysh_cuda_fail(result, "allocating %zu bytes of pinned memory", nbytes);
    memset(host, 0, nbytes);
    *host_p = host;
    *device_p = (void *)(uintptr_t)device;
    return ISHMEMX_OK;
}

void pysh_cuda_shared_free(void *host) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();

    pysh_cuda.MemFreeHost(host);
    pysh_cuda_leave(visit);
}

const pysh_accel_t pysh_accel_cuda = {
    .name = "cuda",
    .cpu_visible = false,
    .attach = attach,
    .detach = detach,
    .arena = arena,
    .grow = pysh_cuda_grow,
    .trim = pysh_cuda_trim,
    .is_device = is_device,
    .lend = pysh_cuda_lend,
    .open = pysh_cuda_borrow,
    .close = pysh_cuda_give_back,
    .copy = copy,
    .streams = &pysh_cuda_streams,
    .copy_nbi = copy_nbi,
    .quiet = quiet,
    .zero = zero,
    .offload = offload,
    .offload_done = offload_done,
    .offload_mark = pysh_cuda_engine_mark,
    .offload_finished = pysh_cuda_engine_finished,
    .share = pysh_cuda_share,
    .join = pysh_cuda_join,
    .hand_over = pysh_cuda_grown_hand_over,
    .take = pysh_cuda_grown_take,
    .complete = complete,
    .idle = idle,
    .clock = pysh_cuda_clock,
    .thread_begin = thread_begin,
    .host_open = host_open,
    .host_close = host_close,
    .amo = amo,
    .amo_begin = amo_begin,
    .amo_poll = amo_poll,
    .shared_alloc = pysh_cuda_shared_alloc,
    .shared_free = pysh_cuda_shared_free,
};
