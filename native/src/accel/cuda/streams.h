/* SPDX-License-Identifier: BSD-3-Clause
 * The driver's streams, kernels of the device library on them, and graphs. */
#pragma once

#include "accel/streams.h"

extern const pysh_streams_t pysh_cuda_streams;

/* With the context current; closed also when it was not opened. */
int pysh_cuda_streams_open(void);
void pysh_cuda_streams_close(void);
