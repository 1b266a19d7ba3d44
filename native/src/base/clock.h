/* SPDX-License-Identifier: BSD-3-Clause
 * The clock of all waits. */
#pragma once

#include <stdint.h>

int64_t pysh_now_ns(void); /* CLOCK_MONOTONIC */

/* A wait that has not looked for longer stood still, stopped or without a core: it counts no more than this. */
#define PYSH_STOOD_STILL_NS (100 * 1000 * 1000LL)

/* What counts of the time between two looks. */
static inline int64_t pysh_counted_ns(int64_t passed) {
    return passed < PYSH_STOOD_STILL_NS ? passed : PYSH_STOOD_STILL_NS;
}

/* Between two polls: lets the core's other thread run. */
static inline void pysh_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
