/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: wait and test, on one element and on many. */
#include <stdint.h>

#include "api/shell.h"
#include "ishmemx.h"
#include "ops/look.h"

#define ONE(_name, _ctype, _type)                                                \
    ROUTINE(void, _name##_wait_until, _ctype *ivar, int cmp, _ctype cmp_value) { \
        SHELL(ishmemx_wait_until(_type, ivar, cmp, TO_BITS(cmp_value), NULL));   \
    }                                                                            \
    ROUTINE(int, _name##_test, _ctype *ivar, int cmp, _ctype cmp_value) {        \
        int holds;                                                               \
        SHELL(pysh_test(_type, ivar, cmp, TO_BITS(cmp_value), &holds));          \
        return holds;                                                            \
    }

/* _tail and _vector tell the forms with a value an element; _values is where the values are. */
#define MANY(_name, _tail, _vector, _ctype, _type, _parameter, _values)                                               \
    ROUTINE(void, _name##_wait_until_all##_tail, _ctype *ivars, size_t nelems, const int *status, int cmp,            \
            _parameter) {                                                                                             \
        SHELL(ishmemx_wait_until_all(_type, ivars, nelems, status, cmp, _values, _vector));                           \
    }                                                                                                                 \
    ROUTINE(size_t, _name##_wait_until_any##_tail, _ctype *ivars, size_t nelems, const int *status, int cmp,          \
            _parameter) {                                                                                             \
        size_t index;                                                                                                 \
        SHELL(ishmemx_wait_until_any(_type, ivars, nelems, status, cmp, _values, _vector, &index));                   \
        return index;                                                                                                 \
    }                                                                                                                 \
    ROUTINE(size_t, _name##_wait_until_some##_tail, _ctype *ivars, size_t nelems, size_t *indices, const int *status, \
            int cmp, _parameter) {                                                                                    \
        size_t found;                                                                                                 \
        SHELL(ishmemx_wait_until_some(_type, ivars, nelems, indices, status, cmp, _values, _vector, &found));         \
        return found;                                                                                                 \
    }                                                                                                                 \
    ROUTINE(int, _name##_test_all##_tail, _ctype *ivars, size_t nelems, const int *status, int cmp, _parameter) {     \
        int holds;                                                                                                    \
        SHELL(ishmemx_test_all(_type, ivars, nelems, status, cmp, _values, _vector, &holds));                         \
        return holds;                                                                                                 \
    }                                                                                                                 \
    ROUTINE(size_t, _name##_test_any##_tail, _ctype *ivars, size_t nelems, const int *status, int cmp, _parameter) {  \
        size_t index;                                                                                                 \
        SHELL(ishmemx_test_any(_type, ivars, nelems, status, cmp, _values, _vector, &index));                         \
        return index;                                                                                                 \
    }                                                                                                                 \
    ROUTINE(size_t, _name##_test_some##_tail, _ctype *ivars, size_t nelems, size_t *indices, const int *status,       \
            int cmp, _parameter) {                                                                                    \
        size_t found;                                                                                                 \
        SHELL(ishmemx_test_some(_type, ivars, nelems, indices, status, cmp, _values, _vector, &found));               \
        return found;                                                                                                 \
    }

#define WAIT(_name, _ctype, _type)                                \
    ONE(_name, _ctype, _type)                                     \
    MANY(_name, , 0, _ctype, _type, _ctype cmp_value, &cmp_value) \
    MANY(_name, _vector, 1, _ctype, _type, const _ctype *cmp_values, cmp_values)
SHMEM_TYPENAMES_A(WAIT)
SHMEM_OLD_SHORTS_(WAIT)

ROUTINE(uint64_t, signal_wait_until, uint64_t *sig_addr, int cmp, uint64_t cmp_value) {
    uint64_t seen = 0;

    SHELL(ishmemx_signal_wait_until(sig_addr, cmp, cmp_value, &seen));
    return seen;
}
