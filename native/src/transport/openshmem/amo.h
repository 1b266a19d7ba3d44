/* SPDX-License-Identifier: BSD-3-Clause
 * Atomics on peers that are not mapped. */
#pragma once

#include <stdint.h>

/* `word` is the symmetric address. */
int pysh_os_amo(int op, int type, void *word, uint64_t value, uint64_t cond, int pe, uint64_t *fetched_p);
