/* SPDX-License-Identifier: BSD-3-Clause
 * The transport of PEs on several hosts, over UCX. */
#pragma once

#include "transport/transport.h"

extern const pysh_transport_t pysh_transport_ucx;
