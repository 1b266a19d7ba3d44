/* SPDX-License-Identifier: BSD-3-Clause
 * The text of the kernels pysh_amo and pysh_amo_server. */
#pragma once

extern const char *const pysh_cuda_amo_ptx;
