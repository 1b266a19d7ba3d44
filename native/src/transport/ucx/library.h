/* SPDX-License-Identifier: BSD-3-Clause
 * UCX, found at run time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/ucx/abi.h"

typedef struct pysh_ucx_library {
    void *handle; /* NULL: not open */
    unsigned major, minor, release;
    char path[512];
    bool was_there; /* somebody else had opened it, with settings of its own */
    const char *(*status_text)(pysh_ucs_status_t status);
#define PYSH_UCX_MEMBER(_result, _name, _arguments) _result(*_name) _arguments;
    PYSH_UCX_CALLS(PYSH_UCX_MEMBER)
#undef PYSH_UCX_MEMBER
} pysh_ucx_library_t;

/* Opens it once a process, and sets what it reads then where nobody has: UNSUPPORTED tells what was tried. */
int pysh_ucx_open(const pysh_ucx_library_t **library_p);

static inline bool pysh_ucx_is_error(pysh_ucp_request_t request) {
    return (uintptr_t)request >= (uintptr_t)(intptr_t)PYSH_UCS_ERR_LAST;
}

static inline pysh_ucs_status_t pysh_ucx_error_of(pysh_ucp_request_t request) {
    return (pysh_ucs_status_t)(intptr_t)request;
}
