/* SPDX-License-Identifier: BSD-3-Clause
 * Waiting on many of one's own elements, and testing them: for all, for any, for some. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/elements.h"
#include "base/extent.h"
#include "base/status.h"
#include "ishmemx.h"
#include "node/enter.h"
#include "node/polls.h"
#include "node/wait.h"
#include "ops/look.h"
#include "ops/wait_until.h"

typedef struct many {
    int type, heap, cmp;
    const char *ivars, *values;
    size_t nelems, width, value_stride; /* value_stride 0: one value for all */
    const int *status;
    size_t first; /* of all: those before it hold */
} many_t;

/* Where the next look for any begins, so that each element that holds has its turn; by address, since a
 * program may look at several arrays in turn. An array that finds its row taken begins anywhere. */
enum { N_TURNS = 64 };
static _Thread_local struct turn {
    const char *ivars;
    size_t next;
} turns[N_TURNS];

static struct turn *turn_of(const many_t *many) {
    static _Thread_local uint64_t random;
    struct turn *turn = &turns[((uintptr_t)many->ivars >> 3) % N_TURNS];

    if (turn->ivars != many->ivars) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        turn->next = turn->ivars ? (size_t)(random >> 33) % many->nelems : 0;
        turn->ivars = many->ivars;
    }
    if (turn->next >= many->nelems)
        turn->next = 0;
    return turn;
}

static bool included(const many_t *many, size_t i) {
    return !many->status || !many->status[i];
}

static bool nothing_included(const many_t *many) {
    for (size_t i = 0; i < many->nelems; i++)
        if (included(many, i))
            return false;
    return true;
}

static uint64_t value_for(const many_t *many, size_t i) {
    uint64_t value = 0;

    memcpy(&value, many->values + i * many->value_stride, many->width);
    return value;
}

static int set_load(const many_t *many, size_t i, uint64_t *seen_p) {
    return pysh_wait_load(many->heap, many->ivars + i * many->width, many->width, seen_p);
}

static int element_holds(const many_t *many, size_t i, bool *holds_p) {
    uint64_t seen = 0;
    int status = set_load(many, i, &seen);

    *holds_p = !status && pysh_wait_holds(many->type, seen, many->cmp, value_for(many, i));
    return status;
}

enum { MOST_OTHERS = 99 }; /* that a report counts */

/* Of the first element that does not hold, and how many others; nothing when all do by now. */
static void set_describe(const void *of, char *text, size_t capacity) {
    const many_t *many = of;
    size_t length = 0, others = 0;
    uint64_t bits;

    text[0] = '\0';
    for (size_t i = many->first; i < many->nelems; i++) {
        pysh_number_t asked, seen;

        if (!included(many, i) || set_load(many, i, &bits) ||
            pysh_wait_holds(many->type, bits, many->cmp, value_for(many, i)))
            continue;
        if (length && ++others == MOST_OTHERS)
            break;
        if (length)
            continue;
        asked = pysh_wait_number(many->type, value_for(many, i));
        seen = pysh_wait_number(many->type, bits);
        length =
            (size_t)snprintf(text, capacity, "%s %s, seen %s in element %zu%s", pysh_cmp_symbol(many->cmp), asked.text,
                             seen.text, i, pysh_wait_hint(many->type, bits, many->cmp, value_for(many, i)));
    }
    if (others && length < capacity)
        snprintf(text + length, capacity - length, "; %zu%s more", others, others == MOST_OTHERS ? "+" : "");
}

/* *many is filled also when nelems is 0; then nothing else is looked at. */
static int set_begin(int type, const void *ivars, size_t nelems, const int *status, int cmp, const void *values,
                     int vector, const char *what, many_t *many) {
    size_t width = pysh_type_width(type), nbytes;
    int checked;

    *many = (many_t){.type = type,
                     .cmp = cmp,
                     .ivars = ivars,
                     .values = values,
                     .nelems = nelems,
                     .width = width,
                     .value_stride = vector ? width : 0,
                     .status = status};
    if (!nelems)
        return ISHMEMX_OK;
    if (!pysh_extent(1, 0, nelems, width, &nbytes))
        nbytes = SIZE_MAX;
    checked = pysh_wait_check(type, ivars, nbytes, cmp, what, &many->heap);
    if (!checked && !values)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: there are no values to compare with", what);
    return checked;
}

/* One look at the elements from `first` on; moves it to the first that does not hold. */
static int look_all(many_t *many, bool *holds_p) {
    size_t i = many->first;
    bool holds = true;
    int status = ISHMEMX_OK;

    for (; i < many->nelems; i++) {
        if (included(many, i))
            status = element_holds(many, i, &holds);
        if (status || !holds)
            break;
    }
    many->first = i;
    *holds_p = holds;
    return status;
}

/* What one look found: an index, or how many; NO_INDEX or NO_COUNT when nothing holds. */
typedef int look_func_t(const many_t *many, size_t *indices, size_t *result_p);
#define NO_INDEX SIZE_MAX
#define NO_COUNT 0

static int look_any(const many_t *many, size_t *indices, size_t *index_p) {
    struct turn *turn = turn_of(many);
    bool holds = false;

    (void)indices;
    for (size_t k = 0; k < many->nelems; k++) {
        size_t i = turn->next + k < many->nelems ? turn->next + k : turn->next + k - many->nelems;
        int status = included(many, i) ? element_holds(many, i, &holds) : ISHMEMX_OK;
        if (status)
            return status;
        if (holds) {
            *index_p = i;
            turn->next = i + 1;
            return ISHMEMX_OK;
        }
    }
    *index_p = NO_INDEX;
    return ISHMEMX_OK;
}

static int look_some(const many_t *many, size_t *indices, size_t *found_p) {
    *found_p = 0;
    for (size_t i = 0; i < many->nelems; i++) {
        bool holds = false;
        int status = included(many, i) ? element_holds(many, i, &holds) : ISHMEMX_OK;
        if (status)
            return status;
        if (holds)
            indices[(*found_p)++] = i;
    }
    return ISHMEMX_OK;
}

/* pairs with the atomics of the PEs that wrote the values */
static void acquire(void) {
    atomic_thread_fence(memory_order_acquire);
}

int ishmemx_wait_until_all(int type, const void *ivars, size_t nelems, const int *status, int cmp, const void *values,
                           int vector) {
    many_t many;
    pysh_wait_t wait;
    bool holds;
    int outcome;

    PYSH_ENTER();
    if ((outcome = set_begin(type, ivars, nelems, status, cmp, values, vector, "wait_until_all", &many)) || !nelems)
        return outcome;
    pysh_wait_begin(&wait, "wait_until_all");
    wait.aim = (pysh_wait_aim_t){set_describe, &many};
    while (!(outcome = look_all(&many, &holds)) && !holds)
        if ((outcome = pysh_wait_pause(&wait)))
            break;
    pysh_wait_end(&wait);
    acquire();
    return outcome;
}

static int set_wait_until(const many_t *many, const char *what, look_func_t *look, size_t *indices, size_t none,
                          size_t *result_p) {
    size_t result = none;
    int outcome = ISHMEMX_OK;
    pysh_wait_t wait;

    if (!nothing_included(many)) {
        pysh_wait_begin(&wait, what);
        wait.aim = (pysh_wait_aim_t){set_describe, many};
        while (!(outcome = look(many, indices, &result)) && result == none)
            if ((outcome = pysh_wait_pause(&wait)))
                break;
        pysh_wait_end(&wait);
        acquire();
    }
    if (!outcome)
        *result_p = result;
    return outcome;
}

int ishmemx_wait_until_any(int type, const void *ivars, size_t nelems, const int *status, int cmp, const void *values,
                           int vector, size_t *index) {
    const char *what = "wait_until_any";
    many_t many;
    int outcome;

    PYSH_ENTER();
    outcome = set_begin(type, ivars, nelems, status, cmp, values, vector, what, &many);
    return outcome ? outcome : set_wait_until(&many, what, look_any, NULL, NO_INDEX, index);
}

int ishmemx_wait_until_some(int type, const void *ivars, size_t nelems, size_t *indices, const int *status, int cmp,
                            const void *values, int vector, size_t *found) {
    const char *what = "wait_until_some";
    many_t many;
    int outcome;

    PYSH_ENTER();
    outcome = set_begin(type, ivars, nelems, status, cmp, values, vector, what, &many);
    return outcome ? outcome : set_wait_until(&many, what, look_some, indices, NO_COUNT, found);
}

static void one_describe(const void *of, char *text, size_t capacity) {
    const many_t *many = of;
    uint64_t bits;

    text[0] = '\0';
    if (!set_load(many, 0, &bits))
        snprintf(text, capacity, "%s %s, seen %s%s", pysh_cmp_symbol(many->cmp),
                 pysh_wait_number(many->type, value_for(many, 0)).text, pysh_wait_number(many->type, bits).text,
                 pysh_wait_hint(many->type, bits, many->cmp, value_for(many, 0)));
}

void pysh_test_polled(int type, const void *ivar, int cmp, uint64_t value, int result) {
    many_t many;

    if (!set_begin(type, ivar, 1, NULL, cmp, &value, 0, "test", &many))
        pysh_polled("test", (uint64_t)result, (pysh_wait_aim_t){one_describe, &many});
}

int ishmemx_test_all(int type, const void *ivars, size_t nelems, const int *status, int cmp, const void *values,
                     int vector, int *holds) {
    many_t many;
    bool all = true;
    int outcome;

    PYSH_ENTER();
    outcome = set_begin(type, ivars, nelems, status, cmp, values, vector, "test_all", &many);
    if (!outcome && nelems)
        outcome = look_all(&many, &all);
    acquire();
    if (outcome)
        return outcome;
    if (nelems && pysh_poll_due(PYSH_POLL_TEST))
        pysh_polled("test_all", all, (pysh_wait_aim_t){set_describe, &many});
    *holds = all;
    return ISHMEMX_OK;
}

int ishmemx_test_any(int type, const void *ivars, size_t nelems, const int *status, int cmp, const void *values,
                     int vector, size_t *index) {
    size_t found = NO_INDEX;
    many_t many;
    int outcome;

    PYSH_ENTER();
    outcome = set_begin(type, ivars, nelems, status, cmp, values, vector, "test_any", &many);
    if (!outcome && nelems)
        outcome = look_any(&many, NULL, &found);
    acquire();
    if (outcome)
        return outcome;
    if (nelems && pysh_poll_due(PYSH_POLL_TEST))
        pysh_polled("test_any", found, (pysh_wait_aim_t){set_describe, &many});
    *index = found;
    return ISHMEMX_OK;
}

int ishmemx_test_some(int type, const void *ivars, size_t nelems, size_t *indices, const int *status, int cmp,
                      const void *values, int vector, size_t *found) {
    size_t n = 0;
    many_t many;
    int outcome;

    PYSH_ENTER();
    outcome = set_begin(type, ivars, nelems, status, cmp, values, vector, "test_some", &many);
    if (!outcome && nelems)
        outcome = look_some(&many, indices, &n);
    acquire();
    if (outcome)
        return outcome;
    if (nelems && pysh_poll_due(PYSH_POLL_TEST))
        pysh_polled("test_some", n, (pysh_wait_aim_t){set_describe, &many});
    *found = n;
    return ISHMEMX_OK;
}
