/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "base/cores.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "base/clock.h"
#include "ishmemx.h"

int pysh_cores(void) {
    cpu_set_t mask;
    int64_t told;
    int cores;

    if (!ishmemx_setting_number("CORES", &told) && told > 0)
        return (int)told;
    cores = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    return cores > 1 ? cores : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

bool pysh_core_leave(const cpu_set_t *taken) {
    enum { FIRST_PAUSE_NS = 10 * 1000 * 1000 };
    static _Thread_local int64_t next_ns, pause_ns = FIRST_PAUSE_NS;
    int64_t now = pysh_now_ns();
    cpu_set_t allowed, others;

    if (now < next_ns)
        return false;
    next_ns = now + pause_ns;
    pause_ns *= 2;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return false;
    CPU_AND(&others, &allowed, taken);
    CPU_XOR(&others, &allowed, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others))
        return false;
    sched_setaffinity(0, sizeof allowed, &allowed);
    return true;
}
