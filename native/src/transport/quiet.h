/* SPDX-License-Identifier: BSD-3-Clause
 * Completes what this PE has issued, wherever that is under way: rings, copy engine, transport. */
#pragma once

#include "base/state.h"
#include "transport/transport.h"

int pysh_quiet(void);
/* Its steps, for fence: what kernels have told the rings, the host's own copies, and what the transport was given. */
int pysh_quiet_rings(void);
int pysh_quiet_copies(void);
static inline int pysh_quiet_transport(void) {
    return pysh.transport->flush ? pysh.transport->flush() : ISHMEMX_OK;
}
/* In place of the last, where what follows is for the same PE: the transport may keep the order by itself. */
static inline int pysh_order_transport(void) {
    return pysh.transport->flush && !pysh.transport->in_order ? pysh.transport->flush() : ISHMEMX_OK;
}
/* A non-blocking copy of the copy engine has been started: there is something to complete. */
void pysh_quiet_copy_started(void);
/* Who drains the rings; NULL: there are none. */
void pysh_quiet_set_rings(int (*drain)(void));
