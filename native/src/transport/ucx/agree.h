/* SPDX-License-Identifier: BSD-3-Clause
 * Barrier and exchange of PEs of several hosts, by messages. */
#pragma once

#include "agree/agree.h"

int pysh_ucx_agree_open(void);
void pysh_ucx_agree_close(void);
extern const pysh_agree_t pysh_agree_ucx;
/* The job has ended with all PEs there. */
bool pysh_ucx_ended_together(void);
