/* SPDX-License-Identifier: BSD-3-Clause
 * Extensions of pyshmem to OpenSHMEM. */
#pragma once

#include "ishmemx.h"
#include "shmem.h"

#include <time.h>

/* Seconds since some moment in the past, the same for all PEs of a host. */
static inline double shmemx_wtime(void) {
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
