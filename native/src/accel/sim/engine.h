/* SPDX-License-Identifier: BSD-3-Clause
 * The simulator's copy engine: a thread that copies in the order it was asked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/accel.h"

int pysh_sim_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const pysh_completion_t *completions,
                         int n_completions, uint64_t *token_p);
int pysh_sim_engine_done(uint64_t token, bool *done_p);
void pysh_sim_engine_mark(void);
int pysh_sim_engine_finished(bool *marked_p, bool *all_p);
void pysh_sim_engine_complete(void *address, uint64_t value);
void pysh_sim_engine_stop(void);
