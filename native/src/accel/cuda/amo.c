/* SPDX-License-Identifier: BSD-3-Clause */
#include "accel/cuda/amo.h"

#include <stdint.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/cuda/amo_polled.h"
#include "accel/cuda/amo_ptx.h"
#include "accel/cuda/driver.h"
#include "base/elements.h"
#include "ishmemx.h"

#define ADD_FLOAT  16 /* case numbers: op for 4 bytes, 8 + op for 8 bytes, then the two float sums */
#define ADD_DOUBLE 17

int pysh_cuda_amo_case(int op, int type) {
    if (op == ISHMEMX_ATOMIC_ADD && type == ISHMEMX_TYPE_FLOAT)
        return ADD_FLOAT;
    if (op == ISHMEMX_ATOMIC_ADD && type == ISHMEMX_TYPE_DOUBLE)
        return ADD_DOUBLE;
    return pysh_type_nbytes(type) == 4 ? op : ISHMEMX_ATOMIC_COUNT + op;
}

static CUresult launch(pysh_cuda_amo_t *amo, CUstream stream, int number, CUdeviceptr address, uint64_t value,
                       uint64_t cond, CUdeviceptr result, int narrow) {
    void *arguments[] = {&address, &value, &cond, &result, &number, &narrow};

    return pysh_cuda.LaunchKernel(amo->function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

int pysh_cuda_amo_failed(CUresult result, int op, CUdeviceptr address) {
    return pysh_cuda_fail(result, "atomic operation %d on GPU memory %p", op, (void *)(uintptr_t)address);
}

/* Loads and stores go by the copy engine: it moves an aligned word whole, and needs no room on a GPU
 * that is full of kernels waiting for this word. */
int pysh_cuda_amo_run(pysh_cuda_amo_t *amo, CUstream stream, int op, int type, CUdeviceptr address, uint64_t value,
                      uint64_t cond, uint64_t *fetched_p) {
    CUdeviceptr word = pysh_cuda_amo_at(amo, &amo->shared->own);
    size_t nbytes = pysh_type_nbytes(type);
    CUresult result;

    amo->shared->own = op == ISHMEMX_ATOMIC_SET ? value : 0;
    if (op == ISHMEMX_ATOMIC_SET && !fetched_p)
        result = pysh_cuda.MemcpyAsync(address, word, nbytes, stream);
    else if (op == ISHMEMX_ATOMIC_FETCH)
        result = pysh_cuda.MemcpyAsync(word, address, nbytes, stream);
    else
        result = launch(amo, stream, pysh_cuda_amo_case(op, type), address, value, cond, word, 0);
    if (!result)
        result = pysh_cuda.StreamSynchronize(stream);
    if (result)
        return pysh_cuda_amo_failed(result, op, address);
    if (fetched_p)
        *fetched_p = *(volatile uint64_t *)&amo->shared->own;
    return ISHMEMX_OK;
}

int pysh_cuda_amo_on_stream(pysh_cuda_amo_t *amo, CUstream stream, int op, int type, CUdeviceptr address,
                            uint64_t value, uint64_t cond, CUdeviceptr fetched) {
    CUdeviceptr nowhere = pysh_cuda_amo_at(amo, &amo->shared->nowhere);
    int narrow = fetched && pysh_type_nbytes(type) == 4;
    CUresult result = op == ISHMEMX_ATOMIC_FETCH
                          ? pysh_cuda.MemcpyAsync(fetched, address, pysh_type_nbytes(type), stream)
                          : launch(amo, stream, pysh_cuda_amo_case(op, type), address, value, cond,
                                   fetched ? fetched : nowhere, narrow);

    return result ? pysh_cuda_amo_failed(result, op, address) : ISHMEMX_OK;
}

int pysh_cuda_amo_open(pysh_cuda_amo_t *amo, CUstream stream) {
    void *shared = NULL;
    CUresult result =
        pysh_cuda.MemHostAlloc(&shared, sizeof *amo->shared, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result)
        return pysh_cuda_fail(result, "allocating pinned memory");
    amo->shared = memset(shared, 0, sizeof *amo->shared);
    result = pysh_cuda.MemHostGetDevicePointer(&amo->device_shared, shared, 0);
    if (!result)
        result = pysh_cuda.StreamCreate(&amo->stream, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = pysh_cuda.StreamCreate(&amo->server_stream, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = pysh_cuda.ModuleLoadData(&amo->module, pysh_cuda_amo_ptx);
    if (!result)
        result = pysh_cuda.ModuleGetFunction(&amo->function, amo->module, "pysh_amo");
    if (!result)
        result = pysh_cuda.ModuleGetFunction(&amo->server, amo->module, "pysh_amo_server");
    if (!result)
        result = launch(amo, stream, pysh_cuda_amo_case(ISHMEMX_ATOMIC_FETCH, ISHMEMX_TYPE_UINT64),
                        pysh_cuda_amo_at(amo, &amo->shared->spare), 0, 0, pysh_cuda_amo_at(amo, &amo->shared->own), 0);
    if (!result)
        result = pysh_cuda.StreamSynchronize(stream);
    return result ? pysh_cuda_fail(result, "loading the kernels for atomic operations") : pysh_cuda_amo_warm(amo);
}

bool pysh_cuda_amo_close(pysh_cuda_amo_t *amo) {
    if (amo->server_stream && !pysh_cuda_amo_let_go(amo)) {
        *amo = (pysh_cuda_amo_t){0};
        return false;
    }
    if (amo->server_stream)
        pysh_cuda.StreamDestroy(amo->server_stream);
    if (amo->stream)
        pysh_cuda.StreamDestroy(amo->stream);
    if (amo->module)
        pysh_cuda.ModuleUnload(amo->module);
    if (amo->shared)
        pysh_cuda.MemFreeHost(amo->shared);
    *amo = (pysh_cuda_amo_t){0};
    return true;
}
