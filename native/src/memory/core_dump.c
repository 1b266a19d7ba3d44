/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "memory/core_dump.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/state.h"

void pysh_arena_no_dump(void *base, size_t nbytes) {
    uintptr_t first = ((uintptr_t)base + 4095) & ~(uintptr_t)4095, end = ((uintptr_t)base + nbytes) & ~(uintptr_t)4095;

    if (!pysh.core_heaps && first < end)
        (void)madvise((void *)first, end - first, MADV_DONTDUMP); /* a larger core dump is the worst of a failure */
}
