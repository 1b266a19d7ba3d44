/* SPDX-License-Identifier: BSD-3-Clause
 * Faults that kernels and the proxy recorded; the records are pysh.fault. */
#pragma once

/* The waits of this PE's kernels end soon; whoever calls it has recorded why in fault[1]. */
void pysh_end_kernel_waits(void);
