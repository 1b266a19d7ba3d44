/* SPDX-License-Identifier: BSD-3-Clause
 * See copy.h. */
#include "accel/copy.h"

#include <string.h>

#include "accel/accel.h"
#include "base/state.h"

int pysh_copy(void *dest, const void *source, size_t nbytes) {
    if (pysh_on_gpu(dest) || pysh_on_gpu(source))
        return pysh.accel->copy(dest, source, nbytes);
    memmove(dest, source, nbytes);
    return ISHMEMX_OK;
}
