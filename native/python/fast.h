/* SPDX-License-Identifier: BSD-3-Clause
 * The extension pyshmem._core._fast: the routines that programs call most, for the arguments they mostly have.
 *
 * A Call stands for a Python function, which it keeps as `slow`. Its entry reads the arguments straight
 * from the objects and calls the library; where anything is out of the ordinary (another kind of array, a
 * value to convert, an error in the arguments) it does nothing and lets `slow` have the call. So checks,
 * conversions and messages are written once, in Python. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ishmemx.h"

typedef struct fast_call {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *slow, *dict, *weakrefs;
    int op; /* of a family of routines, which one */
} fast_call_t;

/* What an entry returns: a result; NULL with an exception; NULL without one when `slow` is to do it. */
typedef PyObject *fast_entry_t(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names);
/* An entry as what Python calls. */
#define FAST_ENTRY(_name)                                                                                     \
    static PyObject *_name##_call(PyObject *self, PyObject *const *args, size_t n_flagged, PyObject *names) { \
        const fast_call_t *call = (const fast_call_t *)self;                                                  \
        PyObject *result = _name(call, args, PyVectorcall_NARGS(n_flagged), names);                           \
        return result || PyErr_Occurred() ? result : PyObject_Vectorcall(call->slow, args, n_flagged, names); \
    }

/* Leaves Python's lock to others for a call of the library, but not for one that is over `at_once`: to give the lock
 * away and take it again takes as long as all else. Every so many such calls do it all the same, so that a thread that
 * polls leaves room for one that is to store what it waits for. */
static inline PyThreadState *fast_unlock(bool at_once) {
    enum { CALLS = 64 };
    static _Atomic unsigned calls; /* about so many, where threads have no common lock */

    if (!at_once)
        return PyEval_SaveThread();
    unsigned n = atomic_load_explicit(&calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&calls, n, memory_order_relaxed);
    return n % CALLS ? NULL : PyEval_SaveThread();
}

static inline void fast_lock(PyThreadState *left) {
    if (left)
        PyEval_RestoreThread(left);
}

/* Families of routines, by the names that Python has for them; the last is without one. */
typedef struct fast_family {
    const char *name;
    vectorcallfunc entry;
} fast_family_t;
extern const fast_family_t fast_rma_families[], fast_atomic_families[], fast_signal_families[], fast_team_families[];

/* Tensors (tensors.c). */
PyObject *fast_know_tensors(PyObject *module, PyObject *args); /* (capsule of DLPack, Tensor, Parameter) */
PyObject *fast_tensor(PyObject *module, PyObject *object);
PyObject *fast_look(PyObject *module, PyObject *const *args, Py_ssize_t n_args); /* (grad, *tensors) */

/* Kernels of other libraries (launch.c). */
extern PyTypeObject fast_launch_type;
int fast_launch_setup(void); /* -1 with an exception */

PyObject *fast_tell_missing(PyObject *module, PyObject *args); /* (the package, its function) */

/* ---- arguments (arguments.c); each returns false where `slow` has to look ---- */

/* A SymmetricArray whose place on a heap is known, or a contiguous CuPy array over a block of the heap. */
typedef struct fast_place {
    uintptr_t address;
    size_t nbytes;
    PyObject *kind; /* borrowed */
} fast_place_t;

/* What may be given by name: nelems, ctx or team, stream. */
typedef struct fast_options {
    Py_ssize_t nelems; /* -1: not given */
    uintptr_t handle;  /* of the context or team */
    bool on_stream;
    uintptr_t stream;
    PyObject *ctx; /* borrowed */
} fast_options_t;
enum { FAST_NELEMS = 1, FAST_STREAM = 2 }; /* beside ctx: which of them a routine has */

int fast_arguments_setup(PyObject *setup); /* -1 with an exception */
bool fast_place(PyObject *array, fast_place_t *place);
/* A signal word, and a value for it (signals.c). */
bool fast_signal(PyObject *array, PyObject *value, fast_place_t *word, uint64_t *bits_p);
/* A contiguous local array of `kind` as a buffer, to be released. */
bool fast_buffer(PyObject *array, PyObject *kind, bool writable, Py_buffer *buffer);
PyObject *fast_know_streams(PyObject *module, PyObject *type);    /* pyshmem's own, with a slot `handle` */
PyObject *fast_know_gpu_arrays(PyObject *module, PyObject *args); /* (CuPy's class, kind_of) */
bool fast_ctx_options(PyObject *const *named, PyObject *names, int allowed, fast_options_t *options);
bool fast_team_options(PyObject *const *named, PyObject *names, fast_options_t *options);
bool fast_int(PyObject *value, int *int_p);
/* A comparison, a signal operation: of its own class, or the number. */
bool fast_cmp(PyObject *value, int *int_p);
bool fast_sig_op(PyObject *value, int *int_p);
/* The number of a kind's element, ISHMEMX_TYPE_*. */
bool fast_element(PyObject *kind, int *element_p);
/* Bytes of `nelems` elements of a place, or of all when it is -1. */
bool fast_nbytes(const fast_place_t *place, Py_ssize_t nelems, size_t *nbytes_p);
/* A float of Python's, or one of NumPy's of a dtype that a double holds. */
bool fast_float(PyObject *value, double *double_p);
/* An integer of Python's or of NumPy's as an int of Python's, a new reference; NULL without an exception, also of a
 * comparison or a signal operation, which are no numbers to their users. */
PyObject *fast_integer(PyObject *value);
/* Values of integer and float elements; `bits` are the low bytes. */
bool fast_value_in(int element, PyObject *value, uint64_t *bits_p);
PyObject *fast_value_out(int element, uint64_t bits);
bool fast_has_values(int element);
size_t fast_element_nbytes(int element);
bool fast_nothing_kept(void); /* by CTX_DEFAULT, for non-blocking operations */
/* Context.keep(array, pe, reads) where there is anything to keep: what it returns; else None. */
PyObject *fast_keep(const fast_options_t *options, PyObject *array, int pe, size_t reads);
PyObject *fast_know_job(PyObject *module, PyObject *asks_keep); /* is Context.keep() to be asked always? */

/* None; or the exception of `status`, or NULL without one where `slow` knows better what is wrong. */
PyObject *fast_finish(int status);
