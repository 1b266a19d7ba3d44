/* SPDX-License-Identifier: BSD-3-Clause
 * Static variables as an arena: how the PEs reach each other's. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Collective, once the host arena is there: opens the arena PYSH_STATICS, or leaves it closed. */
int pysh_statics_open(void);
void pysh_statics_close(void);
/* Why `address` is not symmetric, for a message; "" when it is no static variable at all. */
const char *pysh_statics_why_not(const void *address);
typedef struct pysh_static_peer {
    pid_t pid;
    uintptr_t base; /* of its variables, in its own addresses */
    uintptr_t sign; /* where it keeps `value`, to be known by */
    uint64_t value;
} pysh_static_peer_t;
extern pysh_static_peer_t *pysh_static_peers; /* [n_pes] while the arena is open */
