/* SPDX-License-Identifier: BSD-3-Clause
 * Atomic operations that are started, and polled until they are done. One caller at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "accel/cuda/amo.h"
#include "accel/cuda/driver.h"

/* As the accelerator's. */
int pysh_cuda_amo_begin(pysh_cuda_amo_t *amo, int op, int type, CUdeviceptr address, uint64_t value, uint64_t cond,
                        int *slot_p);
int pysh_cuda_amo_poll(pysh_cuda_amo_t *amo, int slot, bool *done_p, uint64_t *fetched_p);
/* Runs the kernel that stays once, to its end. */
int pysh_cuda_amo_warm(pysh_cuda_amo_t *amo);
/* Waits until it has gone, but not for long. False: the driver has not returned from its launch. */
bool pysh_cuda_amo_let_go(pysh_cuda_amo_t *amo);
