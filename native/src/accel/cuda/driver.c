/* SPDX-License-Identifier: BSD-3-Clause */
#include "accel/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "accel/cuda/gpu.h"
#include "base/say.h"
#include "base/state.h"
#include "base/status.h"
#include "ishmemx.h"
#include "node/node.h"

pysh_cuda_t pysh_cuda;

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static bool have_library;
static const char *missing_symbol;
static CUresult init_result;

static void *find_symbol(void *library, const char *name) {
    void *symbol = dlsym(library, name);

    if (!symbol && !missing_symbol)
        missing_symbol = name;
    return symbol;
}

/* The library stays open: closing the driver under a process that used it is not supported. */
static void open_library(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return;
    have_library = true;
#define PYSH_X(_name, _symbol, _arguments) *(void **)&pysh_cuda._name = find_symbol(library, #_symbol);
    PYSH_CUDA_CALLS(PYSH_X)
#undef PYSH_X
#define PYSH_X(_name, _symbol, _arguments) *(void **)&pysh_cuda._name = dlsym(library, #_symbol);
    PYSH_CUDA_NEWER_CALLS(PYSH_X)
#undef PYSH_X
    if (!missing_symbol)
        init_result = pysh_cuda.Init(0);
}

/* ---- a GPU that is lost: from some error on every call of the driver fails ---- */

/* Numbers of cuda.h. The context, or the GPU, does nothing more behind them; other errors are of the call alone. */
static bool is_lost(CUresult result) {
    switch (result) {
    case 46:  /* DEVICE_UNAVAILABLE */
    case 214: /* ECC_UNCORRECTABLE */
    case 220: /* NVLINK_UNCORRECTABLE */
    case 226: /* CONTAINED */
    case 700: /* ILLEGAL_ADDRESS: of a kernel */
    case 702: /* LAUNCH_TIMEOUT */
    case 709: /* CONTEXT_IS_DESTROYED */
    case 710: /* ASSERT */
    case 714: /* HARDWARE_STACK_ERROR */
    case 715: /* ILLEGAL_INSTRUCTION */
    case 716: /* MISALIGNED_ADDRESS */
    case 717: /* INVALID_ADDRESS_SPACE */
    case 718: /* INVALID_PC */
    case 719: /* LAUNCH_FAILED */
    case 721: /* TENSOR_MEMORY_LEAK */
    case 999: /* UNKNOWN: what a GPU that has fallen off the bus gives */
        return true;
    default:
        return false;
    }
}

/* One behind which the GPU does nothing more for this process is told, once, and ends the job: all PEs' calls fail with
 * the reason. */
static void look_if_lost(CUresult result, const char *name, const char *text, const char *what) {
    static atomic_bool told; /* of the process: its context does not come back */
    char why[384];

    if (!is_lost(result) || atomic_load(&pysh.ready) != PYSH_READY || atomic_exchange(&told, true))
        return;
    snprintf(why, sizeof why, "its GPU %d is lost: %s (CUDA error %d: %s), seen in %s", pysh_gpu.ordinal, name, result,
             text, what);
    pysh_sayf(STDERR_FILENO, "PE %d: %s; dmesg may have the driver's Xid\n", pysh.pe, why);
    pysh_node_abort(1, why);
}

int pysh_cuda_fail(CUresult result, const char *format, ...) {
    char what[256];
    const char *name = NULL, *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (pysh_cuda.GetErrorName)
        pysh_cuda.GetErrorName(result, &name);
    if (pysh_cuda.GetErrorString)
        pysh_cuda.GetErrorString(result, &text);
    name = name ? name : "unknown error";
    text = text ? text : "no text";
    look_if_lost(result, name, text, what);
    return pysh_fail(ISHMEMX_ERR_SYSTEM, "%s: %s (CUDA error %d: %s)", what, name, result, text);
}

int pysh_cuda_open(int *count_p) {
    CUresult result;

    *count_p = 0;
    pthread_once(&opened, open_library);
    if (!have_library)
        return ISHMEMX_OK;
    if (missing_symbol)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "libcuda.so.1 has no %s: the NVIDIA driver is older than 11.7",
                         missing_symbol);
    if (init_result == CUDA_ERROR_NO_DEVICE || init_result == CUDA_ERROR_STUB_LIBRARY)
        return ISHMEMX_OK;
    if (init_result)
        return pysh_cuda_fail(init_result, "cuInit");
    result = pysh_cuda.DeviceGetCount(count_p);
    return result ? pysh_cuda_fail(result, "cuDeviceGetCount") : ISHMEMX_OK;
}

int pysh_cuda_relax(void) {
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    pysh_cuda.ThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void pysh_cuda_restore(int mode) {
    pysh_cuda.ThreadExchangeStreamCaptureMode(&mode);
}

/* ---- questions that can be asked before init ---- */

static int device_at(int ordinal, CUdevice *device_p) {
    int count;
    CUresult result;
    int status = pysh_cuda_open(&count);

    if (status)
        return status;
    if (ordinal < 0 || ordinal >= count)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "there is no GPU %d: the driver shows %d", ordinal, count);
    result = pysh_cuda.DeviceGet(device_p, ordinal);
    return result ? pysh_cuda_fail(result, "cuDeviceGet(%d)", ordinal) : ISHMEMX_OK;
}

int ishmemx_cuda_count(int *count) {
    int found;
    int status = pysh_cuda_open(&found);

    if (!status)
        *count = found;
    return status;
}

int ishmemx_cuda_describe(int device, char *name, size_t capacity, int64_t *nbytes) {
    CUdevice handle;
    size_t total;
    CUresult result;
    int status = device_at(device, &handle);

    if (status)
        return status;
    result = pysh_cuda.DeviceTotalMem(&total, handle);
    if (!result)
        result = pysh_cuda.DeviceGetName(name, (int)capacity, handle);
    if (result)
        return pysh_cuda_fail(result, "describing GPU %d", device);
    *nbytes = (int64_t)total;
    return ISHMEMX_OK;
}

bool pysh_cuda_shares(CUdevice device) {
    int passes = 0;

    return pysh_cuda.MemCreate &&
           !pysh_cuda.DeviceGetAttribute(&passes, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                         device) &&
           passes;
}

int ishmemx_cuda_can_grow(int device, int *can) {
    CUdevice handle;
    int status = device_at(device, &handle);

    if (!status)
        *can = pysh_cuda_shares(handle);
    return status;
}

int ishmemx_cuda_can_access(int device, int peer, int *can) {
    CUdevice mine, theirs;
    CUresult result;
    int answer = 1;
    int status = device_at(device, &mine);

    if (!status)
        status = device_at(peer, &theirs);
    if (status)
        return status;
    result = device == peer ? 0 : pysh_cuda.DeviceCanAccessPeer(&answer, mine, theirs);
    if (result)
        return pysh_cuda_fail(result, "cuDeviceCanAccessPeer(%d, %d)", device, peer);
    *can = answer;
    return ISHMEMX_OK;
}
