/* SPDX-License-Identifier: BSD-3-Clause
 * Where kernels write their stages for a timeline. */
#pragma once

#include <stdint.h>

/* The state word TRACE. */
int64_t pysh_trace_place(void);
/* The device heap is about to go. */
void pysh_trace_close(void);
