/* SPDX-License-Identifier: BSD-3-Clause
 * Host memory that kernels load and store. */
#include <stdint.h>
#include <string.h>

#include "accel/cuda/gpu.h"
#include "base/status.h"

/* A GPU of our kind names registered memory as the host does; where it does not, nothing here would work. */
int pysh_cuda_host_open(void *base, size_t nbytes) {
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

void pysh_cuda_host_close(void *base) {
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
