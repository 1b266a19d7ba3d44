/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

/* Cores that the PEs of this host run on, together: as the launcher that bound each to a part of them says. Else those
 * of this process; a PE that somebody else has bound to one core counts all of the machine. */
int pysh_cores(void);
