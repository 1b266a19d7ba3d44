/* SPDX-License-Identifier: BSD-3-Clause
 * A GPU that is lost: from some error on every call of the driver fails, in this process or on this machine. */
#include "accel/cuda/lost.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "accel/cuda/gpu.h"
#include "base/say.h"
#include "base/state.h"
#include "node/node.h"

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

void pysh_cuda_look_if_lost(CUresult result, const char *name, const char *text, const char *what) {
    static atomic_bool told; /* of the process: its context does not come back */
    char why[384];

    if (!is_lost(result) || atomic_load(&pysh.ready) != PYSH_READY || atomic_exchange(&told, true))
        return;
    snprintf(why, sizeof why, "its GPU %d is lost: %s (CUDA error %d: %s), seen in %s", pysh_gpu.ordinal, name, result,
             text, what);
    pysh_sayf(STDERR_FILENO, "PE %d: %s; dmesg may have the driver's Xid\n", pysh.pe, why);
    pysh_node_abort(1, why);
}
