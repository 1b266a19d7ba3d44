/* SPDX-License-Identifier: BSD-3-Clause
 * How full the heaps of this PE are, for other processes of its user (`python -m pyshmem info --heap`): a file of
 * memory without a name, which they open by this process's descriptor in /proc. */
#pragma once

#include "ishmemx.h"

/* With the heaps; a PE that can have no such file goes on without. `job` is its name, NULL: none. */
void pysh_usage_open(const char *job);
void pysh_usage_close(void);
/* Shows how full the heaps are: behind each collective call that changes it. */
void pysh_usage_update(void);
