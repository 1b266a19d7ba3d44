/* SPDX-License-Identifier: BSD-3-Clause
 * Signals: a 64-bit word that is set or added to once the data that goes with it has arrived. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "node/enter.h"
#include "node/polls.h"
#include "ops/amo.h"
#include "ops/rma.h"
#include "ops/wait_until.h"
#include "transport/quiet.h"

static int sig_op_check(int sig_op) {
    if (sig_op == ISHMEMX_SIGNAL_SET || sig_op == ISHMEMX_SIGNAL_ADD)
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_ARGUMENT, "sig_op is %d, neither SIGNAL_SET (%d) nor SIGNAL_ADD (%d)", sig_op,
                     ISHMEMX_SIGNAL_SET, ISHMEMX_SIGNAL_ADD);
}

/* Everything that can be wrong with a signal, found before any data moves. */
static int signal_check(const uint64_t *sig_addr, int sig_op, int pe) {
    char *peer;
    int heap;
    int status = pysh_peer_address(sig_addr, sizeof *sig_addr, pe, "sig_addr", &peer, &heap);

    if (!status)
        status = pysh_type_check_aligned(ISHMEMX_TYPE_UINT64, sig_addr, "sig_addr");
    return status ? status : sig_op_check(sig_op);
}

/* The atomic is sequentially consistent, so also a release: it pairs with the acquire at the end of
 * ishmemx_wait_until() and in ishmemx_signal_fetch(), which makes the data visible there. */
static int signal_send(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe) {
    int op = sig_op == ISHMEMX_SIGNAL_SET ? ISHMEMX_ATOMIC_SET : ISHMEMX_ATOMIC_ADD;

    return pysh_amo(op, ISHMEMX_TYPE_UINT64, sig_addr, signal, 0, pe, "sig_addr", NULL);
}

static int signal_put_signal(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, uint64_t *sig_addr,
                             uint64_t signal, int sig_op, int pe) {
    int world = 0;
    int status = pysh_ctx_pe(ctx, pe, &world);

    if (!status)
        status = signal_check(sig_addr, sig_op, world);
    if (!status && pysh.check)
        status = pysh_check_overlap_of(dest, nbytes, "sig_addr", sig_addr, sizeof *sig_addr, 0, NULL);
    if (!status)
        status = pysh_put(dest, source, nbytes, world);
    if (!status && nbytes) /* the data may still be on its way to a PE not mapped */
        status = pysh_order_transport();
    return status ? status : signal_send(sig_addr, signal, sig_op, world);
}

int ishmemx_put_signal(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, uint64_t *sig_addr,
                       uint64_t signal, int sig_op, int pe) {
    PYSH_ENTER();
    return signal_put_signal(ctx, dest, source, nbytes, sig_addr, signal, sig_op, pe);
}

/* Completes the data before it signals, which non-blocking allows. */
int ishmemx_put_signal_nbi(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, uint64_t *sig_addr,
                           uint64_t signal, int sig_op, int pe) {
    PYSH_ENTER();
    return signal_put_signal(ctx, dest, source, nbytes, sig_addr, signal, sig_op, pe);
}

int ishmemx_signal_op(ishmemx_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe) {
    int world = 0, status;

    PYSH_ENTER();
    status = pysh_ctx_pe(ctx, pe, &world);
    if (!status)
        status = sig_op_check(sig_op);
    return status ? status : signal_send(sig_addr, signal, sig_op, world); /* which looks at the word itself */
}

static void signal_describe(const void *of, char *text, size_t capacity) {
    snprintf(text, capacity, "seen %" PRIu64, *(const uint64_t *)of);
}

int ishmemx_signal_fetch(const uint64_t *sig_addr, uint64_t *value) {
    int status;

    PYSH_ENTER();
    status = pysh_load_own(ISHMEMX_TYPE_UINT64, sig_addr, "sig_addr", value);
    if (!status && pysh_poll_due(PYSH_POLL_TEST))
        pysh_polled("signal_fetch", *value, (pysh_wait_aim_t){signal_describe, value});
    return status;
}
