/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/trace.h"

#include <stdint.h>

#include "accel/accel.h"
#include "base/state.h"
#include "base/status.h"
#include "ishmemx.h"

static int64_t place;

int64_t pysh_trace_place(void) {
    return place;
}

void pysh_trace_close(void) {
    place = 0;
}

int ishmemx_trace_stages(int64_t address) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];
    int64_t offset = address - (int64_t)(intptr_t)arena->base;

    if (address && (!arena->base || offset < 0 || offset >= arena->nbytes))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "stages are written to the device heap, not to %#llx",
                         (unsigned long long)address);
    place = address;
    return ISHMEMX_OK;
}

int ishmemx_traced_stages(void *dest, int64_t offset, int64_t nbytes) {
    if (!place || !pysh.accel)
        return pysh_fail(ISHMEMX_ERR_STATE, "kernels write their stages nowhere");
    return pysh.accel->copy(dest, (const char *)(intptr_t)(place + offset), (size_t)nbytes);
}

int ishmemx_trace_clock(int64_t *offset_ns, int64_t *within_ns) {
    *offset_ns = *within_ns = 0;
    return pysh.accel ? pysh.accel->clock(offset_ns, within_ns) : ISHMEMX_OK;
}
