/* SPDX-License-Identifier: BSD-3-Clause
 * Copies that the proxy starts for kernels: a stream for each peer, so that none waits for another's. The caller's
 * thread has the context; calls come from the proxy's threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/accel.h"

int pysh_cuda_engine_open(void);
void pysh_cuda_engine_close(void);
int pysh_cuda_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const pysh_completion_t *completions,
                          int n_completions, uint64_t *token_p);
int pysh_cuda_engine_done(uint64_t token, bool *done_p);
void pysh_cuda_engine_mark(void);
int pysh_cuda_engine_finished(bool *marked_p, bool *all_p);
void pysh_cuda_engine_complete(void *address, uint64_t value);
