/* SPDX-License-Identifier: BSD-3-Clause
 * Barrier and exchange of the openshmem conduit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As pysh_shm_arrive and pysh_shm_exchange. */
int pysh_os_arrive(const char *what, uint64_t arrival, bool *all_p);
int pysh_os_exchange(const char *what, const void *mine, void *all, size_t nbytes);
