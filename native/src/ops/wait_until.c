/* SPDX-License-Identifier: BSD-3-Clause
 * Waiting on one's own memory, and the barrier. */
#include "ops/wait_until.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "accel/accel.h"
#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/address.h"
#include "node/enter.h"
#include "node/polls.h"
#include "node/wait.h"
#include "ops/look.h"

/* A word of a GPU's memory comes by a copy. */
int pysh_wait_load(int heap, const void *address, size_t nbytes, uint64_t *bits_p) {
    uint64_t bits = 0;
    int status = ISHMEMX_OK;

    if (!pysh.arena[heap].cpu_visible)
        status = pysh.accel->copy(&bits, address, nbytes);
    else if (nbytes == 4)
        bits = __atomic_load_n((const uint32_t *)address, __ATOMIC_RELAXED);
    else if (nbytes == 8)
        bits = __atomic_load_n((const uint64_t *)address, __ATOMIC_RELAXED);
    else
        bits = __atomic_load_n((const uint16_t *)address, __ATOMIC_RELAXED);
    if (!status)
        *bits_p = bits;
    return status;
}

int pysh_load_own(int type, const void *address, const char *what, uint64_t *bits_p) {
    int heap;
    int64_t offset;
    size_t nbytes = pysh_type_nbytes(type);
    int status = pysh_heap_find(address, nbytes, what, &heap, &offset);

    if (!status)
        status = pysh_type_check_aligned(type, address, what);
    if (!status)
        status = pysh_wait_load(heap, address, nbytes, bits_p);
    atomic_thread_fence(memory_order_acquire); /* pairs with the release in signal_send() */
    return status;
}

bool pysh_wait_holds(int type, uint64_t seen, int cmp, uint64_t value) {
    return pysh_look_holds(type, seen, cmp, value);
}

int pysh_wait_check(int type, const void *ivar, size_t nbytes, int cmp, const char *what, int *heap_p) {
    int64_t offset;
    int status = pysh_type_check(type, PYSH_FAMILY_WAIT, what);

    if (!status && (cmp < ISHMEMX_CMP_EQ || cmp > ISHMEMX_CMP_LE))
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: cmp is %d, not one of CMP_EQ (%d) to CMP_LE (%d)", what, cmp,
                           ISHMEMX_CMP_EQ, ISHMEMX_CMP_LE);
    if (!status)
        status = pysh_heap_find(ivar, nbytes, "ivar", heap_p, &offset);
    return status ? status : pysh_type_check_aligned(type, ivar, "ivar");
}

pysh_number_t pysh_wait_number(int type, uint64_t bits) {
    pysh_number_t number;

    if (type == ISHMEMX_TYPE_INT16)
        snprintf(number.text, sizeof number.text, "%" PRId16, (int16_t)bits);
    else if (type == ISHMEMX_TYPE_INT32)
        snprintf(number.text, sizeof number.text, "%" PRId32, (int32_t)bits);
    else if (type == ISHMEMX_TYPE_INT64)
        snprintf(number.text, sizeof number.text, "%" PRId64, (int64_t)bits);
    else
        snprintf(number.text, sizeof number.text, "%" PRIu64, type == ISHMEMX_TYPE_UINT32 ? (uint32_t)bits : bits);
    return number;
}

typedef struct word { /* that is waited for */
    int type, heap, cmp;
    const void *ivar;
    uint64_t value;
} word_t;

const char *pysh_wait_hint(int type, uint64_t seen, int cmp, uint64_t value) {
    bool past = cmp == ISHMEMX_CMP_EQ && pysh_wait_holds(type, value, ISHMEMX_CMP_GT, 0) &&
                pysh_wait_holds(type, seen, ISHMEMX_CMP_GT, value);

    return past ? ", past it: CMP_GE takes that too" : "";
}

static void wait_until_describe(const void *of, char *text, size_t capacity) {
    const word_t *word = of;
    pysh_number_t asked = pysh_wait_number(word->type, word->value), seen;
    uint64_t bits;

    if (pysh_wait_load(word->heap, word->ivar, pysh_type_width(word->type), &bits)) {
        snprintf(text, capacity, "%s %s", pysh_cmp_symbol(word->cmp), asked.text);
    } else {
        seen = pysh_wait_number(word->type, bits);
        snprintf(text, capacity, "%s %s, seen %s%s", pysh_cmp_symbol(word->cmp), asked.text, seen.text,
                 pysh_wait_hint(word->type, bits, word->cmp, word->value));
    }
}

/* Without the beginning, and the pauses, of a longer wait: an answer that is on its way comes in less. */
static bool first_looks(int type, const void *ivar, int cmp, uint64_t value, uint64_t *bits_p) {
    int64_t looks = pysh.spin < PYSH_FIRST_LOOKS ? pysh.spin : PYSH_FIRST_LOOKS;

    while (pysh_look(type, ivar, cmp, bits_p)) {
        if (pysh_look_holds(type, *bits_p, cmp, value))
            return true;
        if (looks-- <= 0)
            break;
    }
    return false;
}

static int wait_until_wait_until(const char *what, int type, const void *ivar, int cmp, uint64_t value,
                                 uint64_t *seen) {
    pysh_wait_t wait;
    word_t word;
    uint64_t bits = 0;
    int heap, status;
    size_t nbytes;

    PYSH_ENTER();
    if (first_looks(type, ivar, cmp, value, &bits)) {
        atomic_thread_fence(memory_order_acquire); /* pairs with the atomic of the PE that wrote the value */
        if (seen)
            *seen = bits;
        return ISHMEMX_OK;
    }
    nbytes = pysh_type_width(type);
    status = pysh_wait_check(type, ivar, nbytes, cmp, what, &heap);
    if (status)
        return status;
    pysh_wait_begin(&wait, what);
    word = (word_t){type, heap, cmp, ivar, value};
    wait.aim = (pysh_wait_aim_t){wait_until_describe, &word};
    while (!(status = pysh_wait_load(heap, ivar, nbytes, &bits)) && !pysh_wait_holds(type, bits, cmp, value))
        if ((status = pysh_wait_pause(&wait)))
            break;
    pysh_wait_end(&wait);
    atomic_thread_fence(memory_order_acquire); /* pairs with the atomic of the PE that wrote the value */
    if (!status && seen)
        *seen = bits;
    return status;
}

int ishmemx_wait_until(int type, const void *ivar, int cmp, uint64_t value, uint64_t *seen) {
    return wait_until_wait_until("wait_until", type, ivar, cmp, value, seen);
}

int ishmemx_signal_wait_until(const uint64_t *sig_addr, int cmp, uint64_t value, uint64_t *seen) {
    return wait_until_wait_until("signal_wait_until", ISHMEMX_TYPE_UINT64, sig_addr, cmp, value, seen);
}

int pysh_test_slowly(int type, const void *ivar, int cmp, uint64_t value, int *result) {
    uint64_t bits;
    int heap, status;

    PYSH_ENTER();
    if ((status = pysh_wait_check(type, ivar, pysh_type_width(type), cmp, "test", &heap)) ||
        (status = pysh_wait_load(heap, ivar, pysh_type_nbytes(type), &bits)))
        return status;
    atomic_thread_fence(memory_order_acquire); /* pairs with the atomic of the PE that wrote the value */
    *result = pysh_wait_holds(type, bits, cmp, value);
    return ISHMEMX_OK;
}

int ishmemx_test(int type, const void *ivar, int cmp, uint64_t value, int *result) {
    return pysh_test(type, ivar, cmp, value, result);
}
