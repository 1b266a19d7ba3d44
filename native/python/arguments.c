/* SPDX-License-Identifier: BSD-3-Clause */
#include "fast.h"

#include <structmember.h>

/* Where the slots of the classes are, and what else setup() was given. */
static struct {
    PyTypeObject *array, *plain, *context, *team, *integer, *single, *twice, *choice, *cmp, *sig_op;
    Py_ssize_t address, nbytes, kind, dtype, element, ctx_handle, ctx_kept, team_handle;
    PyObject *fail, *ctx_default;
    bool asks_keep; /* also where nothing is outstanding */
    PyObject *keep_name;
    PyObject *nelems_name, *ctx_name, *team_name, *dtype_name, *stream_name, *protocol_name;
    PyTypeObject *stream; /* our own class, and its slot; NULL: not known yet */
    Py_ssize_t stream_handle;
    PyTypeObject *gpu; /* CuPy's array; NULL: not in this job */
    PyObject *kind_of, *contiguous_name, *data_name, *ptr_name, *mem_name, *owner_name, *gone_name, *nbytes_name;
} known;

static PyObject *slot(PyObject *object, Py_ssize_t offset) {
    return *(PyObject **)((char *)object + offset);
}

static int slot_find(PyObject *type, const char *name, Py_ssize_t *offset_p) {
    PyObject *descriptor = PyObject_GetAttrString(type, name);

    if (!descriptor)
        return -1;
    if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        PyErr_Format(PyExc_TypeError, "%s of %R is no slot", name, type);
        Py_DECREF(descriptor);
        return -1;
    }
    *offset_p = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    Py_DECREF(descriptor);
    return 0;
}

static PyObject *interned(const char *text) {
    return PyUnicode_InternFromString(text);
}

/* (SymmetricArray, ndarray, Kind, Context, Team, CTX_DEFAULT, fail, integer, float32, float64, Choice, Cmp,
 * SignalOp), three of NumPy in it; kept for good. */
int fast_arguments_setup(PyObject *setup) {
    PyObject *array, *plain, *kind, *context, *team, *integer, *single, *twice, *choice, *cmp, *sig_op;

    if (!PyArg_ParseTuple(setup, "O!O!O!O!O!OOO!O!O!O!O!O!", &PyType_Type, &array, &PyType_Type, &plain, &PyType_Type,
                          &kind, &PyType_Type, &context, &PyType_Type, &team, &known.ctx_default, &known.fail,
                          &PyType_Type, &integer, &PyType_Type, &single, &PyType_Type, &twice, &PyType_Type, &choice,
                          &PyType_Type, &cmp, &PyType_Type, &sig_op))
        return -1;
    if (slot_find(array, "_address", &known.address) || slot_find(array, "_nbytes", &known.nbytes) ||
        slot_find(array, "_kind", &known.kind) || slot_find(kind, "dtype", &known.dtype) ||
        slot_find(kind, "element", &known.element) || slot_find(context, "handle", &known.ctx_handle) ||
        slot_find(context, "_kept", &known.ctx_kept) || slot_find(team, "_handle", &known.team_handle))
        return -1;
    known.nelems_name = interned("nelems");
    known.ctx_name = interned("ctx");
    known.team_name = interned("team");
    known.dtype_name = interned("dtype");
    known.stream_name = interned("stream");
    known.protocol_name = interned("__cuda_stream__");
    known.keep_name = interned("keep");
    if (!known.nelems_name || !known.ctx_name || !known.team_name || !known.dtype_name || !known.stream_name ||
        !known.protocol_name || !known.keep_name)
        return -1;
    Py_INCREF(setup);
    known.plain = (PyTypeObject *)plain;
    known.context = (PyTypeObject *)context;
    known.team = (PyTypeObject *)team;
    known.integer = (PyTypeObject *)integer;
    known.single = (PyTypeObject *)single;
    known.twice = (PyTypeObject *)twice;
    known.choice = (PyTypeObject *)choice;
    known.cmp = (PyTypeObject *)cmp;
    known.sig_op = (PyTypeObject *)sig_op;
    known.array = (PyTypeObject *)array; /* last: from here on arrays are known */
    return 0;
}

PyObject *fast_know_gpu_arrays(PyObject *module, PyObject *args) {
    PyObject *type, *kind_of;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &type, &kind_of))
        return NULL;
    known.contiguous_name = interned("_c_contiguous");
    known.data_name = interned("data");
    known.ptr_name = interned("ptr");
    known.mem_name = interned("mem");
    known.owner_name = interned("_owner");
    known.gone_name = interned("gone");
    known.nbytes_name = interned("nbytes");
    known.kind_of = Py_NewRef(kind_of);
    known.gpu = (PyTypeObject *)Py_NewRef(type);
    Py_RETURN_NONE;
}

PyObject *fast_know_streams(PyObject *module, PyObject *type) {
    (void)module;
    if (!PyType_Check(type))
        return PyErr_Format(PyExc_TypeError, "%R is no class", type);
    if (slot_find(type, "handle", &known.stream_handle))
        return NULL;
    known.stream = (PyTypeObject *)Py_NewRef(type);
    Py_RETURN_NONE;
}

/* ---- arrays ---- */

/* The kind of a dtype; NULL with an exception. Kinds and dtypes live as long as the process, as they are few. */
static PyObject *kind_of(PyObject *dtype) {
    enum { KEPT = 4 };
    static struct {
        PyObject *dtype, *kind;
    } kept[KEPT];
    static unsigned next;
    PyObject *kind;

    for (int i = 0; i < KEPT; i++)
        if (kept[i].dtype == dtype)
            return kept[i].kind;
    if (!(kind = PyObject_CallOneArg(known.kind_of, dtype)))
        return NULL;
    kept[next % KEPT].dtype = Py_NewRef(dtype);
    kept[next++ % KEPT].kind = kind;
    return kind;
}

/* An attribute that is an integer of at least 0. */
static bool integer_of(PyObject *object, PyObject *name, size_t *value_p) {
    PyObject *value = PyObject_GetAttr(object, name);

    if (!value)
        return false;
    *value_p = PyLong_AsSize_t(value);
    Py_DECREF(value);
    return !PyErr_Occurred();
}

/* Does the owner of a block say that it is still there? */
static bool is_there(PyObject *owner) {
    PyObject *gone = PyObject_GetAttr(owner, known.gone_name);
    bool there = gone && PyUnicode_Check(gone) && PyUnicode_GET_LENGTH(gone) == 0;

    Py_XDECREF(gone);
    return there;
}

/* The block is still there: its owner, which lives as long as the array; NULL: it is not. */
static PyObject *block_of(PyObject *data) {
    PyObject *mem = PyObject_GetAttr(data, known.mem_name);
    PyObject *owner = mem ? PyObject_GetAttr(mem, known.owner_name) : NULL;
    bool there = owner && is_there(owner);

    Py_XDECREF(owner);
    Py_XDECREF(mem);
    return there ? owner : NULL;
}

/* Places of CuPy's arrays that were found before. An array keeps its memory, size and dtype as long as it lives, and so
 * does the owner of its block, which is asked each time; the weak reference tells it from a later one at its address.
 */
typedef struct found {
    PyObject *weak, *owner;
    fast_place_t place;
} found_t;

static found_t *found_of(PyObject *array) {
    enum { KEPT = 64, SHIFT = 4 };
    static found_t kept[KEPT];

    return &kept[((uintptr_t)array >> SHIFT) % KEPT];
}

static bool is_of(const found_t *found, PyObject *array) {
#ifdef Py_GIL_DISABLED /* then the table would need a lock */
    (void)found, (void)array;
    return false;
#elif PY_VERSION_HEX >= 0x030d0000
    PyObject *object = NULL;
    bool same = found->weak && PyWeakref_GetRef(found->weak, &object) == 1 && object == array;

    Py_XDECREF(object);
    return same;
#else
    return found->weak && PyWeakref_GET_OBJECT(found->weak) == array;
#endif
}

static void keep_place(PyObject *array, PyObject *owner, const fast_place_t *place) {
#ifndef Py_GIL_DISABLED
    found_t *found = found_of(array);
    PyObject *weak = PyWeakref_NewRef(array, NULL), *before = found->weak;

    if (!weak)
        return;
    *found = (found_t){.weak = weak, .owner = owner, .place = *place};
    Py_XDECREF(before);
#else
    (void)array, (void)owner, (void)place;
#endif
}

static bool gpu_place(PyObject *array, fast_place_t *place) {
    const found_t *before = found_of(array);
    PyObject *owner = NULL;

    if (is_of(before, array) && is_there(before->owner)) {
        *place = before->place;
        return true;
    }
    PyErr_Clear();
    PyObject *contiguous = PyObject_GetAttr(array, known.contiguous_name);
    PyObject *data = contiguous == Py_True ? PyObject_GetAttr(array, known.data_name) : NULL;
    PyObject *dtype = data ? PyObject_GetAttr(array, known.dtype_name) : NULL;
    size_t address = 0;
    bool found = dtype && (owner = block_of(data)) && integer_of(data, known.ptr_name, &address) &&
                 integer_of(array, known.nbytes_name, &place->nbytes) && (place->kind = kind_of(dtype));

    place->address = address;
    if (found)
        keep_place(array, owner, place);
    Py_XDECREF(dtype);
    Py_XDECREF(data);
    Py_XDECREF(contiguous);
    PyErr_Clear();
    return found;
}

bool fast_place(PyObject *array, fast_place_t *place) {
    PyObject *nbytes;
    Py_ssize_t size;

    if (known.gpu && Py_IS_TYPE(array, known.gpu))
        return gpu_place(array, place);
    if (!Py_IS_TYPE(array, known.array) || !(nbytes = slot(array, known.nbytes)))
        return false;
    size = PyLong_AsSsize_t(nbytes);
    if (size < 0) /* UNKNOWN or GONE */
        return false;
    place->nbytes = (size_t)size;
    place->address = PyLong_AsUnsignedLongLong(slot(array, known.address));
    place->kind = slot(array, known.kind);
    return true;
}

bool fast_buffer(PyObject *array, PyObject *kind, bool writable, Py_buffer *buffer) {
    PyObject *dtype;
    bool same;

    if (!Py_IS_TYPE(array, known.plain) || !(dtype = PyObject_GetAttr(array, known.dtype_name))) {
        PyErr_Clear();
        return false;
    }
    same = dtype == slot(kind, known.dtype);
    Py_DECREF(dtype);
    if (same && PyObject_GetBuffer(array, buffer, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) == 0)
        return true;
    PyErr_Clear();
    return false;
}

bool fast_nbytes(const fast_place_t *place, Py_ssize_t nelems, size_t *nbytes_p) {
    int element;

    *nbytes_p = place->nbytes;
    if (nelems < 0)
        return true;
    if (!fast_element(place->kind, &element) || (size_t)nelems > place->nbytes / fast_element_nbytes(element))
        return false;
    *nbytes_p = (size_t)nelems * fast_element_nbytes(element);
    return true;
}

bool fast_nothing_kept(void) {
    PyObject *kept = slot(known.ctx_default, known.ctx_kept);

    return kept && PyList_CheckExact(kept) && PyList_GET_SIZE(kept) == 0;
}

PyObject *fast_know_job(PyObject *module, PyObject *asks_keep) {
    (void)module;
    known.asks_keep = asks_keep == Py_True;
    Py_RETURN_NONE;
}

PyObject *fast_keep(const fast_options_t *options, PyObject *array, int pe, size_t reads) {
    PyObject *number, *count, *result = NULL;

    if (!known.asks_keep && !ishmemx_outstanding())
        Py_RETURN_NONE;
    number = PyLong_FromLong(pe);
    count = PyLong_FromSize_t(reads);
    if (number && count)
        result = PyObject_CallMethodObjArgs(options->ctx, known.keep_name, array, number, count, NULL);
    Py_XDECREF(number);
    Py_XDECREF(count);
    return result;
}

/* ---- numbers and options ---- */

/* The dtypes of times are integers to NumPy, and have no __index__. */
PyObject *fast_integer(PyObject *value) {
    PyObject *number;

    if (PyLong_CheckExact(value))
        return Py_NewRef(value);
    if (PyLong_Check(value)) /* a comparison is no value */
        return PyType_IsSubtype(Py_TYPE(value), known.choice) ? NULL : Py_NewRef(value);
    if (!PyType_IsSubtype(Py_TYPE(value), known.integer))
        return NULL;
    if (!(number = PyNumber_Index(value)))
        PyErr_Clear();
    return number;
}

bool fast_float(PyObject *value, double *double_p) {
    if (PyFloat_CheckExact(value) || Py_IS_TYPE(value, known.twice)) { /* NumPy's is one of Python's */
        *double_p = PyFloat_AS_DOUBLE(value);
        return true;
    }
    if (!Py_IS_TYPE(value, known.single) && !PyLong_CheckExact(value))
        return false;
    *double_p = PyLong_CheckExact(value) ? PyLong_AsDouble(value) : PyFloat_AsDouble(value);
    if (*double_p == -1 && PyErr_Occurred()) { /* too large */
        PyErr_Clear();
        return false;
    }
    return true;
}

bool fast_int(PyObject *value, int *int_p) {
    PyObject *integer = fast_integer(value);
    long number;
    int overflow;

    if (!integer)
        return false;
    number = PyLong_AsLongAndOverflow(integer, &overflow);
    Py_DECREF(integer);
    *int_p = (int)number;
    return !overflow && *int_p == number;
}

/* Not of a class that is made of int, as other libraries' enumerations are. */
static bool is_number(PyObject *value) {
    return PyLong_CheckExact(value) || !PyLong_Check(value);
}

bool fast_cmp(PyObject *value, int *int_p) {
    if (!Py_IS_TYPE(value, known.cmp))
        return is_number(value) && fast_int(value, int_p);
    *int_p = (int)PyLong_AsLong(value);
    return true;
}

bool fast_sig_op(PyObject *value, int *int_p) {
    if (!Py_IS_TYPE(value, known.sig_op))
        return is_number(value) && fast_int(value, int_p);
    *int_p = (int)PyLong_AsLong(value);
    return true;
}

/* Kinds live as long as the process. */
bool fast_element(PyObject *kind, int *element_p) {
    static _Thread_local PyObject *last; /* a thread's own: without Python's lock two may come here at once */
    static _Thread_local int last_element;

    if (kind != last) {
        if (!fast_int(slot(kind, known.element), &last_element)) {
            last = NULL;
            return false;
        }
        last = kind;
    }
    *element_p = last_element;
    return last_element >= 0;
}

/* A handle that is not 0 of exactly that class. */
static bool handle_of(PyObject *object, PyTypeObject *type, Py_ssize_t offset, uintptr_t *handle_p) {
    PyObject *handle;

    if (!Py_IS_TYPE(object, type) || !(handle = slot(object, offset)))
        return false;
    *handle_p = PyLong_AsUnsignedLongLong(handle);
    return *handle_p != 0;
}

static bool nelems_of(PyObject *value, Py_ssize_t *nelems_p) {
    if (value == Py_None)
        return true;
    if (!PyLong_CheckExact(value))
        return false;
    *nelems_p = PyLong_AsSsize_t(value);
    if (*nelems_p == -1)
        PyErr_Clear();
    return *nelems_p >= 0;
}

/* The handle of a stream; None: there is none. */
static bool stream_of(PyObject *stream, fast_options_t *options) {
    PyObject *described, *called;
    bool known_one;

    if (stream == Py_None)
        return true;
    options->on_stream = true;
    if (known.stream && Py_IS_TYPE(stream, known.stream))
        return handle_of(stream, known.stream, known.stream_handle, &options->stream);
    if (PyLong_CheckExact(stream)) {
        options->stream = PyLong_AsUnsignedLongLong(stream);
    } else {
        if (!(described = PyObject_GetAttr(stream, known.protocol_name))) {
            PyErr_Clear();
            return false;
        }
        if (PyCallable_Check(described)) {
            called = PyObject_CallNoArgs(described);
            Py_DECREF(described);
            described = called;
        }
        known_one = described && PyTuple_CheckExact(described) && PyTuple_GET_SIZE(described) == 2;
        if (known_one)
            options->stream = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(described, 1));
        Py_XDECREF(described);
        if (!known_one) {
            PyErr_Clear();
            return false;
        }
    }
    if (!PyErr_Occurred())
        return true;
    PyErr_Clear();
    return false;
}

static bool context_of(PyObject *ctx, fast_options_t *options) {
    options->ctx = ctx;
    return handle_of(ctx, known.context, known.ctx_handle, &options->handle);
}

bool fast_ctx_options(PyObject *const *named, PyObject *names, int allowed, fast_options_t *options) {
    Py_ssize_t n = names ? PyTuple_GET_SIZE(names) : 0;

    *options = (fast_options_t){.nelems = -1, .handle = (uintptr_t)&ishmemx_ctx_default, .ctx = known.ctx_default};
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        bool understood = false;
        if (allowed & FAST_NELEMS && name == known.nelems_name)
            understood = nelems_of(named[i], &options->nelems);
        else if (allowed & FAST_STREAM && name == known.stream_name)
            understood = stream_of(named[i], options);
        else if (name == known.ctx_name)
            understood = named[i] == Py_None || context_of(named[i], options);
        if (!understood)
            return false;
    }
    return true;
}

bool fast_team_options(PyObject *const *named, PyObject *names, fast_options_t *options) {
    Py_ssize_t n = names ? PyTuple_GET_SIZE(names) : 0;

    *options = (fast_options_t){.nelems = -1, .handle = (uintptr_t)&ishmemx_team_world};
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        bool understood = false;
        if (name == known.nelems_name)
            understood = nelems_of(named[i], &options->nelems);
        else if (name == known.team_name)
            understood = handle_of(named[i], known.team, known.team_handle, &options->handle);
        else if (name == known.stream_name)
            understood = stream_of(named[i], options);
        if (!understood)
            return false;
    }
    return true;
}

PyObject *fast_finish(int status) {
    PyObject *none;

    if (!status)
        Py_RETURN_NONE;
    /* Python names the dtypes, the library its own types; and it loads kernels. */
    if (status == ISHMEMX_ERR_TYPE || status == ISHMEMX_ERR_UNPREPARED)
        return NULL;
    none = PyObject_CallFunction(known.fail, "i", status);
    Py_XDECREF(none);
    if (none)
        PyErr_SetString(PyExc_SystemError, "fail() returned");
    return NULL;
}
