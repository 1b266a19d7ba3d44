/* SPDX-License-Identifier: BSD-3-Clause
 * Extensions of pyshmem to OpenSHMEM. */
#pragma once

#include "ishmemx.h"
#include "shmem.h"
