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
    return pysh_fail(ISHMEMX_ERR_TYPE, "%s is not for %s; it takes %s", what, elements[type].name, inside);
}

int pysh_type_check_aligned(int type, const void *address, const char *name) {
    if ((uintptr_t)address % elements[type].align == 0)
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s %p is not aligned to the %zu bytes that %s needs", name, address,
                     elements[type].align, elements[type].name);
}

const char *pysh_cmp_symbol(int cmp) {
    static const char *const symbols[] = {
        [ISHMEMX_CMP_EQ] = "==", [ISHMEMX_CMP_NE] = "!=", [ISHMEMX_CMP_GT] = ">",
        [ISHMEMX_CMP_GE] = ">=", [ISHMEMX_CMP_LT] = "<",  [ISHMEMX_CMP_LE] = "<=",
    };

    return cmp >= ISHMEMX_CMP_EQ && cmp <= ISHMEMX_CMP_LE ? symbols[cmp] : NULL;
}
