/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/elements.h"

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "ishmemx.h"

static const struct {
    const char *name;
    size_t nbytes, align;
} elements[] = {
#define PYSH_X(_name, _ctype, _nbytes) {#_name, _nbytes, _Alignof(_ctype)},
    ISHMEMX_ELEMENTS(PYSH_X)
#undef PYSH_X
};

#define PYSH_X(_name, _ctype, _nbytes) \
    _Static_assert(sizeof(_ctype) == _nbytes, "pyshmem/_core/type_table.py has another width than this compiler");
ISHMEMX_ELEMENTS(PYSH_X)
#undef PYSH_X

const char *pysh_type_name(int type) {
    return type >= 0 && type < ISHMEMX_TYPE_COUNT ? elements[type].name : "no type";
}

const char *pysh_type_shown(int type) {
    static const char *const both[ISHMEMX_TYPE_COUNT] = {
        [ISHMEMX_TYPE_FLOAT] = "float (float32)",         [ISHMEMX_TYPE_DOUBLE] = "double (float64)",
        [ISHMEMX_TYPE_COMPLEXF] = "complexf (complex64)", [ISHMEMX_TYPE_COMPLEXD] = "complexd (complex128)",
        [ISHMEMX_TYPE_HALF] = "half (float16)",
    };

    return type >= 0 && type < ISHMEMX_TYPE_COUNT && both[type] ? both[type] : pysh_type_name(type);
}

size_t pysh_type_nbytes(int type) {
    return elements[type].nbytes;
}

size_t pysh_type_width(int type) {
    return type >= 0 && type < ISHMEMX_TYPE_COUNT ? elements[type].nbytes : 1;
}

int pysh_type_check(int type, unsigned family, const char *what) {
    char inside[256] = "";
    size_t used = 0;

    if (type >= 0 && type < ISHMEMX_TYPE_COUNT && family >> type & 1)
        return ISHMEMX_OK;
    for (int i = 0; i < ISHMEMX_TYPE_COUNT; i++)
        if (family >> i & 1 && used < sizeof inside)
            used += (size_t)snprintf(inside + used, sizeof inside - used, "%s%s", used ? ", " : "", elements[i].name);
    if (type < 0 || type >= ISHMEMX_TYPE_COUNT)
        return pysh_fail(ISHMEMX_ERR_TYPE, "%s: there is no type number %d; it takes %s", what, type, inside);
    return pysh_fail(ISHMEMX_ERR_TYPE, "%s is not for %s; it takes %s", what, pysh_type_shown(type), inside);
}

bool pysh_type_is_aligned(int type, const void *address) {
    return (uintptr_t)address % elements[type].align == 0;
}

int pysh_type_check_aligned(int type, const void *address, const char *name) {
    if (pysh_type_is_aligned(type, address))
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s %p is not aligned to the %zu bytes that %s needs", name, address,
                     elements[type].align, pysh_type_shown(type));
}

const char *pysh_cmp_symbol(int cmp) {
    static const char *const symbols[] = {
        [ISHMEMX_CMP_EQ] = "==", [ISHMEMX_CMP_NE] = "!=", [ISHMEMX_CMP_GT] = ">",
        [ISHMEMX_CMP_GE] = ">=", [ISHMEMX_CMP_LT] = "<",  [ISHMEMX_CMP_LE] = "<=",
    };

    return cmp >= ISHMEMX_CMP_EQ && cmp <= ISHMEMX_CMP_LE ? symbols[cmp] : NULL;
}

/* ---- atomic operations ---- */

/* Which types an operation takes: fetch, set, swap the extended family; compare_swap the standard one;
 * and, or, xor the bitwise one; add the standard one and, our extension, float and double. */
static const struct {
    const char *name;
    unsigned family;
} operations[ISHMEMX_ATOMIC_COUNT] = {
    [ISHMEMX_ATOMIC_FETCH] = {"atomic_fetch", PYSH_FAMILY_AMO_EXTENDED},
    [ISHMEMX_ATOMIC_SET] = {"atomic_set", PYSH_FAMILY_AMO_EXTENDED},
    [ISHMEMX_ATOMIC_SWAP] = {"atomic_swap", PYSH_FAMILY_AMO_EXTENDED},
    [ISHMEMX_ATOMIC_COMPARE_SWAP] = {"atomic_compare_swap", PYSH_FAMILY_AMO},
    [ISHMEMX_ATOMIC_ADD] = {"atomic_add", PYSH_FAMILY_AMO | PYSH_FAMILY_AMO_EXTENDED},
    [ISHMEMX_ATOMIC_AND] = {"atomic_and", PYSH_FAMILY_AMO_BITWISE},
    [ISHMEMX_ATOMIC_OR] = {"atomic_or", PYSH_FAMILY_AMO_BITWISE},
    [ISHMEMX_ATOMIC_XOR] = {"atomic_xor", PYSH_FAMILY_AMO_BITWISE},
};

bool pysh_amo_takes(int op, int type) {
    return op >= 0 && op < ISHMEMX_ATOMIC_COUNT && (unsigned)type < ISHMEMX_TYPE_COUNT &&
           operations[op].family >> type & 1;
}

int pysh_amo_check(int op, int type) {
    if (op < 0 || op >= ISHMEMX_ATOMIC_COUNT)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "there is no atomic operation number %d", op);
    return pysh_amo_takes(op, type) ? ISHMEMX_OK : pysh_type_check(type, operations[op].family, operations[op].name);
}

const char *pysh_amo_name(int op) {
    return operations[op].name;
}
