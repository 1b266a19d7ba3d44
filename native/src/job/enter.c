/* SPDX-License-Identifier: BSD-3-Clause
 * Whether a public routine can go on. */
#include "job/enter.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/state.h"
#include "base/status.h"
#include "conduit/conduit.h"

static bool was_ready; /* for the message after finalize */

void pysh_entered_first(void) {
    was_ready = true;
}

int pysh_enter(void) {
    if (!pysh.ready)
        return pysh_fail(ISHMEMX_ERR_STATE, was_ready ? "pyshmem is finalised; initialise it again to go on"
                                                      : "pyshmem is not initialised; call init first");
    if (pysh.fault && (__atomic_load_n(&pysh.fault[0].kind, __ATOMIC_RELAXED) |
                       __atomic_load_n(&pysh.fault[1].kind, __ATOMIC_RELAXED)))
        return pysh_fail(ISHMEMX_ERR_FAULT, "a kernel recorded a fault; ishmemx_fault_take() tells and clears it");
    if (atomic_load_explicit(pysh.alarm, memory_order_relaxed))
        return pysh.conduit->liveness();
    return ISHMEMX_OK;
}

int ishmemx_initialized(void) {
    return pysh.ready;
}

int ishmemx_my_pe(void) {
    return pysh.ready ? pysh.pe : -1;
}

int ishmemx_n_pes(void) {
    return pysh.ready ? pysh.n_pes : -1;
}
