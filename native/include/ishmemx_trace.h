/* SPDX-License-Identifier: BSD-3-Clause
 * Part of ishmemx.h: what a timeline is made of. The host's clock is CLOCK_MONOTONIC everywhere, in nanoseconds. */
#pragma once

#include <stdint.h>

#include "ishmemx_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A request that a proxy served, from when it took it until it was done; or the copy by a copy engine that it started,
 * until the proxy saw it complete. */
typedef struct ishmemx_traced_request {
    int64_t begin_ns, end_ns;
    int64_t nbytes; /* that it asked to move; 0 for operations that move none, and for strided ones */
    int64_t ticket;
    int32_t op, pe;     /* enum pysh_request_op; the peer, -1 where there is none */
    int32_t ring, copy; /* copy: 1 for the copy engine's part */
} ishmemx_traced_request_t;

/* Note requests from here on, after forgetting those noted before (on = 1), or no more (on = 0). */
ISHMEMX_API int ishmemx_trace_requests(int on);
/* Copies up to `capacity` of those that are done; *dropped: how many found no room, or are not done yet. */
ISHMEMX_API int ishmemx_traced_requests(ishmemx_traced_request_t *requests, int64_t capacity, int64_t *count,
                                        int64_t *dropped);
/* Where on the device heap kernels write their stages, or 0: for kernels launched after the next push of the state. */
ISHMEMX_API int ishmemx_trace_stages(int64_t address);
/* Copies from there, whatever state the job is in. It waits for no kernel. */
ISHMEMX_API int ishmemx_traced_stages(void *dest, int64_t offset, int64_t nbytes);
/* What to add to the clock of kernels to have the host's, give or take *within_ns. */
ISHMEMX_API int ishmemx_trace_clock(int64_t *offset_ns, int64_t *within_ns);

#ifdef __cplusplus
}
#endif
