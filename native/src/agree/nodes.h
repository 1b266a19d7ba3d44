/* SPDX-License-Identifier: BSD-3-Clause
 * Which PEs are on one node. */
#pragma once

#include <stdbool.h>

/* Finds it out with all PEs, for pysh.node; collective. `kernels`: the state block of kernels has room for
 * ISHMEMX_MAX_NEAR_PES PEs of a node, so a host with more of them is several nodes. */
int pysh_nodes_open(bool kernels);
void pysh_nodes_close(void);
