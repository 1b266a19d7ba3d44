/* SPDX-License-Identifier: BSD-3-Clause
 * Which hosts the PEs are on, by name: containers of one machine may share no memory. */
#pragma once

#include <stdbool.h>

int pysh_os_learn_hosts(void); /* collective */
bool pysh_os_on_host(int pe);
bool pysh_os_maps(int pe);
const char *pysh_os_host(int pe); /* its name */
