/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: put, get, p, g, put with signal, typed, sized and in bytes. */
#include "shell.h"

#define COPY(_stem, _ctype, _width, _core)                                          \
    BOTH(void, _stem, (_ctype * dest, const _ctype *source, size_t nelems, int pe), \
         SHELL(_core(ctx, dest, source, pysh_shell_nbytes(nelems, _width), pe)))

#define PUT_SIGNAL(_stem, _ctype, _width, _core)                                                                       \
    BOTH(                                                                                                              \
        void, _stem,                                                                                                   \
        (_ctype * dest, const _ctype *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe), \
        SHELL(_core(ctx, dest, source, pysh_shell_nbytes(nelems, _width), sig_addr, signal, sig_op, pe)))

#define RMA(_put, _get, _ctype, _width)                           \
    COPY(_put, _ctype, _width, ishmemx_put)                       \
    COPY(_put##_nbi, _ctype, _width, ishmemx_put_nbi)             \
    COPY(_get, _ctype, _width, ishmemx_get)                       \
    COPY(_get##_nbi, _ctype, _width, ishmemx_get_nbi)             \
    PUT_SIGNAL(_put##_signal, _ctype, _width, ishmemx_put_signal) \
    PUT_SIGNAL(_put##_signal_nbi, _ctype, _width, ishmemx_put_signal_nbi)

#define TYPED(_name, _ctype, _type)                                       \
    RMA(_name##_put, _name##_get, _ctype, sizeof(_ctype))                 \
    BOTH(void, _name##_p, (_ctype * dest, _ctype value, int pe),          \
         SHELL(ishmemx_put(ctx, dest, &value, sizeof value, pe)))         \
    BOTH(_ctype, _name##_g, (const _ctype *source, int pe), _ctype value; \
         SHELL(ishmemx_get(ctx, &value, source, sizeof value, pe)); return value)
SHMEM_TYPENAMES_R(TYPED)

RMA(put8, get8, void, 1)
RMA(put16, get16, void, 2)
RMA(put32, get32, void, 4)
RMA(put64, get64, void, 8)
RMA(put128, get128, void, 16)
RMA(putmem, getmem, void, 1)

uint64_t shmem_signal_fetch(const uint64_t *sig_addr) {
    uint64_t value;

    SHELL(ishmemx_signal_fetch(sig_addr, &value));
    return value;
}
