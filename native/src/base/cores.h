/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

/* Cores that the PEs of this host run on; a PE that is bound to a core of its own counts all of the machine. */
int pysh_cores(void);
