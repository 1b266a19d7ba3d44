/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptors of memory that the PEs of a node give each other while the job runs, by a socket of each. */
#pragma once

#include <stdint.h>

/* Collective: makes the socket, learns the others', and tries them. What this PE returns, others may not. */
int pysh_descriptors_open(void);
void pysh_descriptors_close(void);
/* Gives `mine` to each PE of the node and takes theirs[pe] of each, which are -1 before the first call; both stay the
 * caller's. `number`: of this round, counted up, the same on all. After TIMEOUT or INTERRUPTED it goes on where it
 * was when it is called again with the same number. UNSUPPORTED: the host lets a letter through without what it
 * brought. */
int pysh_descriptors_pass(const char *what, uint64_t number, int mine, int *theirs);
