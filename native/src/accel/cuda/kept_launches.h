/* SPDX-License-Identifier: BSD-3-Clause
 * Launches that come again and again on a stream with the same arguments: a graph of the one kernel is kept, and
 * launched in the kernel's place, which takes the host half the time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "accel/cuda/driver.h"

/* What makes a launch the same as another one, on one stream; all words count. */
typedef struct pysh_cuda_same {
    CUfunction function;
    CUstream stream;
    int64_t shape; /* all of it that differs between launches of the function */
    const int64_t *words;
    int n_words;
} pysh_cuda_same_t;

/* Puts the work on a stream, for it to be recorded. */
typedef CUresult pysh_cuda_start_t(const void *work, CUstream stream);

/* Inside a visit. True: it is launched, and *result_p says how that went; false: it is to be launched as usual. */
bool pysh_cuda_launched_again(const pysh_cuda_same_t *same, pysh_cuda_start_t *start, const void *work,
                              CUresult *result_p);
/* `start` puts some kernel on a stream: graphs begin with it, and never launch it. */
void pysh_cuda_kept_open(pysh_cuda_start_t *start);
/* Their kernels have ended. */
void pysh_cuda_kept_close(void);
