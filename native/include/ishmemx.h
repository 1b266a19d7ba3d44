/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The core of pyshmem, with types erased: RMA moves bytes, atomics and reductions take (operation,
 * type). shmem.h is a typed shell over these calls; the Python package calls them directly.
 *
 * Every int result is an ishmemx_status, unless said otherwise. On failure the outputs are not
 * written and ishmemx_error() tells, for the calling thread, what was wrong and the way out.
 */
#pragma once

#include "shmem_types.h"

#include "ishmemx_collectives.h"
#include "ishmemx_device.h"
#include "ishmemx_job.h"
#include "ishmemx_memory.h"
#include "ishmemx_ops.h"
#include "ishmemx_stream.h"
#include "ishmemx_teams.h"
#include "ishmemx_trace.h"
