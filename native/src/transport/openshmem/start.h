/* SPDX-License-Identifier: BSD-3-Clause
 * The transport over an OpenSHMEM library. */
#pragma once

#include "transport/transport.h"

extern const pysh_transport_t pysh_transport_openshmem;
