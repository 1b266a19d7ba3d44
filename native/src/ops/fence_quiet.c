/* SPDX-License-Identifier: BSD-3-Clause
 * Fence orders, quiet completes. On an invalid context both do nothing, as the specification has it. */
#include <stdatomic.h>

#include "base/state.h"
#include "base/status.h"
#include "node/enter.h"
#include "ops/rma.h"
#include "teams/ctx.h"
#include "transport/quiet.h"

int ishmemx_fence(ishmemx_ctx_t ctx) {
    int status, copies;

    PYSH_ENTER_CTX(ctx);
    status = pysh_quiet_rings();
    if (!status)
        status = pysh_order_transport();
    copies = pysh_quiet_copies();
    atomic_thread_fence(memory_order_seq_cst);
    return status ? status : copies;
}

int ishmemx_quiet(ishmemx_ctx_t ctx) {
    PYSH_ENTER_CTX(ctx);
    return pysh_quiet();
}

int ishmemx_pe_quiet(ishmemx_ctx_t ctx, const int *pes, size_t n_pes) {
    int world, status;

    PYSH_ENTER();
    if (!ctx || !n_pes)
        return ISHMEMX_OK;
    if (!pes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "there are no numbers of %zu PEs", n_pes);
    for (size_t i = 0; i < n_pes; i++)
        if ((status = pysh_ctx_pe(ctx, pes[i], &world)))
            return status;
    return pysh_quiet();
}
