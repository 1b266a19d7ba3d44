/* SPDX-License-Identifier: BSD-3-Clause
 * Notices PEs of this host that are gone, and the launcher's process that started this one. */
#pragma once

#include "node/control.h"

/* Begins to watch the processes that the slots name; those of another pid namespace, or where the
 * kernel has no pidfd and no answer either, are taken to live. SYSTEM where a process may not open
 * as many files: poll() would refuse to look at any of them. */
int pysh_peers_watch(const pysh_control_t *control, int pe);
void pysh_peers_unwatch(void);
/* OK, or PEER naming the PE that died or finalised, or the launcher's process that did, and what `pe` was in then. */
int pysh_peers_check(const pysh_control_t *control, int pe);
