/* SPDX-License-Identifier: BSD-3-Clause
 * The conduit over an OpenSHMEM library. */
#pragma once

#include "node/conduit.h"

extern const pysh_conduit_t pysh_conduit_openshmem;
