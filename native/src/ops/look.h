/* SPDX-License-Identifier: BSD-3-Clause
 * A look at an aligned word of 4 or 8 bytes on the host heap, as programs that poll make it all day: some comparisons
 * in place of a search of the heaps and four calls, in the caller, where the type is a constant. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"
#include "ishmemx.h"
#include "node/enter.h"
#include "node/polls.h"

/* False: it has to go the long way, which tells what is wrong. */
static inline bool pysh_look(int type, const void *ivar, int cmp, uint64_t *bits_p) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_HOST];
    uintptr_t offset = (uintptr_t)ivar - (uintptr_t)arena->first;
    bool four = type == ISHMEMX_TYPE_INT32 || type == ISHMEMX_TYPE_UINT32;

    if (!four && type != ISHMEMX_TYPE_INT64 && type != ISHMEMX_TYPE_UINT64)
        return false;
    if (offset >= arena->usable || (uintptr_t)ivar & (four ? 3 : 7) || pysh.check ||
        (unsigned)(cmp - ISHMEMX_CMP_EQ) > ISHMEMX_CMP_LE - ISHMEMX_CMP_EQ)
        return false;
    if (four)
        *bits_p = __atomic_load_n((const uint32_t *)ivar, __ATOMIC_RELAXED);
    else
        *bits_p = __atomic_load_n((const uint64_t *)ivar, __ATOMIC_RELAXED);
    return true;
}

/* Which of "less", "equal" and "greater" a comparison asks for; bits 0, 1, 2. */
static inline bool pysh_order_holds(int cmp, int order) {
    static const uint8_t asked[] = {
        [ISHMEMX_CMP_EQ] = 2, [ISHMEMX_CMP_NE] = 5, [ISHMEMX_CMP_GT] = 4,
        [ISHMEMX_CMP_GE] = 6, [ISHMEMX_CMP_LT] = 1, [ISHMEMX_CMP_LE] = 3,
    };

    return asked[cmp] >> (order + 1) & 1;
}

/* For a comparison that was found to be one. */
static inline bool pysh_look_holds(int type, uint64_t seen, int cmp, uint64_t value) {
    int64_t a = (int64_t)seen, b = (int64_t)value;

    switch (type) {
    case ISHMEMX_TYPE_INT16:
        a = (int16_t)seen, b = (int16_t)value;
        break;
    case ISHMEMX_TYPE_INT32:
        a = (int32_t)seen, b = (int32_t)value;
        break;
    case ISHMEMX_TYPE_INT64:
        break;
    case ISHMEMX_TYPE_UINT32:
        seen = (uint32_t)seen, value = (uint32_t)value;
        /* fall through */
    default:
        return pysh_order_holds(cmp, (seen > value) - (seen < value));
    }
    return pysh_order_holds(cmp, (a > b) - (a < b));
}

/* Now and then, for a test that found `result`: see node/polls.h. */
void pysh_test_polled(int type, const void *ivar, int cmp, uint64_t value, int result);
int pysh_test_slowly(int type, const void *ivar, int cmp, uint64_t value, int *result);

/* ishmemx_test() */
static inline int pysh_test(int type, const void *ivar, int cmp, uint64_t value, int *result) {
    uint64_t bits;
    int status;

    if (pysh_goes_on() && pysh_look(type, ivar, cmp, &bits)) {
        atomic_thread_fence(memory_order_acquire); /* pairs with the atomic of the PE that wrote the value */
        *result = pysh_look_holds(type, bits, cmp, value);
    } else if ((status = pysh_test_slowly(type, ivar, cmp, value, result))) {
        return status;
    }
    if (pysh_poll_due(PYSH_POLL_TEST))
        pysh_test_polled(type, ivar, cmp, value, *result);
    return ISHMEMX_OK;
}
