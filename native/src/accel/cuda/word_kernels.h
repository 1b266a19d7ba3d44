/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels of one thread that store a word on a stream and wait for one: sooner than the driver's operations, which go
 * by the GPU's front end. They need room on a multiprocessor. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/cuda/driver.h"

/* In the current context: loads them and runs them once on `stream`, so that nothing is loaded later, when a kernel
 * that waits for such a word may fill the GPU. `zero` is a word that is 0. Nothing where the driver or the GPU is
 * older. */
int pysh_cuda_words_open(int major, bool starts_early, void *stream, CUdeviceptr zero);
/* Puts a kernel on a stream that changes nothing. */
int pysh_cuda_words_start(const void *unused, CUstream stream);
void pysh_cuda_words_close(void);

/* Those of pysh_streams_t; by the driver where there are no kernels. */
int pysh_cuda_store_by_kernel(void *address, uint64_t value, bool early_start, void *stream);
int pysh_cuda_wait_by_kernel(const void *address, int cmp, uint64_t value, size_t nbytes, bool early_start,
                             void *stream);
