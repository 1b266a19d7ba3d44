/* SPDX-License-Identifier: BSD-3-Clause
 * Atomic operations on the device heap of a PE to whose GPU the link has no native ones: its own proxy does them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Collective, once `pysh.by_owner` has what the accelerator knows: takes in the setting P2P_ATOMICS, and tells this PE
 * whether it has others' operations to do. */
int pysh_amo_by_owner_open(void);
/* Is `op` on the arena `heap` of `pe` for that PE to do? Loads and stores of a word need no native atomics. */
bool pysh_amo_is_by_owner(int op, int heap, int pe);
/* Blocking; the arguments have been checked, `offset` is into the device heap. */
int pysh_amo_by_owner(int op, int type, int64_t offset, uint64_t value, uint64_t cond, int pe, const char *what,
                      uint64_t *fetched_p);
/* For who must not wait: OK, or PYSH_ENGINE_FULL while another of this PE's is on its way there. Those of a thread to
 * one PE are done in the order in which they were begun. Poll until it is done, once more than that not. */
int pysh_amo_by_owner_begin(int op, int type, int64_t offset, uint64_t value, uint64_t cond, int pe);
int pysh_amo_by_owner_poll(int pe, bool *done_p, uint64_t *fetched_p);
/* The owner's proxy: takes what the others have asked for a step on, without waiting; true when it did something. */
bool pysh_amo_serve_others(void);
