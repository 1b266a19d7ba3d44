/* SPDX-License-Identifier: BSD-3-Clause
 * Atomic memory operations. */
#pragma once

#include <stdint.h>

/* The operation on `pe`, a world PE that has been checked like op and type (base/elements.h); `what` names the address.
 */
int pysh_amo(int op, int type, void *dest, uint64_t value, uint64_t cond, int pe, const char *what,
             uint64_t *fetched_p);
/* The same with an address of the library's own: see ops/rma.h. */
int pysh_own_amo(int op, int type, void *dest, uint64_t value, uint64_t cond, int pe, const char *what,
                 uint64_t *fetched_p);
