/* SPDX-License-Identifier: BSD-3-Clause
 * Atomic memory operations. Values are bits in a uint64_t; those of 4-byte types are the low half. */
#include "ops/amo.h"

#include <stdint.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/copy.h"
#include "am/am.h"
#include "base/cpu_amo.h"
#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "node/enter.h"
#include "node/polls.h"
#include "node/wait.h"
#include "ops/amo_by_owner.h"
#include "ops/rma.h"
#include "transport/transport.h"

static int ops_amo(int op, int type, char *dest, uint64_t value, uint64_t cond, int pe, char *peer, int heap,
                   uint64_t *fetched_p) {
    uint64_t old;

    if (!peer && pysh_goes_by_am(heap, pe))
        return pysh_am_amo(heap, op, type, dest - pysh.arena[heap].base, value, cond, pe, fetched_p);
    if (pysh_amo_is_by_owner(op, heap, pe))
        return pysh_amo_by_owner(op, type, dest - pysh.arena[heap].base, value, cond, pe, pysh_amo_name(op), fetched_p);
    if (!peer)
        return pysh.transport->amo(heap, op, type, dest - pysh.arena[heap].base, value, cond, pe, fetched_p);
    if (!pysh.arena[heap].cpu_visible)
        return pysh.accel->amo(op, type, peer, value, cond, fetched_p);
    old = pysh_amo_apply(op, type, peer, value, cond);
    if (op != ISHMEMX_ATOMIC_FETCH)
        pysh_wake(pe);
    if (fetched_p)
        *fetched_p = old;
    return ISHMEMX_OK;
}

int pysh_amo(int op, int type, void *dest, uint64_t value, uint64_t cond, int pe, const char *what,
             uint64_t *fetched_p) {
    char *peer;
    int heap, status = pysh_peer_address(dest, pysh_type_nbytes(type), pe, what, &peer, &heap);

    if (!status)
        status = pysh_type_check_aligned(type, dest, what);
    return status ? status : ops_amo(op, type, dest, value, cond, pe, peer, heap, fetched_p);
}

int pysh_own_amo(int op, int type, void *dest, uint64_t value, uint64_t cond, int pe, const char *what,
                 uint64_t *fetched_p) {
    char *peer;
    int heap, status = pysh_own_peer_address(dest, pysh_type_nbytes(type), pe, what, &peer, &heap);

    if (!status)
        status = pysh_type_check_aligned(type, dest, what);
    return status ? status : ops_amo(op, type, dest, value, cond, pe, peer, heap, fetched_p);
}

int ishmemx_atomic(ishmemx_ctx_t ctx, int op, int type, void *dest, uint64_t value, uint64_t cond, int pe,
                   uint64_t *fetched) {
    int world = 0, status;

    PYSH_ENTER();
    status = pysh_amo_check(op, type);
    if (!status)
        status = pysh_ctx_pe(ctx, pe, &world);
    if (!status)
        status = pysh_amo(op, type, dest, value, cond, world, "dest", fetched);
    if (fetched && !status && pysh_poll_due(PYSH_POLL_READ))
        pysh_polled_read("atomics", dest, world, *fetched);
    return status;
}

/* Complete at once, which non-blocking allows. */
int ishmemx_atomic_nbi(ishmemx_ctx_t ctx, int op, int type, void *fetch, void *dest, uint64_t value, uint64_t cond,
                       int pe) {
    uint64_t old = 0;
    int status = ishmemx_atomic(ctx, op, type, dest, value, cond, pe, &old);

    return status ? status : pysh_copy(fetch, &old, pysh_type_nbytes(type));
}
