/* SPDX-License-Identifier: BSD-3-Clause
 * The clock of all waits. */
#pragma once

#include <stdint.h>

int64_t pysh_now_ns(void); /* CLOCK_MONOTONIC */
