/* SPDX-License-Identifier: BSD-3-Clause
 * Barrier of the openshmem conduit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/control.h"

uint64_t pysh_os_epoch(void); /* barriers that this PE has passed */
/* As pysh_shm_arrive. */
int pysh_os_arrive(const char *what, uint64_t arrival, bool *all_p);
/* The head of `pe`'s buffer, of which this is the own, and nbytes behind it: there, or in `copy`. */
const pysh_exchange_t *pysh_os_record(const pysh_exchange_t *own, size_t nbytes, int pe, pysh_exchange_t *copy);
