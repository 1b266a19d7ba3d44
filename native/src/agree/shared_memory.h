/* SPDX-License-Identifier: BSD-3-Clause
 * Barrier and exchange of PEs on one host, over the control segment; and waking those who sleep in a wait.
 *
 * Many PEs count their arrivals in one word. Up to PYSH_FEW_PES write each a word of its own and read the
 * others': the way from the last arrival to everybody is one cache line long. But where PEs share cores, who looks at n
 * words looks in vain most of the time, and the counter is the faster one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/agree.h"
#include "node/control.h"

void pysh_shm_wake_all(pysh_control_t *control);
/* `pe` is the caller; `arrival` is what it adds to the counter: PYSH_ARRIVAL, perhaps with PYSH_VOTE or
 * PYSH_EXCHANGE. *all_p (may be NULL): all PEs added a vote. */
int pysh_shm_arrive(pysh_control_t *control, int pe, const char *what, uint64_t arrival, bool *all_p);
/* Epochs that the PE has passed. */
uint32_t pysh_shm_epochs(const pysh_control_t *control, int pe);
/* For the PE `pe` of the job; while the segment is mapped. */
void pysh_shm_agree(pysh_control_t *control, int pe);
extern const pysh_agree_t pysh_agree_shm;
