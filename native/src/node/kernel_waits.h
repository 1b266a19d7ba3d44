/* SPDX-License-Identifier: BSD-3-Clause
 * What kernels wait for, posted where the other PEs and the launcher can read it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/control.h"
#include "node/node.h"

/* "; its kernel waits (3.2 s so far): ...", or nothing. */
void pysh_board_describe(const pysh_board_t *board, char *text, size_t capacity);
/* Does a kernel of the board's PE wait? */
bool pysh_board_waits(const pysh_board_t *board);
/* Does a kernel of this PE tell that it waits? Then what for. It tells four times a second, once it is slow. */
bool pysh_board_own(char *text, size_t capacity);
/* Posts the wait on the caller's own board; MISMATCH when a PE has said there that its host is in the collective. */
int pysh_board_post(pysh_board_t *board, pysh_kernel_wait_t *wait);
/* See pysh_node_kernel_mismatch(). */
int pysh_board_mismatch(pysh_control_slot_t *const *slots, const pysh_members_t *members, const char *what,
                        int64_t since_ns);
/* Who says how many rounds this PE's finished kernels have made in the collectives that `collective` stands for, see
 * pysh_kernel_wait_t; asked while no kernel runs. NULL: nobody can. */
void pysh_board_kernel_epoch(int (*epoch)(int collective, int64_t *epoch_p));
