/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: fence and quiet. */
#include "api/shell.h"
#include "ishmemx.h"

ROUTINE(void, fence, void) {
    SHELL(ishmemx_fence(SHMEM_CTX_DEFAULT));
}

ROUTINE(void, ctx_fence, shmem_ctx_t ctx) {
    SHELL(ishmemx_fence(ctx));
}

ROUTINE(void, quiet, void) {
    SHELL(ishmemx_quiet(SHMEM_CTX_DEFAULT));
}

ROUTINE(void, ctx_quiet, shmem_ctx_t ctx) {
    SHELL(ishmemx_quiet(ctx));
}

BOTH(void, pe_quiet, (const int *target_pes, size_t npes), SHELL(ishmemx_pe_quiet(ctx, target_pes, npes)))
