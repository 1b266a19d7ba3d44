/* SPDX-License-Identifier: BSD-3-Clause
 * Launches of kernels that other libraries have loaded: Triton's, of fused operations. */
#include "accel/accel.h"
#include "base/state.h"
#include "base/status.h"
#include "node/enter.h"
#include "stream/stream.h"

int ishmemx_loaded_takes(const ishmemx_loaded_t *kernel, int count, const size_t *nbytes, int *takes) {
    PYSH_ENTER();
    *takes = pysh.accel && pysh.accel->streams->takes && pysh.accel->streams->takes(kernel->function, count, nbytes);
    return ISHMEMX_OK;
}

int ishmemx_loaded_launch(const ishmemx_loaded_t *kernel, void **arguments, void *stream) {
    PYSH_ENTER();
    if (!pysh.accel || !pysh.accel->streams->launch_loaded)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "this PE has no GPU: initialise with device cuda");
    return pysh.accel->streams->launch_loaded(kernel, arguments, stream);
}
