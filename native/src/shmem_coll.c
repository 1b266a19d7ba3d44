/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: broadcast, fcollect and reductions. */
#include "shell.h"

#define COLLECT(_name, _ctype, _type)                                                                                  \
    int shmem_##_name##_broadcast(shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems, int PE_root) { \
        return ishmemx_broadcast(team, dest, source, pysh_shell_nbytes(nelems, sizeof(_ctype)), PE_root);              \
    }                                                                                                                  \
    int shmem_##_name##_fcollect(shmem_team_t team, _ctype *dest, const _ctype *source, size_t nelems) {               \
        return ishmemx_fcollect(team, dest, source, pysh_shell_nbytes(nelems, sizeof(_ctype)));                        \
    }
SHMEM_TYPENAMES_R(COLLECT)

int shmem_broadcastmem(shmem_team_t team, void *dest, const void *source, size_t nelems, int PE_root) {
    return ishmemx_broadcast(team, dest, source, nelems, PE_root);
}

int shmem_fcollectmem(shmem_team_t team, void *dest, const void *source, size_t nelems) {
    return ishmemx_fcollect(team, dest, source, nelems);
}

#define REDUCE(_name, _verb, _op, _ctype, _type)                                                                  \
    int shmem_##_name##_##_verb##_reduce(shmem_team_t team, _ctype *dest, const _ctype *source, size_t nreduce) { \
        return ishmemx_reduce(team, ISHMEMX_REDUCE_##_op, _type, dest, source, nreduce);                          \
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
SHMEM_TYPENAMES_M(REDUCE_ORDER)
SHMEM_TYPENAMES_S(REDUCE_ARITHMETIC)
