/* SPDX-License-Identifier: BSD-3-Clause */
#include "accel/cuda/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/cuda/driver.h"
#include "accel/cuda/gpu.h"
#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"

typedef struct verdict {
    int status;
    char text[512];
} verdict_t;

int pysh_cuda_agree(const char *what, int status) {
    verdict_t mine = {.status = status}, *all = calloc((size_t)pysh.n_pes, sizeof *all);
    int outcome;

    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    if (status)
        snprintf(mine.text, sizeof mine.text, "%s", ishmemx_error());
    outcome = pysh.agree->exchange(what, &mine, all, sizeof mine);
    for (int pe = 0; !outcome && !status && pe < pysh.n_pes; pe++)
        if (all[pe].status)
            outcome = pysh_fail(all[pe].status, "PE %d: %s", pe, all[pe].text);
    free(all);
    return status && !pysh_is_unfinished(outcome) ? status : outcome;
}

typedef struct link { /* from the own GPU to a peer's */
    int reaches, atomics;
} link_t;

/* A GPU this process does not see is taken for one that is reached, by a link with native atomic operations: opening
 * its arena decides on the first, the setting P2P_ATOMICS on the second. */
static link_t link_to(CUdevice own, const pysh_cuda_card_t *mine, const pysh_cuda_card_t *peer) {
    link_t link = {1, 1};
    int count = 0;

    if (!memcmp(&mine->uuid, &peer->uuid, sizeof mine->uuid) || pysh_cuda_open(&count))
        return link;
    for (int i = 0; i < count; i++) {
        CUdevice device;
        CUuuid uuid;
        if (pysh_cuda.DeviceGet(&device, i) || pysh_cuda.DeviceGetUuid(&uuid, device) ||
            memcmp(&uuid, &peer->uuid, sizeof uuid))
            continue;
        if (pysh_cuda.DeviceCanAccessPeer(&link.reaches, own, device))
            link.reaches = 0;
        if (pysh_cuda.DeviceGetP2PAttribute(&link.atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, own,
                                            device))
            link.atomics = 0;
        break;
    }
    return link;
}

/* Every PE sees every row, so every PE fails with the same list of pairs. */
static int list_missing(const pysh_cuda_card_t *cards, const unsigned char *rows) {
    char pairs[1024] = "";
    size_t used = 0;

    for (int a = 0; a < pysh.n_pes; a++)
        for (int b = 0; b < pysh.n_pes && used < sizeof pairs; b++)
            if (pysh.node[a] == pysh.node[b] && !rows[(size_t)a * ISHMEMX_MAX_NEAR_PES + (size_t)pysh_near_place(b)])
                used += (size_t)snprintf(pairs + used, sizeof pairs - used, "%sPE %d (GPU %s) to PE %d (GPU %s)",
                                         used ? ", " : "", a, cards[a].bus, b, cards[b].bus);
    if (!used)
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                     "no peer access between GPUs: %s; choose GPUs joined by NVLink or one "
                     "PCIe root with CUDA_VISIBLE_DEVICES, run with fewer PEs, or set PYSHMEM_P2P=0 and use arrays "
                     "on the host heap",
                     pairs);
}

int pysh_cuda_check_matrix(CUdevice device, const pysh_cuda_card_t *mine) {
    unsigned char row[ISHMEMX_MAX_NEAR_PES] = {0};
    pysh_cuda_card_t *cards = calloc((size_t)pysh.n_pes, sizeof *cards);
    unsigned char *rows = calloc((size_t)pysh.n_pes, sizeof row);
    int status = ISHMEMX_OK;

    if (!cards || !rows)
        status = pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    if (!status)
        status = pysh.agree->exchange("init", mine, cards, sizeof *mine);
    for (int pe = 0; !status && pe < pysh.n_pes; pe++) {
        link_t link;
        if (!pysh_near(pe))
            continue;
        link = link_to(device, mine, &cards[pe]);
        row[pysh_near_place(pe)] = (unsigned char)link.reaches;
        if (!link.atomics)
            pysh_note_by_owner(pe);
    }
    if (!status)
        status = pysh.agree->exchange("init", row, rows, sizeof row);
    if (!status)
        status = list_missing(cards, rows);
    free(cards);
    free(rows);
    return status;
}

/* ---- memory that is no heap's ---- */

static int attribute_of(CUdeviceptr address, int attribute) {
    int value = 0;

    return pysh_cuda.PointerGetAttribute(&value, attribute, address) ? 0 : value;
}

/* What CUDA IPC does not take, by its kind. */
static int refuse_kind(CUdeviceptr address, int device) {
    void *pool = NULL;

    if (attribute_of(address, CU_POINTER_ATTRIBUTE_IS_MANAGED))
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "it is managed memory, which moves between host and GPU");
    if (device != pysh_gpu.ordinal)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "it is on GPU %d, and this PE drives GPU %d", device,
                         pysh_gpu.ordinal);
    if (!pysh_cuda.PointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) && pool)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "it is of cudaMallocAsync, whose pools CUDA IPC does not take; "
                                                  "PYTORCH_CUDA_ALLOC_CONF=backend:native has torch use cudaMalloc");
    if (!attribute_of(address, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE))
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "it is mapped memory (cuMemMap), which CUDA IPC does not take; "
                         "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False has torch use cudaMalloc");
    return ISHMEMX_OK;
}

static int lend(CUdeviceptr address, size_t nbytes, pysh_lent_t *lent) {
    CUdeviceptr base = 0;
    CUipcMemHandle handle;
    size_t size = 0;
    int device = -1, status;
    CUresult result = pysh_cuda.PointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);

    if (result)
        return pysh_cuda_fail(result, "looking at memory to be registered");
    if ((status = refuse_kind(address, device)))
        return status;
    if ((result = pysh_cuda.MemGetAddressRange(&base, &size, address)))
        return pysh_cuda_fail(result, "finding the allocation that memory to be registered is of");
    if (nbytes > size - (size_t)(address - base))
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "it is of several allocations, side by side");
    if ((result = pysh_cuda.IpcGetMemHandle(&handle, base)))
        return pysh_cuda_fail(result, "sharing memory to be registered (CUDA IPC)");
    memcpy(lent->handle, &handle, sizeof handle);
    lent->offset = (int64_t)(address - base);
    return ISHMEMX_OK;
}

int pysh_cuda_lend(const void *address, size_t nbytes, pysh_lent_t *lent) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    int status = lend((CUdeviceptr)(uintptr_t)address, nbytes, lent);

    pysh_cuda_leave(visit);
    return status;
}

/* The driver counts how often an allocation is opened; it is one mapping. */
int pysh_cuda_borrow(pysh_lent_t *lent, int pe, char **here_p) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUdeviceptr base = 0;
    CUipcMemHandle handle;
    CUresult result;

    memcpy(&handle, lent->handle, sizeof handle);
    result = pysh_cuda.IpcOpenMemHandle(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    pysh_cuda_leave(visit);
    if (result)
        return pysh_cuda_fail(result, "GPU %d cannot map memory that PE %d registers (CUDA IPC)", pysh_gpu.ordinal, pe);
    lent->opened = base;
    *here_p = (char *)(uintptr_t)(base + (CUdeviceptr)lent->offset);
    return ISHMEMX_OK;
}

void pysh_cuda_give_back(pysh_lent_t *lent) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();

    pysh_cuda.IpcCloseMemHandle(lent->opened);
    pysh_cuda_leave(visit);
    lent->opened = 0;
}
