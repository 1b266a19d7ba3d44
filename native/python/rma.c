/* SPDX-License-Identifier: BSD-3-Clause
 * put, get, p and g. */
#include "fast.h"

#include <string.h>

#include "base/elements.h"

enum { PUT, GET };

/* Starts the copy of the bytes that both sides have; the arguments are in order. */
static int transfer(int op, uintptr_t ctx, uintptr_t symmetric, uintptr_t local, size_t nbytes, int pe) {
    int status;

    Py_BEGIN_ALLOW_THREADS if (op == PUT) status =
        ishmemx_put((ishmemx_ctx_t)ctx, (void *)symmetric, (void *)local, nbytes, pe);
    else status = ishmemx_get((ishmemx_ctx_t)ctx, (void *)local, (void *)symmetric, nbytes, pe);
    Py_END_ALLOW_THREADS return status;
}

/* The result. One that was given up may still be under way to another host: its local array stays for good. */
static PyObject *finish(int status, PyObject *local) {
    if (status == ISHMEMX_ERR_TIMEOUT || status == ISHMEMX_ERR_INTERRUPTED)
        Py_INCREF(local);
    return fast_finish(status);
}

/* The same in the order of a stream: a call as short as the driver's own. */
static int transfer_on_stream(int op, const fast_options_t *options, uintptr_t symmetric, uintptr_t local,
                              size_t nbytes, int pe) {
    ishmemx_ctx_t ctx = (ishmemx_ctx_t)options->handle;
    int status;

    Py_BEGIN_ALLOW_THREADS if (op == PUT) status =
        ishmemx_put_on_stream(ctx, (void *)symmetric, (void *)local, nbytes, pe, (void *)options->stream);
    else status = ishmemx_get_on_stream(ctx, (void *)local, (void *)symmetric, nbytes, pe, (void *)options->stream);
    Py_END_ALLOW_THREADS return status;
}

/* The local side is an ordinary array of NumPy. */
static PyObject *copy_plain(int op, const fast_place_t *symmetric, PyObject *array, const fast_options_t *options,
                            int pe) {
    fast_place_t local = {.kind = symmetric->kind};
    PyObject *result = NULL;
    Py_buffer buffer;
    size_t nbytes;

    if (!fast_buffer(array, symmetric->kind, op == GET, &buffer))
        return NULL;
    local.nbytes = (size_t)buffer.len;
    if (fast_nbytes(&local, options->nelems, &nbytes) && nbytes <= symmetric->nbytes)
        result = finish(transfer(op, options->handle, symmetric->address, (uintptr_t)buffer.buf, nbytes, pe), array);
    PyBuffer_Release(&buffer);
    return result;
}

/* put(dest, source, pe) and get(dest, source, pe) */
static PyObject *copy(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    fast_place_t symmetric, local;
    fast_options_t options;
    size_t nbytes;
    int op = call->op, pe;

    if (n_args != 3 || !fast_ctx_options(args + 3, names, FAST_NELEMS | FAST_STREAM, &options) ||
        !fast_int(args[2], &pe) || !fast_place(args[op == GET], &symmetric))
        return NULL;
    if (!fast_place(args[op == PUT], &local))
        return options.on_stream ? NULL : copy_plain(op, &symmetric, args[op == PUT], &options, pe);
    if (local.kind != symmetric.kind || !fast_nbytes(&local, options.nelems, &nbytes) || nbytes > symmetric.nbytes)
        return NULL;
    if (options.on_stream)
        return fast_finish(transfer_on_stream(op, &options, symmetric.address, local.address, nbytes, pe));
    return finish(transfer(op, options.handle, symmetric.address, local.address, nbytes, pe), args[op == PUT]);
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
    uint64_t bits;
    int element, pe;

    (void)call;
    if (n_args != 3 || !fast_ctx_options(args + 3, names, FAST_STREAM, &options) || !fast_int(args[2], &pe) ||
        !word_of(args[0], &dest, &element) || !fast_value_in(element, args[1], &bits))
        return NULL;
    if (options.on_stream)
        return fast_finish(ishmemx_p_on_stream((ishmemx_ctx_t)options.handle, (void *)dest.address, &bits,
                                               fast_element_nbytes(element), pe, (void *)options.stream));
    return fast_finish(transfer(PUT, options.handle, dest.address, (uintptr_t)&bits, fast_element_nbytes(element), pe));
}

/* g(source, pe) */
static PyObject *g(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    fast_place_t source;
    fast_options_t options;
    uint64_t bits = 0;
    int element, pe, status;

    (void)call;
    if (n_args != 2 || !fast_ctx_options(args + 2, names, 0, &options) || !fast_int(args[1], &pe) ||
        !word_of(args[0], &source, &element))
        return NULL;
    status = transfer(GET, options.handle, source.address, (uintptr_t)&bits, fast_element_nbytes(element), pe);
    return status ? fast_finish(status) : fast_value_out(element, bits);
}

static FAST_ENTRY(copy) static FAST_ENTRY(p) static FAST_ENTRY(g)

    vectorcallfunc fast_rma_entry(const char *family) {
    return !strcmp(family, "copy") ? copy_call : !strcmp(family, "p") ? p_call : !strcmp(family, "g") ? g_call : NULL;
}
