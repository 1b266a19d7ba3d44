/* SPDX-License-Identifier: BSD-3-Clause
 * What the launcher says of the job. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "ishmemx.h"

/* Refuses half of what torchrun sets, by hand: every process would be a job of one PE, and not say so. It counts where
 * nobody has said which PE this is: a communicator may have. */
int pysh_launcher_refuse_half_a_rank(const ishmemx_config_t *config);
/* The PE that a launcher says this process is, -1: none does. Leaves the last error as it is: for messages about it. */
int pysh_launcher_pe(void);
/* The process of the launcher on this host that ends its PEs before it ends, as torchrun's agent and mpirun's daemon
 * do; 0: none is known to. */
pid_t pysh_launcher_agent(void);
/* Whether the launcher says that its n_pes PEs are on several hosts. */
bool pysh_launcher_several_hosts(int n_pes);
/* For messages: what else to do where the launcher says so, and they are on one host; "" where it cannot be wrong. */
const char *pysh_launcher_one_host(void);
/* Whether RANK and WORLD_SIZE alone, which anybody may have set, say that there are other PEs. */
bool pysh_launcher_by_rank(void);
/* Whether srun started the job of n_pes PEs; *pmi_p: and offers PMI, by which PEs of an OpenSHMEM library meet. */
bool pysh_launcher_is_srun(int n_pes, bool *pmi_p);
/* Whether an OpenSHMEM library is to be the transport: the PEs are on several hosts, oshrun started them,
 * or the user named a library. Not when our own launcher started them. */
bool pysh_launcher_is_openshmem(void);
