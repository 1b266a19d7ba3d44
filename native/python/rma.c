/* SPDX-License-Identifier: BSD-3-Clause
 * put and get with their non-blocking forms and signals, p and g. */
#include "fast.h"

#include <string.h>

#include "base/elements.h"

enum { PUT, GET, PUT_NBI, GET_NBI, PUT_SIGNAL, PUT_SIGNAL_NBI };
enum { FEW_BYTES = 4096 }; /* copied in less time than Python's lock takes to change hands */

/* A transfer with its arguments, and the signal behind it. */
typedef struct transfer {
    int op, pe, sig_op;
    uintptr_t symmetric, local, word;
    size_t nbytes;
    uint64_t signal;
    fast_options_t options;
} transfer_t;

static bool is_get(int op) {
    return op == GET || op == GET_NBI;
}

static int call_library(const transfer_t *t) {
    ishmemx_ctx_t ctx = (ishmemx_ctx_t)t->options.handle;
    void *symmetric = (void *)t->symmetric, *local = (void *)t->local;

    switch (t->op) {
    case PUT:
        return ishmemx_put(ctx, symmetric, local, t->nbytes, t->pe);
    case GET:
        return ishmemx_get(ctx, local, symmetric, t->nbytes, t->pe);
    case PUT_NBI:
        return ishmemx_put_nbi(ctx, symmetric, local, t->nbytes, t->pe);
    case GET_NBI:
        return ishmemx_get_nbi(ctx, local, symmetric, t->nbytes, t->pe);
    case PUT_SIGNAL:
        return ishmemx_put_signal(ctx, symmetric, local, t->nbytes, (uint64_t *)t->word, t->signal, t->sig_op, t->pe);
    default:
        return ishmemx_put_signal_nbi(ctx, symmetric, local, t->nbytes, (uint64_t *)t->word, t->signal, t->sig_op,
                                      t->pe);
    }
}

/* The same in the order of a stream: a call as short as the driver's own. All is non-blocking there. */
static int call_library_on_stream(const transfer_t *t) {
    ishmemx_ctx_t ctx = (ishmemx_ctx_t)t->options.handle;
    void *symmetric = (void *)t->symmetric, *local = (void *)t->local, *stream = (void *)t->options.stream;

    if (is_get(t->op))
        return ishmemx_get_on_stream(ctx, local, symmetric, t->nbytes, t->pe, stream);
    if (t->op == PUT || t->op == PUT_NBI)
        return ishmemx_put_on_stream(ctx, symmetric, local, t->nbytes, t->pe, stream);
    return ishmemx_put_signal_on_stream(ctx, symmetric, local, t->nbytes, (uint64_t *)t->word, t->signal, t->sig_op,
                                        t->pe, stream);
}

/* `plain`: the local side is memory of the CPU. */
static int transfer(const transfer_t *t, bool plain) {
    bool at_once =
        !t->options.on_stream && t->nbytes <= FEW_BYTES &&
        ishmemx_at_once((ishmemx_ctx_t)t->options.handle, (void *)t->symmetric, t->pe, plain ? NULL : (void *)t->local);
    PyThreadState *left = fast_unlock(at_once);
    int status = (t->options.on_stream ? call_library_on_stream : call_library)(t);

    fast_lock(left);
    return status;
}

/* The result. One that was given up may still be under way to another host: its local array stays for good. One that
 * does not block keeps it for as long as it takes. */
static PyObject *finish(const transfer_t *t, int status, PyObject *local) {
    if (t->options.on_stream)
        return fast_finish(status);
    if (status == ISHMEMX_ERR_TIMEOUT || status == ISHMEMX_ERR_INTERRUPTED)
        Py_INCREF(local);
    if (status || t->op == PUT || t->op == GET || t->op == PUT_SIGNAL)
        return fast_finish(status);
    return fast_keep(&t->options, local, t->pe, is_get(t->op) ? 0 : t->nbytes);
}

/* The local side is an ordinary array of NumPy. */
static PyObject *copy_plain(transfer_t *t, const fast_place_t *symmetric, PyObject *array) {
    fast_place_t local = {.kind = symmetric->kind};
    PyObject *result = NULL;
    Py_buffer buffer;

    if (t->options.on_stream || !fast_buffer(array, symmetric->kind, is_get(t->op), &buffer))
        return NULL;
    local.nbytes = (size_t)buffer.len;
    t->local = (uintptr_t)buffer.buf;
    if (fast_nbytes(&local, t->options.nelems, &t->nbytes) && t->nbytes <= symmetric->nbytes)
        result = finish(t, transfer(t, true), array);
    PyBuffer_Release(&buffer);
    return result;
}

/* Of two sides; all but these is in `t`. */
static PyObject *copy_sides(transfer_t *t, PyObject *remote_side, PyObject *local_side) {
    fast_place_t symmetric, local;

    if (!fast_place(remote_side, &symmetric))
        return NULL;
    t->symmetric = symmetric.address;
    if (!fast_place(local_side, &local))
        return copy_plain(t, &symmetric, local_side);
    if (local.kind != symmetric.kind || !fast_nbytes(&local, t->options.nelems, &t->nbytes) ||
        t->nbytes > symmetric.nbytes)
        return NULL;
    t->local = local.address;
    return finish(t, transfer(t, false), local_side);
}

/* put(dest, source, pe), get(dest, source, pe), put_nbi and get_nbi */
static PyObject *copy(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    transfer_t t = {.op = call->op};
    bool get = is_get(t.op);

    if (n_args != 3 || !fast_ctx_options(args + 3, names, FAST_NELEMS | FAST_STREAM, &t.options) ||
        !fast_int(args[2], &t.pe))
        return NULL;
    return copy_sides(&t, args[get], args[!get]);
}

/* put_signal(dest, source, sig_addr, signal, sig_op, pe) and put_signal_nbi */
static PyObject *put_signal(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    transfer_t t = {.op = call->op};
    fast_place_t word;

    if (n_args != 6 || !fast_ctx_options(args + 6, names, FAST_NELEMS | FAST_STREAM, &t.options) ||
        !fast_signal(args[2], args[3], &word, &t.signal) || !fast_sig_op(args[4], &t.sig_op) ||
        !fast_int(args[5], &t.pe))
        return NULL;
    t.word = word.address;
    return copy_sides(&t, args[0], args[1]);
}

/* An array with an element 0 that Python has a number for. */
static bool word_of(PyObject *array, fast_place_t *place, int *element_p) {
    return fast_place(array, place) && place->nbytes && fast_element(place->kind, element_p) &&
           fast_has_values(*element_p);
}

/* p(dest, value, pe) */
static PyObject *p(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    fast_place_t dest;
    fast_options_t options;
    PyThreadState *left;
    uint64_t bits;
    int element, pe, status;

    (void)call;
    if (n_args != 3 || !fast_ctx_options(args + 3, names, FAST_STREAM, &options) || !fast_int(args[2], &pe) ||
        !word_of(args[0], &dest, &element) || !fast_value_in(element, args[1], &bits))
        return NULL;
    if (options.on_stream)
        return fast_finish(ishmemx_p_on_stream((ishmemx_ctx_t)options.handle, (void *)dest.address, &bits,
                                               fast_element_nbytes(element), pe, (void *)options.stream));
    left = fast_unlock(ishmemx_at_once((ishmemx_ctx_t)options.handle, (void *)dest.address, pe, NULL));
    status = ishmemx_put((ishmemx_ctx_t)options.handle, (void *)dest.address, &bits, fast_element_nbytes(element), pe);
    fast_lock(left);
    return fast_finish(status);
}

/* g(source, pe) */
static PyObject *g(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    fast_place_t source;
    fast_options_t options;
    PyThreadState *left;
    uint64_t bits = 0;
    int element, pe, status;

    (void)call;
    if (n_args != 2 || !fast_ctx_options(args + 2, names, 0, &options) || !fast_int(args[1], &pe) ||
        !word_of(args[0], &source, &element))
        return NULL;
    left = fast_unlock(ishmemx_at_once((ishmemx_ctx_t)options.handle, (void *)source.address, pe, NULL));
    status =
        ishmemx_get((ishmemx_ctx_t)options.handle, &bits, (void *)source.address, fast_element_nbytes(element), pe);
    fast_lock(left);
    return status ? fast_finish(status) : fast_value_out(element, bits);
}

FAST_ENTRY(copy)
FAST_ENTRY(put_signal)
FAST_ENTRY(p)
FAST_ENTRY(g)

const fast_family_t fast_rma_families[] = {
    {"copy", copy_call}, {"put_signal", put_signal_call}, {"p", p_call}, {"g", g_call}, {NULL, NULL},
};
