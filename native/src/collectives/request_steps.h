/* SPDX-License-Identifier: BSD-3-Clause
 * How members of a request tell each other how far they are. */
#pragma once

#include <stdbool.h>

#include "collectives/request.h"

enum pysh_request_step { PYSH_REQUEST_ANNOUNCED, PYSH_REQUEST_DONE };

/* A word of a slot, the last before the flags. */
#define PYSH_REQUEST_SENT (PYSH_ANNOUNCEMENT_BYTES - sizeof(uint64_t))

/* Tells the others that this PE is at the step, with all that it stored before; what it put by the transport wants a
 * quiet first. Waits for nobody. */
void pysh_request_tell(const struct ishmemx_request *request, enum pysh_request_step step);
/* Are all members at the step, or past it? It goes on where it has stopped before, from request->reached. */
bool pysh_request_all_at(struct ishmemx_request *request, enum pysh_request_step step);
