/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: collectives. */
#include <stdint.h>

#include "api/shell.h"
#include "ishmemx.h"

#define DATA(_name, _mem, _ctype, _width)                                                                       \
    ROUTINE(int, _name##broadcast##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems,  \
            int PE_root) {                                                                                      \
        TELL(ishmemx_broadcast(team, dest, source, pysh_shell_nbytes(nelems, _width), PE_root));                \
    }                                                                                                           \
    ROUTINE(int, _name##collect##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems) {  \
        TELL(ishmemx_collect(team, dest, SIZE_MAX, source, pysh_shell_nbytes(nelems, _width)));                 \
    }                                                                                                           \
    ROUTINE(int, _name##fcollect##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems) { \
        TELL(ishmemx_fcollect(team, dest, source, pysh_shell_nbytes(nelems, _width)));                          \
    }                                                                                                           \
    ROUTINE(int, _name##alltoall##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems) { \
        TELL(ishmemx_alltoall(team, dest, source, pysh_shell_nbytes(nelems, _width)));                          \
    }                                                                                                           \
    ROUTINE(int, _name##alltoalls##_mem, shmem_team_t team, _ctype *dest, const _ctype *source, ptrdiff_t dst,  \
            ptrdiff_t sst, size_t nelems) {                                                                     \
        TELL(ishmemx_alltoalls(team, dest, source, dst, sst, nelems, _width));                                  \
    }
#define TYPED(_name, _ctype, _type) DATA(_name##_, , _ctype, sizeof(_ctype))
SHMEM_TYPENAMES_R(TYPED)
DATA(, mem, void, 1)

#define REDUCE(_name, _verb, _op, _ctype, _type)                                                                    \
    ROUTINE(int, _name##_##_verb##_reduce, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nreduce) { \
        TELL(ishmemx_reduce(team, ISHMEMX_REDUCE_##_op, _type, dest, source, nreduce));                             \
    }
#define REDUCE_BITWISE(_name, _ctype, _type) \
    REDUCE(_name, and, AND, _ctype, _type)   \
    REDUCE(_name, or, OR, _ctype, _type)     \
    REDUCE(_name, xor, XOR, _ctype, _type)
#define REDUCE_ORDER(_name, _ctype, _type) \
    REDUCE(_name, max, MAX, _ctype, _type) \
    REDUCE(_name, min, MIN, _ctype, _type)
#define REDUCE_ARITHMETIC(_name, _ctype, _type) \
    REDUCE(_name, sum, SUM, _ctype, _type)      \
    REDUCE(_name, prod, PROD, _ctype, _type)
SHMEM_TYPENAMES_T(REDUCE_BITWISE)
REDUCE_BITWISE(longlong, long long, ISHMEMX_TYPE_OF(long long))
SHMEM_TYPENAMES_M(REDUCE_ORDER)
SHMEM_TYPENAMES_S(REDUCE_ARITHMETIC)

#define SCANS(_name, _ctype, _type)                                                                          \
    ROUTINE(int, _name##_sum_inscan, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems) { \
        TELL(ishmemx_sum_scan(team, 0, _type, dest, source, nelems));                                        \
    }                                                                                                        \
    ROUTINE(int, _name##_sum_exscan, shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems) { \
        TELL(ishmemx_sum_scan(team, 1, _type, dest, source, nelems));                                        \
    }
SHMEM_TYPENAMES_S(SCANS)
