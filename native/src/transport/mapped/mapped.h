/* SPDX-License-Identifier: BSD-3-Clause
 * The conduit of PEs on one host. */
#pragma once

#include "node/conduit.h"

extern const pysh_conduit_t pysh_conduit_shm;
