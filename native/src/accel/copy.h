/* SPDX-License-Identifier: BSD-3-Clause
 * Copies between any two addresses that this process can name, on CPU or GPU memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/accel.h"
#include "base/state.h"

/* Is it memory that only the accelerator reaches? */
static inline bool pysh_on_gpu(const void *address) {
    const pysh_arena_t *host = &pysh.arena[ISHMEMX_HEAP_HOST];

    if (!pysh.accel || pysh.accel->cpu_visible)
        return false;
    if (host->base && (uintptr_t)address - (uintptr_t)host->base < (uintptr_t)host->nbytes)
        return false;
    return pysh.accel->is_device(address);
}

/* Complete on return. */
int pysh_copy(void *dest, const void *source, size_t nbytes);
