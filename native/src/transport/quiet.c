/* SPDX-License-Identifier: BSD-3-Clause
 * See quiet.h. */
#include "transport/quiet.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "accel/accel.h"
#include "base/state.h"
#include "transport/transport.h"

static int (*_Atomic drain_rings)(void);
static _Atomic bool copies_started; /* by the copy engine, since quiet */

void pysh_quiet_copy_started(void) {
    atomic_store(&copies_started, true);
}

int ishmemx_outstanding(void) {
    return pysh.ready && (atomic_load_explicit(&copies_started, memory_order_relaxed) ||
                          (pysh.transport->outstanding && pysh.transport->outstanding()));
}

int ishmemx_is_quiet(void) {
    return pysh.ready && !atomic_load_explicit(&copies_started, memory_order_relaxed) &&
           !atomic_load_explicit(&drain_rings, memory_order_relaxed) && !pysh.transport->flush;
}

void pysh_quiet_set_rings(int (*drain)(void)) {
    atomic_store_explicit(&drain_rings, drain, memory_order_relaxed);
}

int pysh_quiet_rings(void) {
    int (*drain)(void) = atomic_load_explicit(&drain_rings, memory_order_relaxed);

    return drain ? drain() : ISHMEMX_OK;
}

/* What the copy engine started is ordered by completing it. */
int pysh_quiet_copies(void) {
    /* Before it completes them: one that starts meanwhile is seen. As a rule there was none, and a store that waits for
     * all others would be a tenth of a barrier. */
    if (atomic_load_explicit(&copies_started, memory_order_relaxed))
        atomic_store(&copies_started, false);
    return pysh.accel && !pysh.accel->cpu_visible ? pysh.accel->quiet() : ISHMEMX_OK;
}

int pysh_quiet(void) {
    int status = pysh_quiet_rings();
    int copies = pysh_quiet_copies();

    if (!status)
        status = pysh_quiet_transport();
    atomic_thread_fence(memory_order_seq_cst);
    return status ? status : copies;
}
