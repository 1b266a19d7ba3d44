/* SPDX-License-Identifier: BSD-3-Clause
 * Which hosts the PEs are on, by name: containers of one machine may share no memory. */
#pragma once

#include <stdbool.h>

/* Tells the others about this PE, and learns which share its host, and whether all map all; collective, by the
 * library's own means. Once a process. */
int pysh_os_learn_hosts(void);
bool pysh_os_on_host(int pe);
const char *pysh_os_host(int pe); /* its name */
