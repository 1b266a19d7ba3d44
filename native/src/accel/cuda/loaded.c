/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels that other libraries have loaded on this PE's GPU: what they take, and launches of them. */
#include "accel/cuda/loaded.h"

#include <stdbool.h>
#include <stddef.h>

#include "accel/cuda/driver.h"
#include "accel/cuda/gpu.h"
#include "base/status.h"

bool pysh_cuda_takes(void *function, int count, const size_t *nbytes) {
    size_t end = 0, offset, size;
    bool same = pysh_cuda.FuncGetParamInfo != NULL && pysh_cuda.LaunchKernelEx != NULL;
    pysh_cuda_visit_t visit = pysh_cuda_enter();

    for (int i = 0; same && i < count; i++) {
        size_t place = (end + nbytes[i] - 1) / nbytes[i] * nbytes[i]; /* each at a multiple of its size */
        same = !pysh_cuda.FuncGetParamInfo(function, (size_t)i, &offset, &size) && offset == place && size == nbytes[i];
        end = place + nbytes[i];
    }
    same = same && pysh_cuda.FuncGetParamInfo(function, (size_t)count, &offset, &size);
    pysh_cuda_leave(visit);
    return same;
}

int pysh_cuda_launch_loaded(const ishmemx_loaded_t *kernel, void **arguments, void *stream) {
    CUlaunchAttribute attributes[2];
    CUlaunchConfig shape = {.gridDimX = kernel->grid[0],
                            .gridDimY = kernel->grid[1],
                            .gridDimZ = kernel->grid[2],
                            .blockDimX = kernel->threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .sharedMemBytes = kernel->shared,
                            .hStream = stream,
                            .attrs = attributes};
    pysh_cuda_visit_t visit;
    CUresult result;

    if (kernel->early)
        attributes[shape.numAttrs++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value = {1}};
    if (kernel->cooperative)
        attributes[shape.numAttrs++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {1}};
    visit = pysh_cuda_enter();
    result = pysh_cuda.LaunchKernelEx(&shape, (CUfunction)kernel->function, arguments, NULL);
    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "launching a kernel on stream %p", stream) : ISHMEMX_OK;
}
