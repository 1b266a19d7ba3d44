/* SPDX-License-Identifier: BSD-3-Clause
 * The simulator's streams: queues, each with a thread that works it off. */
#pragma once

#include "accel/streams.h"

extern const pysh_streams_t pysh_sim_streams;
