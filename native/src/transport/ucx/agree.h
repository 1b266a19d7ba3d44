/* SPDX-License-Identifier: BSD-3-Clause
 * Barrier and exchange of PEs of several hosts: of each node in its memory, between nodes by messages. */
#pragma once

#include "agree/agree.h"
#include "node/control.h"

/* slot: [n_pes] of this host's segment; first[pe]: the first PE of its node, whose PEs share such a segment. Behind
 * what fills in pysh_node. */
int pysh_ucx_agree_open(pysh_control_slot_t *slot, const int *first);
void pysh_ucx_agree_close(void);
extern const pysh_agree_t pysh_agree_ucx;
/* The job has ended with all PEs there. */
bool pysh_ucx_ended_together(void);
