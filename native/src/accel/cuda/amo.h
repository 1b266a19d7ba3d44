/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel that does one atomic operation on GPU memory for the host. */
#pragma once

#include <stdint.h>

#include "accel/cuda/driver.h"

/* Where the kernel leaves the old bits and what a copy sends from: memory that host and GPU share. */
typedef struct pysh_cuda_amo {
    CUmodule module;
    CUfunction function;
    uint64_t *word;
    CUdeviceptr device_word;
} pysh_cuda_amo_t;

/* In the current context. Loads the module and runs it once, so that nothing is loaded later, when a
 * kernel that waits for this very operation may fill the GPU. */
int pysh_cuda_amo_open(pysh_cuda_amo_t *amo, CUstream stream);
void pysh_cuda_amo_close(pysh_cuda_amo_t *amo);
/* Complete on return; one caller at a time. */
int pysh_cuda_amo_run(pysh_cuda_amo_t *amo, CUstream stream, int op, int type, CUdeviceptr address, uint64_t value,
                      uint64_t cond, uint64_t *fetched_p);
