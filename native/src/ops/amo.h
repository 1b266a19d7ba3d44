/* SPDX-License-Identifier: BSD-3-Clause
 * Atomic memory operations. */
#pragma once

#include <stdint.h>

/* OK, or TYPE naming the types inside the operation's table. */
int pysh_amo_check(int op, int type);
/* The operation on `pe`, a world PE that has been checked like op and type; `what` names the address. */
int pysh_amo(int op, int type, void *dest, uint64_t value, uint64_t cond, int pe, const char *what,
             uint64_t *fetched_p);
