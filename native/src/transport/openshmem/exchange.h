/* SPDX-License-Identifier: BSD-3-Clause
 * Exchange of the openshmem conduit. */
#pragma once

#include <stddef.h>

/* As pysh_shm_exchange. */
int pysh_os_exchange(const char *what, const void *mine, void *all, size_t nbytes);
