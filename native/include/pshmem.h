/* SPDX-License-Identifier: BSD-3-Clause
 * The header of profilers: shmem.h declares the pshmem_ names too. */
#pragma once

#include "shmem.h"
