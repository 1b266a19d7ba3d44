/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel that does one atomic operation on GPU memory for the host. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "accel/cuda/driver.h"

#define PYSH_CUDA_AMO_SLOTS 16 /* slot 0 is for the host's calls, the others are for those that are polled */

/* A slot's word is where the kernel leaves the old bits and what a copy sends from: memory that host and GPU share. */
typedef struct pysh_cuda_amo {
    CUmodule module;
    CUfunction function;
    uint64_t *word;
    CUdeviceptr device_word;
    CUstream stream; /* of those that are polled */
    CUevent event[PYSH_CUDA_AMO_SLOTS];
    bool used[PYSH_CUDA_AMO_SLOTS];
} pysh_cuda_amo_t;

/* In the current context. Loads the module and runs it once, so that nothing is loaded later, when a
 * kernel that waits for this very operation may fill the GPU. */
int pysh_cuda_amo_open(pysh_cuda_amo_t *amo, CUstream stream);
void pysh_cuda_amo_close(pysh_cuda_amo_t *amo);
/* One caller at a time. Begin and poll: as the accelerator's; run: complete on return. */
int pysh_cuda_amo_begin(pysh_cuda_amo_t *amo, int op, int type, CUdeviceptr address, uint64_t value, uint64_t cond,
                        int *slot_p);
int pysh_cuda_amo_poll(pysh_cuda_amo_t *amo, int slot, bool *done_p, uint64_t *fetched_p);
int pysh_cuda_amo_run(pysh_cuda_amo_t *amo, CUstream stream, int op, int type, CUdeviceptr address, uint64_t value,
                      uint64_t cond, uint64_t *fetched_p);
/* In the order of a stream; the old bits go to an element of the type at `fetched`, unless it is 0. */
int pysh_cuda_amo_on_stream(pysh_cuda_amo_t *amo, CUstream stream, int op, int type, CUdeviceptr address,
                            uint64_t value, uint64_t cond, CUdeviceptr fetched);
