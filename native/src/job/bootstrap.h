/* SPDX-License-Identifier: BSD-3-Clause
 * What the launcher says of the job. */
#pragma once

#include <stdbool.h>

/* How many of the job's PEs the launcher put on this host; 0 when it does not say. */
int pysh_launcher_local_n_pes(int n_pes);
/* Whether an OpenSHMEM library is to be the conduit: the PEs are on several hosts, oshrun started them,
 * or the user named a library. Not when our own launcher started them. */
bool pysh_launcher_is_openshmem(void);
