/* SPDX-License-Identifier: BSD-3-Clause */
#include "agree/shared_memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"
#include "ishmemx.h"
#include "node/control.h"

static struct {
    pysh_control_t *control;
    int pe;
    unsigned named; /* plain barriers that have told their routine */
} own;

/* Each PE publishes, all pass the barrier, each reads. Which buffer, and why one barrier is enough: see
 * pysh_control_slot_t. */
static int shm_exchange(const char *what, const void *mine, void *all, size_t nbytes) {
    pysh_control_t *control = own.control;
    int pe = own.pe;
    uint32_t epoch = pysh_shm_epochs(control, pe) + 1; /* the one that the barrier ends; a fresh slot says 0 */
    pysh_exchange_t *exchange = &control->slot[pe].exchange[epoch & 1];
    int status;

    if (nbytes > sizeof exchange->bytes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: exchange of %zu bytes, more than %zu", what, nbytes,
                         sizeof exchange->bytes);
    pysh_exchange_begin(exchange, epoch, what, mine, nbytes);
    if ((status = pysh_shm_arrive(control, pe, what, PYSH_ARRIVAL + PYSH_EXCHANGE, NULL)))
        return status;
    for (int peer = 0; peer < control->n_pes; peer++) {
        exchange = &control->slot[peer].exchange[epoch & 1];
        if (exchange->epoch != epoch || exchange->nbytes != nbytes)
            return pysh_exchange_mismatch(exchange, epoch, what, pe, peer);
        memcpy((char *)all + (size_t)peer * nbytes, exchange->bytes, nbytes);
    }
    return ISHMEMX_OK;
}

/* The first plain barriers tell their routine, as the first collectives their arguments: PEs that meet in different
 * routines hear of both on all sides. The buffer is that of an exchange in the same epoch, and kept as long. */
static int barrier(const char *what, bool mine, bool *all_p) {
    pysh_control_t *control = own.control;

    if (pysh.check || own.named < pysh.check_first) {
        uint32_t epoch = pysh_shm_epochs(control, own.pe) + 1;
        pysh_exchange_name_barrier(&control->slot[own.pe].exchange[epoch & 1], epoch, what);
        own.named++;
    }
    return pysh_shm_arrive(own.control, own.pe, what, PYSH_ARRIVAL + (mine ? PYSH_VOTE : 0), all_p);
}

void pysh_shm_agree(pysh_control_t *control, int pe) {
    own.control = control;
    own.pe = pe;
    own.named = 0;
}

const pysh_agree_t pysh_agree_shm = {.exchange = shm_exchange, .barrier = barrier};
