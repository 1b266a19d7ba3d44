/* SPDX-License-Identifier: BSD-3-Clause
 * The accelerator that is simulated: kernels are threads of the CPU. */
#pragma once

#include "accel/accel.h"

extern const pysh_accel_t pysh_accel_sim;
