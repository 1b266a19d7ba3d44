/* SPDX-License-Identifier: BSD-3-Clause
 * Which PEs are on one node. */
#pragma once

/* Finds it out with all PEs, for pysh.node; collective. */
int pysh_nodes_open(void);
void pysh_nodes_close(void);
