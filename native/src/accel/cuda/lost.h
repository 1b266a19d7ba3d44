/* SPDX-License-Identifier: BSD-3-Clause
 * A GPU that is lost. */
#pragma once

#include "accel/cuda/driver.h"

/* Is `result`, of which the driver says `name` and `text`, one behind which the GPU does nothing more for this process?
 * Then that is told, once, and ends the job: all PEs' calls fail with the reason. `what`: the call. */
void pysh_cuda_look_if_lost(CUresult result, const char *name, const char *text, const char *what);
