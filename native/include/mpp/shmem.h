/* SPDX-License-Identifier: BSD-3-Clause
 * Where programs of before OpenSHMEM 1.1 look for it. */
#pragma once

#include "../shmem.h"
