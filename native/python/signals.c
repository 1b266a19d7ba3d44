/* SPDX-License-Identifier: BSD-3-Clause
 * Signals, and waits for one word, on the host and on streams. */
#include "fast.h"

#include <string.h>

#include "base/elements.h"

static bool word_of(PyObject *array, fast_place_t *word) {
    int element;

    return fast_place(array, word) && word->nbytes && fast_element(word->kind, &element) &&
           element == ISHMEMX_TYPE_UINT64;
}

bool fast_signal(PyObject *array, PyObject *value, fast_place_t *word, uint64_t *bits_p) {
    return word_of(array, word) && fast_value_in(ISHMEMX_TYPE_UINT64, value, bits_p);
}

/* `args`: the word and its value. */
static PyObject *change(PyObject *const *args, int sig_op, PyObject *pe_object, PyObject *const *named,
                        PyObject *names) {
    fast_place_t word;
    fast_options_t options;
    PyThreadState *left;
    uint64_t bits;
    int pe, status;

    if (!fast_ctx_options(named, names, FAST_STREAM, &options) || !fast_int(pe_object, &pe) ||
        !fast_signal(args[0], args[1], &word, &bits))
        return NULL;
    left = fast_unlock(!options.on_stream &&
                       ishmemx_at_once((ishmemx_ctx_t)options.handle, (void *)word.address, pe, NULL));
    if (options.on_stream)
        status = ishmemx_signal_op_on_stream((ishmemx_ctx_t)options.handle, (uint64_t *)word.address, bits, sig_op, pe,
                                             (void *)options.stream);
    else
        status = ishmemx_signal_op((ishmemx_ctx_t)options.handle, (uint64_t *)word.address, bits, sig_op, pe);
    fast_lock(left);
    return fast_finish(status);
}

/* signal_op(sig_addr, signal, sig_op, pe) */
static PyObject *signal_op(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    int sig_op;

    (void)call;
    return n_args == 4 && fast_sig_op(args[2], &sig_op) ? change(args, sig_op, args[3], args + 4, names) : NULL;
}

/* signal_set(sig_addr, signal, pe) and signal_add */
static PyObject *signal(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    return n_args == 3 ? change(args, call->op, args[2], args + 3, names) : NULL;
}

/* On a stream, `bits` the value's. */
static PyObject *wait_on_stream(const fast_options_t *options, int element, uintptr_t address, int cmp, uint64_t bits) {
    int status;

    Py_BEGIN_ALLOW_THREADS status =
        ishmemx_wait_until_on_stream(element, (void *)address, cmp, bits, (void *)options->stream);
    Py_END_ALLOW_THREADS return fast_finish(status);
}

/* signal_wait_until(sig_addr, cmp, cmp_value, stream=); without a stream it has a result */
static PyObject *signal_wait(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    fast_place_t word;
    fast_options_t options;
    uint64_t bits;
    int cmp;

    (void)call;
    if (n_args != 3 || !names || !fast_ctx_options(args + 3, names, FAST_STREAM, &options) || !options.on_stream ||
        !fast_cmp(args[1], &cmp) || !fast_signal(args[0], args[2], &word, &bits))
        return NULL;
    return wait_on_stream(&options, ISHMEMX_TYPE_UINT64, word.address, cmp, bits);
}

/* What is waited or looked for: `args` are the word, the comparison and the value. */
typedef struct aim {
    fast_place_t ivar;
    int element, cmp;
    uint64_t bits;
} aim_t;

static bool aim_of(PyObject *const *args, aim_t *aim) {
    return fast_cmp(args[1], &aim->cmp) && fast_place(args[0], &aim->ivar) && aim->ivar.nbytes &&
           fast_element(aim->ivar.kind, &aim->element) && PYSH_FAMILY_AMO >> aim->element & 1 &&
           fast_has_values(aim->element) && fast_value_in(aim->element, args[2], &aim->bits);
}

/* test(ivar, cmp, value) */
static PyObject *test(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    PyThreadState *left;
    aim_t aim;
    int status, holds = 0;

    (void)call;
    if (n_args != 3 || names || !aim_of(args, &aim))
        return NULL;
    left = fast_unlock(ishmemx_at_once(NULL, NULL, 0, (void *)aim.ivar.address));
    status = ishmemx_test(aim.element, (void *)aim.ivar.address, aim.cmp, aim.bits, &holds);
    fast_lock(left);
    return status ? fast_finish(status) : PyBool_FromLong(holds);
}

/* signal_fetch(sig_addr) */
static PyObject *signal_fetch(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    PyThreadState *left;
    fast_place_t word;
    uint64_t value = 0;
    int status;

    (void)call;
    if (n_args != 1 || names || !word_of(args[0], &word))
        return NULL;
    left = fast_unlock(ishmemx_at_once(NULL, NULL, 0, (void *)word.address));
    status = ishmemx_signal_fetch((const uint64_t *)word.address, &value);
    fast_lock(left);
    return status ? fast_finish(status) : PyLong_FromUnsignedLongLong(value);
}

/* wait_until(ivar, cmp, value) */
static PyObject *wait_until(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    fast_options_t options;
    uint64_t seen;
    aim_t aim;
    int status;

    (void)call;
    if (n_args != 3 || !fast_ctx_options(args + 3, names, FAST_STREAM, &options) || !aim_of(args, &aim))
        return NULL;
    if (options.on_stream)
        return wait_on_stream(&options, aim.element, aim.ivar.address, aim.cmp, aim.bits);
    Py_BEGIN_ALLOW_THREADS status = ishmemx_wait_until(aim.element, (void *)aim.ivar.address, aim.cmp, aim.bits, &seen);
    Py_END_ALLOW_THREADS return fast_finish(status);
}

FAST_ENTRY(signal_op)
FAST_ENTRY(signal)
FAST_ENTRY(signal_wait)
FAST_ENTRY(wait_until)
FAST_ENTRY(test)
FAST_ENTRY(signal_fetch)

const fast_family_t fast_signal_families[] = {
    {"signal_op", signal_op_call},
    {"signal", signal_call},
    {"signal_wait", signal_wait_call},
    {"wait_until", wait_until_call},
    {"test", test_call},
    {"signal_fetch", signal_fetch_call},
    {NULL, NULL},
};
