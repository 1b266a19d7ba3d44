/* SPDX-License-Identifier: BSD-3-Clause
 * What OpenSHMEM deprecates and still asks for: collectives on active sets, names of before 1.4. Included by shmem.h.
 */
#pragma once

#define SHMEM_SYNC_VALUE              0L
#define SHMEM_SYNC_SIZE               4
#define SHMEM_BARRIER_SYNC_SIZE       SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE         SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE       SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE        SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE      SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE     SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

#define _SHMEM_MAJOR_VERSION           SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION           SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN            SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING           SHMEM_VENDOR_STRING
#define _SHMEM_CMP_EQ                  SHMEM_CMP_EQ
#define _SHMEM_CMP_NE                  SHMEM_CMP_NE
#define _SHMEM_CMP_GT                  SHMEM_CMP_GT
#define _SHMEM_CMP_GE                  SHMEM_CMP_GE
#define _SHMEM_CMP_LT                  SHMEM_CMP_LT
#define _SHMEM_CMP_LE                  SHMEM_CMP_LE
#define _SHMEM_SYNC_VALUE              SHMEM_SYNC_VALUE
#define _SHMEM_SYNC_SIZE               SHMEM_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE       SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE         SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE       SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE        SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_ALLTOALL_SYNC_SIZE      SHMEM_ALLTOALL_SYNC_SIZE
#define _SHMEM_ALLTOALLS_SYNC_SIZE     SHMEM_ALLTOALLS_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE

/* ---- active sets ----------------------------------------------------------------------------- */

SHMEM_ROUTINE_(void, sync, int PE_start, int logPE_stride, int PE_size, long *pSync);
SHMEM_ROUTINE_(void, barrier, int PE_start, int logPE_stride, int PE_size, long *pSync);

#define SHMEM_SET_DATA_(_bits)                                                                                       \
    SHMEM_ROUTINE_(void, broadcast##_bits, void *dest, const void *source, size_t nelems, int PE_root, int PE_start, \
                   int logPE_stride, int PE_size, long *pSync);                                                      \
    SHMEM_ROUTINE_(void, collect##_bits, void *dest, const void *source, size_t nelems, int PE_start,                \
                   int logPE_stride, int PE_size, long *pSync);                                                      \
    SHMEM_ROUTINE_(void, fcollect##_bits, void *dest, const void *source, size_t nelems, int PE_start,               \
                   int logPE_stride, int PE_size, long *pSync);                                                      \
    SHMEM_ROUTINE_(void, alltoall##_bits, void *dest, const void *source, size_t nelems, int PE_start,               \
                   int logPE_stride, int PE_size, long *pSync);                                                      \
    SHMEM_ROUTINE_(void, alltoalls##_bits, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,             \
                   size_t nelems, int PE_start, int logPE_stride, int PE_size, long *pSync);
SHMEM_SET_DATA_(32)
SHMEM_SET_DATA_(64)

/* The types of these reductions: the bits, the order, the sums. */
#define SHMEM_SET_TYPES_T_(X_) X_(short, short) X_(int, int) X_(long, long) X_(longlong, long long)
#define SHMEM_SET_TYPES_M_(X_) SHMEM_SET_TYPES_T_(X_) X_(float, float) X_(double, double) X_(longdouble, long double)
#define SHMEM_SET_TYPES_S_(X_) SHMEM_SET_TYPES_M_(X_) X_(complexf, float _Complex) X_(complexd, double _Complex)
#define SHMEM_SET_REDUCE_(_stem, _ctype)                                                                \
    SHMEM_ROUTINE_(void, _stem##_to_all, _ctype *dest, const _ctype *source, int nreduce, int PE_start, \
                   int logPE_stride, int PE_size, _ctype *pWrk, long *pSync);
#define SHMEM_SET_BITS_(_name, _ctype) \
    SHMEM_SET_REDUCE_(_name##_and, _ctype) SHMEM_SET_REDUCE_(_name##_or, _ctype) SHMEM_SET_REDUCE_(_name##_xor, _ctype)
#define SHMEM_SET_ORDER_(_name, _ctype) SHMEM_SET_REDUCE_(_name##_max, _ctype) SHMEM_SET_REDUCE_(_name##_min, _ctype)
#define SHMEM_SET_SUMS_(_name, _ctype)  SHMEM_SET_REDUCE_(_name##_sum, _ctype) SHMEM_SET_REDUCE_(_name##_prod, _ctype)
SHMEM_SET_TYPES_T_(SHMEM_SET_BITS_)
SHMEM_SET_TYPES_M_(SHMEM_SET_ORDER_)
SHMEM_SET_TYPES_S_(SHMEM_SET_SUMS_)

/* ---- atomics and waits of before 1.4 ------------------------------------------------------------ */

#define SHMEM_OLD_INTEGERS_(X_) X_(int, int) X_(long, long) X_(longlong, long long)
#define SHMEM_OLD_NUMBERS_(X_)  SHMEM_OLD_INTEGERS_(X_) X_(float, float) X_(double, double)
#define SHMEM_OLD_EXTENDED_(_name, _ctype)                                 \
    SHMEM_ROUTINE_(_ctype, _name##_fetch, const _ctype *source, int pe);   \
    SHMEM_ROUTINE_(void, _name##_set, _ctype *dest, _ctype value, int pe); \
    SHMEM_ROUTINE_(_ctype, _name##_swap, _ctype *dest, _ctype value, int pe);
#define SHMEM_OLD_STANDARD_(_name, _ctype)                                                  \
    SHMEM_ROUTINE_(_ctype, _name##_cswap, _ctype *dest, _ctype cond, _ctype value, int pe); \
    SHMEM_ROUTINE_(_ctype, _name##_finc, _ctype *dest, int pe);                             \
    SHMEM_ROUTINE_(void, _name##_inc, _ctype *dest, int pe);                                \
    SHMEM_ROUTINE_(_ctype, _name##_fadd, _ctype *dest, _ctype value, int pe);               \
    SHMEM_ROUTINE_(void, _name##_add, _ctype *dest, _ctype value, int pe);                  \
    SHMEM_ROUTINE_(void, _name##_wait, _ctype *ivar, _ctype cmp_value);
SHMEM_OLD_NUMBERS_(SHMEM_OLD_EXTENDED_)
SHMEM_OLD_INTEGERS_(SHMEM_OLD_STANDARD_)
SHMEM_ROUTINE_(void, short_wait, short *ivar, short cmp_value);
SHMEM_ROUTINE_(void, wait, long *ivar, long cmp_value);
SHMEM_ROUTINE_(void, wait_until, long *ivar, int cmp, long cmp_value);

#define SHMEM_OLD_SHORTS_(X_) X_(short, short, ISHMEMX_TYPE_INT16) X_(ushort, unsigned short, ISHMEMX_TYPE_UINT16)
SHMEM_OLD_SHORTS_(SHMEM_WAIT_) /* sets too, as Sandia OpenSHMEM has them */

/* Memory is coherent: these do nothing. */
SHMEM_ROUTINE_(void, clear_cache_inv, void);
SHMEM_ROUTINE_(void, clear_cache_line_inv, void *dest);
SHMEM_ROUTINE_(void, set_cache_inv, void);
SHMEM_ROUTINE_(void, set_cache_line_inv, void *dest);
SHMEM_ROUTINE_(void, udcflush, void);
SHMEM_ROUTINE_(void, udcflush_line, void *dest);

/* ---- other names ------------------------------------------------------------------------------- */

ISHMEMX_API void start_pes(int npes);
ISHMEMX_API int _my_pe(void);
ISHMEMX_API int _num_pes(void);
ISHMEMX_API void *shmalloc(size_t nbytes);
ISHMEMX_API void *shrealloc(void *block, size_t nbytes);
ISHMEMX_API void *shmemalign(size_t alignment, size_t nbytes);
ISHMEMX_API void shfree(void *block);

#undef SHMEM_SET_DATA_
#undef SHMEM_SET_REDUCE_
#undef SHMEM_SET_BITS_
#undef SHMEM_SET_ORDER_
#undef SHMEM_SET_SUMS_
#undef SHMEM_OLD_EXTENDED_
#undef SHMEM_OLD_STANDARD_
#undef SHMEM_OLD_SHORT_
