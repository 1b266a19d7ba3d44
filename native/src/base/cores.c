/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "base/cores.h"

#include <sched.h>
#include <unistd.h>

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
