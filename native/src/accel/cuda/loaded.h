/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ishmemx.h"

/* Does the kernel take `count` arguments of these bytes, one behind the other, and no more? False where the driver,
 * before that of CUDA 12.4, cannot say. */
bool pysh_cuda_takes(void *function, int count, const size_t *nbytes);
int pysh_cuda_launch_loaded(const ishmemx_loaded_t *kernel, void **arguments, void *stream);
