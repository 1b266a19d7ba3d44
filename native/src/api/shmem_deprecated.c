/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: deprecated routines. */
#include <stdint.h>

#include "api/shell.h"
#include "base/status.h"
#include "collectives/active_set.h"
#include "ishmemx.h"

#undef shmem_sync /* generic in C11 */
#undef shmem_wait_until
#undef shmem_wait

_Static_assert(PYSH_SET_SYNC_WORDS <= SHMEM_SYNC_SIZE, "pSync has the words that a set needs");

/* ---- active sets; pWrk is not needed ---- */

#define SET      const pysh_set_t set = {PE_start, logPE_stride, PE_size, pSync}
#define SET_ARGS int PE_start, int logPE_stride, int PE_size, long *pSync

ROUTINE(void, sync, SET_ARGS) {
    SET;
    SHELL(pysh_set_sync(&set));
}

ROUTINE(void, barrier, SET_ARGS) {
    SET;
    SHELL(ishmemx_quiet(SHMEM_CTX_DEFAULT));
    SHELL(pysh_set_sync(&set));
}

#define DATA(_bits)                                                                                              \
    ROUTINE(void, broadcast##_bits, void *dest, const void *source, size_t nelems, int PE_root, SET_ARGS) {      \
        SET;                                                                                                     \
        SHELL(pysh_set_broadcast(&set, dest, source, pysh_shell_nbytes(nelems, _bits / 8), PE_root));            \
    }                                                                                                            \
    ROUTINE(void, collect##_bits, void *dest, const void *source, size_t nelems, SET_ARGS) {                     \
        SET;                                                                                                     \
        SHELL(pysh_set_collect(&set, dest, source, pysh_shell_nbytes(nelems, _bits / 8)));                       \
    }                                                                                                            \
    ROUTINE(void, fcollect##_bits, void *dest, const void *source, size_t nelems, SET_ARGS) {                    \
        SET;                                                                                                     \
        SHELL(pysh_set_fcollect(&set, dest, source, pysh_shell_nbytes(nelems, _bits / 8)));                      \
    }                                                                                                            \
    ROUTINE(void, alltoall##_bits, void *dest, const void *source, size_t nelems, SET_ARGS) {                    \
        SET;                                                                                                     \
        SHELL(pysh_set_alltoalls(&set, dest, source, 1, 1, nelems, _bits / 8));                                  \
    }                                                                                                            \
    ROUTINE(void, alltoalls##_bits, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
            SET_ARGS) {                                                                                          \
        SET;                                                                                                     \
        SHELL(pysh_set_alltoalls(&set, dest, source, dst, sst, nelems, _bits / 8));                              \
    }
DATA(32)
DATA(64)

#define TYPE_short      ISHMEMX_TYPE_OF(short)
#define TYPE_int        ISHMEMX_TYPE_OF(int)
#define TYPE_long       ISHMEMX_TYPE_OF(long)
#define TYPE_longlong   ISHMEMX_TYPE_OF(long long)
#define TYPE_float      ISHMEMX_TYPE_FLOAT
#define TYPE_double     ISHMEMX_TYPE_DOUBLE
#define TYPE_longdouble ISHMEMX_TYPE_LONGDOUBLE
#define TYPE_complexf   ISHMEMX_TYPE_COMPLEXF
#define TYPE_complexd   ISHMEMX_TYPE_COMPLEXD

#define REDUCE(_name, _verb, _op, _ctype)                                                                              \
    ROUTINE(void, _name##_##_verb##_to_all, _ctype *dest, const _ctype *source, int nreduce, int PE_start,             \
            int logPE_stride, int PE_size, _ctype *pWrk, long *pSync) {                                                \
        SET;                                                                                                           \
        (void)pWrk;                                                                                                    \
        SHELL(nreduce < 0 ? pysh_fail(ISHMEMX_ERR_ARGUMENT, "nreduce is %d, not at least 0", nreduce)                  \
                          : pysh_set_reduce(&set, ISHMEMX_REDUCE_##_op, TYPE_##_name, dest, source, (size_t)nreduce)); \
    }
#define BITS(_name, _ctype) \
    REDUCE(_name, and, AND, _ctype) REDUCE(_name, or, OR, _ctype) REDUCE(_name, xor, XOR, _ctype)
#define ORDER(_name, _ctype) REDUCE(_name, max, MAX, _ctype) REDUCE(_name, min, MIN, _ctype)
#define SUMS(_name, _ctype)  REDUCE(_name, sum, SUM, _ctype) REDUCE(_name, prod, PROD, _ctype)
SHMEM_SET_TYPES_T_(BITS)
SHMEM_SET_TYPES_M_(ORDER)
SHMEM_SET_TYPES_S_(SUMS)

/* ---- atomics and waits ---- */

#define UPDATE(_op, _name, _value, _pe) \
    SHELL(ishmemx_atomic(SHMEM_CTX_DEFAULT, ISHMEMX_ATOMIC_##_op, TYPE_##_name, dest, _value, 0, _pe, NULL))
#define FETCH(_op, _name, _ctype, _dest, _value, _cond)                                                           \
    uint64_t old = 0;                                                                                             \
    _ctype fetched;                                                                                               \
    SHELL(ishmemx_atomic(SHMEM_CTX_DEFAULT, ISHMEMX_ATOMIC_##_op, TYPE_##_name, (void *)_dest, _value, _cond, pe, \
                         &old));                                                                                  \
    memcpy(&fetched, &old, sizeof fetched);                                                                       \
    return fetched

#define EXTENDED(_name, _ctype)                                         \
    ROUTINE(_ctype, _name##_fetch, const _ctype *source, int pe) {      \
        FETCH(FETCH, _name, _ctype, source, 0, 0);                      \
    }                                                                   \
    ROUTINE(void, _name##_set, _ctype *dest, _ctype value, int pe) {    \
        UPDATE(SET, _name, TO_BITS(value), pe);                         \
    }                                                                   \
    ROUTINE(_ctype, _name##_swap, _ctype *dest, _ctype value, int pe) { \
        FETCH(SWAP, _name, _ctype, dest, TO_BITS(value), 0);            \
    }
SHMEM_OLD_NUMBERS_(EXTENDED)

#define STANDARD(_name, _ctype)                                                                \
    ROUTINE(_ctype, _name##_cswap, _ctype *dest, _ctype cond, _ctype value, int pe) {          \
        FETCH(COMPARE_SWAP, _name, _ctype, dest, TO_BITS(value), TO_BITS(cond));               \
    }                                                                                          \
    ROUTINE(_ctype, _name##_finc, _ctype *dest, int pe) {                                      \
        FETCH(ADD, _name, _ctype, dest, 1, 0);                                                 \
    }                                                                                          \
    ROUTINE(void, _name##_inc, _ctype *dest, int pe) {                                         \
        UPDATE(ADD, _name, 1, pe);                                                             \
    }                                                                                          \
    ROUTINE(_ctype, _name##_fadd, _ctype *dest, _ctype value, int pe) {                        \
        FETCH(ADD, _name, _ctype, dest, TO_BITS(value), 0);                                    \
    }                                                                                          \
    ROUTINE(void, _name##_add, _ctype *dest, _ctype value, int pe) {                           \
        UPDATE(ADD, _name, TO_BITS(value), pe);                                                \
    }                                                                                          \
    ROUTINE(void, _name##_wait, _ctype *ivar, _ctype cmp_value) {                              \
        SHELL(ishmemx_wait_until(TYPE_##_name, ivar, SHMEM_CMP_NE, TO_BITS(cmp_value), NULL)); \
    }
SHMEM_OLD_INTEGERS_(STANDARD)

ROUTINE(void, short_wait, short *ivar, short cmp_value) {
    SHELL(ishmemx_wait_until(TYPE_short, ivar, SHMEM_CMP_NE, TO_BITS(cmp_value), NULL));
}

ROUTINE(void, wait, long *ivar, long cmp_value) {
    SHELL(ishmemx_wait_until(TYPE_long, ivar, SHMEM_CMP_NE, TO_BITS(cmp_value), NULL));
}

ROUTINE(void, wait_until, long *ivar, int cmp, long cmp_value) {
    SHELL(ishmemx_wait_until(TYPE_long, ivar, cmp, TO_BITS(cmp_value), NULL));
}

/* ---- caches ---- */

ROUTINE(void, clear_cache_inv, void) {}

ROUTINE(void, set_cache_inv, void) {}

ROUTINE(void, udcflush, void) {}

ROUTINE(void, clear_cache_line_inv, void *dest) {
    (void)dest;
}

ROUTINE(void, set_cache_line_inv, void *dest) {
    (void)dest;
}

ROUTINE(void, udcflush_line, void *dest) {
    (void)dest;
}

/* ---- names of before 1.2 ---- */

void start_pes(int npes) {
    (void)npes;
    shmem_init();
}

int _my_pe(void) {
    return shmem_my_pe();
}

int _num_pes(void) {
    return shmem_n_pes();
}

void *shmalloc(size_t nbytes) {
    return shmem_malloc(nbytes);
}

void *shrealloc(void *block, size_t nbytes) {
    return shmem_realloc(block, nbytes);
}

void *shmemalign(size_t alignment, size_t nbytes) {
    return shmem_align(alignment, nbytes);
}

void shfree(void *block) {
    shmem_free(block);
}
