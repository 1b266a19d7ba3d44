/* SPDX-License-Identifier: BSD-3-Clause
 * The accelerator of NVIDIA GPUs. */
#pragma once

#include "accel/accel.h"

extern const pysh_accel_t pysh_accel_cuda;
