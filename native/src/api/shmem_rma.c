/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: put, get, p, g, their strided forms; typed, sized and in bytes. */
#include <stdint.h>

#include "api/shell.h"
#include "ishmemx.h"

#define COPY(_stem, _ctype, _width, _core)                                          \
    BOTH(void, _stem, (_ctype * dest, const _ctype *source, size_t nelems, int pe), \
         SHELL(_core(ctx, dest, source, pysh_shell_nbytes(nelems, _width), pe)))

#define RMA(_put, _get, _ctype, _width)               \
    COPY(_put, _ctype, _width, ishmemx_put)           \
    COPY(_put##_nbi, _ctype, _width, ishmemx_put_nbi) \
    COPY(_get, _ctype, _width, ishmemx_get)           \
    COPY(_get##_nbi, _ctype, _width, ishmemx_get_nbi)

#define STRIDED(_name, _verb, _bits, _ctype, _width)                                                                \
    BOTH(void, _name##i##_verb##_bits,                                                                              \
         (_ctype * dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),                \
         SHELL(ishmemx_i##_verb(ctx, dest, source, dst, sst, 1, nelems, _width, pe)))                               \
    BOTH(void, _name##ib##_verb##_bits,                                                                             \
         (_ctype * dest, const _ctype *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe), \
         SHELL(ishmemx_i##_verb(ctx, dest, source, dst, sst, bsize, nblocks, _width, pe)))

#define TYPED(_name, _ctype, _type)                                       \
    RMA(_name##_put, _name##_get, _ctype, sizeof(_ctype))                 \
    STRIDED(_name##_, put, , _ctype, sizeof(_ctype))                      \
    STRIDED(_name##_, get, , _ctype, sizeof(_ctype))                      \
    BOTH(void, _name##_p, (_ctype * dest, _ctype value, int pe),          \
         SHELL(ishmemx_put(ctx, dest, &value, sizeof value, pe)))         \
    BOTH(_ctype, _name##_g, (const _ctype *source, int pe), _ctype value; \
         SHELL(ishmemx_get(ctx, &value, source, sizeof value, pe)); return value)
SHMEM_TYPENAMES_R(TYPED)

#define SIZED(_bits)                             \
    RMA(put##_bits, get##_bits, void, _bits / 8) \
    STRIDED(, put, _bits, void, _bits / 8)       \
    STRIDED(, get, _bits, void, _bits / 8)
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
SIZED(128)
RMA(putmem, getmem, void, 1)
