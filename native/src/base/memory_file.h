/* SPDX-License-Identifier: BSD-3-Clause
 * Memory without a name that processes share by its descriptor. */
#pragma once

/* An empty file of memory, closed on exec; -1 with the reason as the last error. The caller closes it. */
int pysh_memory_file(const char *name);
