/* SPDX-License-Identifier: BSD-3-Clause
 * Whose routines the library calls when it calls an OpenSHMEM routine. */
#pragma once

/* Makes the library call its own routines, not ours, and see the end of the program's data, not of its own. */
struct link_map;
int pysh_openshmem_bind(const struct link_map *map);
