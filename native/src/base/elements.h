/* SPDX-License-Identifier: BSD-3-Clause
 * The elements of pyshmem/_core/type_table.py as C sees them: numbers by name, families as bit masks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ishmemx.h"
#include "shmem_types.h"

/* PYSH_TYPE_int32 and so on: the same numbers as ISHMEMX_TYPE_INT32, in a form that macros can paste. */
enum pysh_type {
#define PYSH_X(_name, _ctype, _nbytes) PYSH_TYPE_##_name,
    ISHMEMX_ELEMENTS(PYSH_X)
#undef PYSH_X
};

#define PYSH_TYPE_BIT(_name, _ctype) | 1u << PYSH_TYPE_##_name
enum pysh_family {
    PYSH_FAMILY_AMO = 0u ISHMEMX_ELEMENTS_A(PYSH_TYPE_BIT),
    PYSH_FAMILY_WAIT = PYSH_FAMILY_AMO | 1u << PYSH_TYPE_int16 | 1u << PYSH_TYPE_uint16, /* C's deprecated forms */
    PYSH_FAMILY_AMO_EXTENDED = 0u ISHMEMX_ELEMENTS_X(PYSH_TYPE_BIT),
    PYSH_FAMILY_AMO_BITWISE = 0u ISHMEMX_ELEMENTS_B(PYSH_TYPE_BIT),
    PYSH_FAMILY_REDUCE_ORDER = 0u ISHMEMX_ELEMENTS_M(PYSH_TYPE_BIT),
    PYSH_FAMILY_REDUCE_ARITHMETIC = 0u ISHMEMX_ELEMENTS_S(PYSH_TYPE_BIT),
    PYSH_FAMILY_REDUCE_BITWISE = 0u ISHMEMX_ELEMENTS_T(PYSH_TYPE_BIT)
};

/* For 0 <= type < ISHMEMX_TYPE_COUNT. */
/* Of a number that may be none: "no type". */
const char *pysh_type_name(int type);
const char *pysh_type_shown(int type); /* to a person: with NumPy's name, where that is another */
size_t pysh_type_nbytes(int type);
/* For any number; 1 for what is no type. */
size_t pysh_type_width(int type);
/* "==" for ISHMEMX_CMP_EQ and so on; NULL for what is no comparison. */
const char *pysh_cmp_symbol(int cmp);
/* OK, or TYPE saying that `what` is not for `type` and naming the types of `family` it is for. */
int pysh_type_check(int type, unsigned family, const char *what);
bool pysh_type_is_aligned(int type, const void *address);
/* OK, or ARGUMENT when `address` does not suit elements of `type`. */
int pysh_type_check_aligned(int type, const void *address, const char *name);

/* Atomic operations by number: the standard, extended and bitwise families, and as our extension add on floats. Does
 * `op` take elements of `type`? Both may be any numbers. */
bool pysh_amo_takes(int op, int type);
/* OK, or TYPE naming the types inside the operation's table. */
int pysh_amo_check(int op, int type);
/* "atomic_add", for an operation that there is. */
const char *pysh_amo_name(int op);
