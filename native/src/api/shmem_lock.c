/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: locks. */
#include "api/shell.h"
#include "ishmemx.h"

ROUTINE(void, set_lock, long *lock) {
    SHELL(ishmemx_set_lock(lock));
}

ROUTINE(int, test_lock, long *lock) {
    int acquired;

    SHELL(ishmemx_test_lock(lock, &acquired));
    return !acquired;
}

ROUTINE(void, clear_lock, long *lock) {
    SHELL(ishmemx_clear_lock(lock));
}
