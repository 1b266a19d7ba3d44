/* SPDX-License-Identifier: BSD-3-Clause
 * Atomic memory operations. The number of the operation is the call's `op`. */
#include "fast.h"

/* An operation with its arguments; `names` holds at most ctx. */
typedef struct atomic {
    int op, element, pe;
    uint64_t value, cond;
    fast_place_t dest;
    fast_options_t options;
} atomic_t;

static bool target(atomic_t *atomic, PyObject *dest, PyObject *pe, PyObject *const *named, PyObject *names) {
    return fast_ctx_options(named, names, 0, &atomic->options) && fast_int(pe, &atomic->pe) &&
           fast_place(dest, &atomic->dest) && atomic->dest.nbytes &&
           fast_element(atomic->dest.kind, &atomic->element) && fast_has_values(atomic->element);
}

static int apply(const atomic_t *a, uint64_t *old_p) {
    ishmemx_ctx_t ctx = (ishmemx_ctx_t)a->options.handle;
    void *dest = (void *)a->dest.address;
    PyThreadState *left = fast_unlock(ishmemx_at_once(ctx, dest, a->pe, NULL));
    int status = ishmemx_atomic(ctx, a->op, a->element, dest, a->value, a->cond, a->pe, old_p);

    fast_lock(left);
    return status;
}

static PyObject *fetched(const atomic_t *atomic) {
    uint64_t old;
    int status = apply(atomic, &old);

    return status ? fast_finish(status) : fast_value_out(atomic->element, old);
}

/* (dest, value, pe) */
static bool with_value(atomic_t *atomic, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    return n_args == 3 && target(atomic, args[0], args[2], args + 3, names) &&
           fast_value_in(atomic->element, args[1], &atomic->value);
}

static PyObject *change(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    atomic_t atomic = {.op = call->op};

    return with_value(&atomic, args, n_args, names) ? fast_finish(apply(&atomic, NULL)) : NULL;
}

static PyObject *fetch(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    atomic_t atomic = {.op = call->op};

    return with_value(&atomic, args, n_args, names) ? fetched(&atomic) : NULL;
}

/* (dest, pe): fetches, or adds 1 */
static bool without_value(atomic_t *atomic, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    if (n_args != 2 || !target(atomic, args[0], args[1], args + 2, names))
        return false;
    if (atomic->op == ISHMEMX_ATOMIC_FETCH)
        return true;
    atomic->value = 1;
    return atomic->element != ISHMEMX_TYPE_FLOAT && atomic->element != ISHMEMX_TYPE_DOUBLE;
}

static PyObject *touch(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    atomic_t atomic = {.op = call->op};

    return without_value(&atomic, args, n_args, names) ? fast_finish(apply(&atomic, NULL)) : NULL;
}

static PyObject *look(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    atomic_t atomic = {.op = call->op};

    return without_value(&atomic, args, n_args, names) ? fetched(&atomic) : NULL;
}

/* (dest, cond, value, pe) */
static PyObject *compare_swap(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    atomic_t atomic = {.op = call->op};

    if (n_args != 4 || !target(&atomic, args[0], args[3], args + 4, names) ||
        !fast_value_in(atomic.element, args[1], &atomic.cond) || !fast_value_in(atomic.element, args[2], &atomic.value))
        return NULL;
    return fetched(&atomic);
}

FAST_ENTRY(change)
FAST_ENTRY(fetch)
FAST_ENTRY(touch)
FAST_ENTRY(look)
FAST_ENTRY(compare_swap)

const fast_family_t fast_atomic_families[] = {
    {"change", change_call},
    {"fetch", fetch_call},
    {"touch", touch_call},
    {"read", look_call},
    {"compare_swap", compare_swap_call},
    {NULL, NULL},
};
