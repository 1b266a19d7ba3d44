/* SPDX-License-Identifier: BSD-3-Clause
 * Opening a GPU: by its PE, and by the process of the PE's copy engine, which maps all device heaps. */
#include <stdint.h>
#include <string.h>

#include "accel/cuda/engine.h"
#include "accel/cuda/gpu.h"
#include "accel/cuda/growing.h"
#include "base/state.h"
#include "base/status.h"

/* The GPU's primary context, current; *card is for the other PEs to know it by. */
int pysh_cuda_open_card(int ordinal, int count, pysh_cuda_card_t *card) {
    CUresult result;

    if (ordinal >= count)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "GPU %d was asked for, but this process sees %d", ordinal, count);
    pysh_gpu.ordinal = ordinal;
    result = pysh_cuda.DeviceGet(&pysh_gpu.device, ordinal);
    if (!result)
        result = pysh_cuda.DeviceGetUuid(&card->uuid, pysh_gpu.device);
    if (!result)
        result = pysh_cuda.DeviceGetPCIBusId(card->bus, (int)sizeof card->bus, pysh_gpu.device);
    if (!result)
        result = pysh_cuda.DevicePrimaryCtxRetain(&pysh_gpu.context, pysh_gpu.device);
    if (result) {
        pysh_gpu.context = NULL;
        return pysh_cuda_fail(result, "opening GPU %d", ordinal);
    }
    result = pysh_cuda.CtxSetCurrent(pysh_gpu.context);
    return result ? pysh_cuda_fail(result, "the context of GPU %d", ordinal) : ISHMEMX_OK;
}

/* ---- a copy engine in another process ---- */

int pysh_cuda_share(pysh_engine_map_t *map, int *fd_p) {
    *map =
        (pysh_engine_map_t){.pe = pysh.pe, .n_pes = pysh.n_pes, .device = pysh_gpu.ordinal, .nbytes = pysh_gpu.nbytes};
    map->grows = pysh_cuda_grown();
    for (int pe = pysh_near_begin(); !map->grows && pe < pysh_near_end(); pe++)
        memcpy(map->handle[pysh_near_place(pe)], &pysh_gpu.handles[pe], sizeof *pysh_gpu.handles);
    *fd_p = -1;
    return ISHMEMX_OK;
}

/* A first copy in each direction: what the driver loads or maps at first use, it does now. */
static CUresult try_copies(char *const *base) {
    CUstream stream = NULL;
    CUdeviceptr scratch = 0;
    CUresult result = pysh_cuda.MemAlloc(&scratch, PYSH_CUDA_ALLOCATION_UNIT);

    if (!result)
        result = pysh_cuda.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    for (int i = 0; !result && i < ISHMEMX_MAX_NEAR_PES; i++)
        if (base[i])
            result = pysh_cuda.MemcpyAsync(scratch, (CUdeviceptr)(uintptr_t)base[i], 8, stream);
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

int pysh_cuda_join(const pysh_engine_map_t *map, int fd, char **base) {
    pysh_cuda_card_t card;
    CUresult result;
    int count, status = pysh_cuda_open(&count);

    (void)fd;
    if (!status)
        status = pysh_cuda_open_card(map->device, count, &card);
    if (!status)
        status = pysh_cuda_engine_open();
    if (!status && map->grows) /* there is nothing to try yet */
        return pysh_cuda_grown_join(map, base);
    for (int i = 0; !status && i < ISHMEMX_MAX_NEAR_PES; i++) {
        CUipcMemHandle handle;
        CUdeviceptr mapped = 0;
        if (map->near[i] < 0)
            continue;
        memcpy(&handle, map->handle[i], sizeof handle);
        result = pysh_cuda.IpcOpenMemHandle(&mapped, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (result)
            status = pysh_cuda_fail(result, "GPU %d cannot map the device heap of PE %d (CUDA IPC)", map->device,
                                    map->near[i]);
        base[i] = (char *)(uintptr_t)mapped;
    }
    if (!status && (result = try_copies(base)))
        status = pysh_cuda_fail(result, "a first copy on GPU %d", map->device);
    return status;
}
