/* SPDX-License-Identifier: BSD-3-Clause
 * See interrupt.h. */
#include "base/interrupt.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "ishmemx.h"

static int (*_Atomic interrupt_check)(void);

void ishmemx_set_interrupt_check(int (*check)(void)) {
    atomic_store(&interrupt_check, check);
}

static void (*_Atomic place_teller)(char *text, size_t capacity);

void ishmemx_set_place_teller(void (*tell)(char *text, size_t capacity)) {
    atomic_store(&place_teller, tell);
}

void pysh_tell_place(char *text, size_t capacity) {
    void (*tell)(char *text, size_t capacity) = atomic_load_explicit(&place_teller, memory_order_relaxed);

    text[0] = '\0';
    if (tell)
        tell(text, capacity);
}

bool pysh_has_interrupt_check(void) {
    return atomic_load_explicit(&interrupt_check, memory_order_relaxed) != NULL;
}

int pysh_wait_interrupted(const char *what) {
    int (*check)(void) = atomic_load_explicit(&interrupt_check, memory_order_relaxed);

    if (check && check())
        return pysh_fail(ISHMEMX_ERR_INTERRUPTED, "interrupted in %s", what);
    return ISHMEMX_OK;
}
