/* SPDX-License-Identifier: BSD-3-Clause
 * Whether a public routine can go on. */
#include "node/enter.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/state.h"
#include "base/status.h"
#include "join/variables.h"
#include "node/node.h"
#include "node/wait.h"

static int last_pe = -1;   /* that this process has been in its latest job, for messages after finalize; -1: none */
static int forked_by = -1; /* the PE of which this process is a child of fork() */

void pysh_entered_first(void) {
    last_pe = pysh.pe;
}

const char *pysh_who(void) {
    static _Thread_local char text[32];
    int pe = pysh.pe >= 0 ? pysh.pe : last_pe >= 0 ? last_pe : pysh_launcher_pe();

    if (forked_by >= 0)
        snprintf(text, sizeof text, "a child of PE %d", forked_by);
    else if (pe >= 0)
        snprintf(text, sizeof text, "PE %d", pe);
    else
        return "before init";
    return text;
}

void pysh_entered_by_fork(int pe) {
    forked_by = pe;
}

bool pysh_is_forked(int status) {
    if (forked_by >= 0)
        pysh_fail(status,
                  "PE %d forked this process while its job ran; it is no PE, and only the process that called init can "
                  "call pyshmem: have this one return what that is to put",
                  forked_by);
    return forked_by >= 0;
}

static int not_ready(void) {
    if (atomic_load(&pysh.ready)) /* ending */
        return pysh_waits_to_the_end() ? ISHMEMX_OK
                                       : pysh_fail(ISHMEMX_ERR_STATE, "another thread is finalising pyshmem");
    if (pysh_is_forked(ISHMEMX_ERR_STATE))
        return ISHMEMX_ERR_STATE;
    return pysh_fail(ISHMEMX_ERR_STATE, last_pe >= 0
                                            ? "pyshmem is finalised, by finalize, or by the end of the `with` of init "
                                              "in Python: move the call before that, or initialise it again"
                                            : "pyshmem is not initialised; call init first");
}

int pysh_enter(void) {
    int status;

    if (__builtin_expect(atomic_load_explicit(&pysh.ready, memory_order_relaxed) != PYSH_READY, 0) &&
        (status = not_ready()))
        return status;
    if (pysh.fault && (__atomic_load_n(&pysh.fault[0].kind, __ATOMIC_RELAXED) |
                       __atomic_load_n(&pysh.fault[1].kind, __ATOMIC_RELAXED)))
        return pysh_fail(ISHMEMX_ERR_FAULT, "a kernel recorded a fault; ishmemx_fault_take() tells and clears it");
    if (atomic_load_explicit(pysh.alarm, memory_order_relaxed))
        return pysh_node.liveness();
    return ISHMEMX_OK;
}

int ishmemx_initialized(void) {
    return atomic_load(&pysh.ready) == PYSH_READY;
}

int ishmemx_my_pe(void) {
    return pysh.ready ? pysh.pe : -1;
}

int ishmemx_n_pes(void) {
    return pysh.ready ? pysh.n_pes : -1;
}
