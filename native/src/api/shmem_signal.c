/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: put with signal, typed, sized and in bytes, and signals alone. */
#include <stdint.h>

#include "api/shell.h"
#include "ishmemx.h"

#define PUT_SIGNAL(_stem, _ctype, _width, _core)                                                                       \
    BOTH(                                                                                                              \
        void, _stem,                                                                                                   \
        (_ctype * dest, const _ctype *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe), \
        SHELL(_core(ctx, dest, source, pysh_shell_nbytes(nelems, _width), sig_addr, signal, sig_op, pe)))

#define PUT_SIGNALS(_put, _ctype, _width)                         \
    PUT_SIGNAL(_put##_signal, _ctype, _width, ishmemx_put_signal) \
    PUT_SIGNAL(_put##_signal_nbi, _ctype, _width, ishmemx_put_signal_nbi)

#define TYPED(_name, _ctype, _type) PUT_SIGNALS(_name##_put, _ctype, sizeof(_ctype))
SHMEM_TYPENAMES_R(TYPED)
PUT_SIGNALS(put8, void, 1)
PUT_SIGNALS(put16, void, 2)
PUT_SIGNALS(put32, void, 4)
PUT_SIGNALS(put64, void, 8)
PUT_SIGNALS(put128, void, 16)
PUT_SIGNALS(putmem, void, 1)

BOTH(void, signal_set, (uint64_t *sig_addr, uint64_t signal, int pe),
     SHELL(ishmemx_signal_op(ctx, sig_addr, signal, ISHMEMX_SIGNAL_SET, pe)))
BOTH(void, signal_add, (uint64_t *sig_addr, uint64_t signal, int pe),
     SHELL(ishmemx_signal_op(ctx, sig_addr, signal, ISHMEMX_SIGNAL_ADD, pe)))

ROUTINE(uint64_t, signal_fetch, const uint64_t *sig_addr) {
    uint64_t value;

    SHELL(ishmemx_signal_fetch(sig_addr, &value));
    return value;
}
