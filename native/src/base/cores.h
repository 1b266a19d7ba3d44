/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <sched.h>
#include <stdbool.h>

/* Cores that the PEs of this host run on, together: as the launcher that bound each to a part of them says. Else those
 * of this process; a PE that somebody else has bound to one core counts all of the machine. */
int pysh_cores(void);
/* Takes the calling thread to another of its cores than those that are `taken`, if it has one; its affinity is as
 * before then. Not again for a while, longer each time: whom it keeps meeting has a reason to be there. False: it
 * stays. */
bool pysh_core_leave(const cpu_set_t *taken);
