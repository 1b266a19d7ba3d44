/* SPDX-License-Identifier: BSD-3-Clause
 * Meetings of lanes. */
#pragma once

#include "fiber/fiber.h"

enum { PYSH_SYNC, PYSH_PICK, PYSH_UP, PYSH_DOWN, PYSH_XOR, PYSH_BALLOT, PYSH_MATCH };
/* The lanes of `mask` that live meet. Shuffles return the value of a lane; PYSH_BALLOT a bit for each value that is not
 * 0, and above it the lanes that met; PYSH_MATCH the lanes with the same value, and above it those that met. */
uint64_t pysh_cpu_warp(int32_t op, uint32_t mask, uint64_t value, int32_t operand);
uint32_t pysh_cpu_live_lanes(void);
/* The same of all lanes that there are, none of which has ended: of a routine of the device library. */
uint64_t pysh_cpu_warp_meet(int32_t op, uint64_t value, int32_t operand);

void pysh_warp_check(block_t *block, int number, worker_t *worker); /* a lane has ended */
