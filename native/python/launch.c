/* SPDX-License-Identifier: BSD-3-Clause
 * The class Launch: a kernel that another library has loaded, with all of its arguments but the first ones. */
#include "fast.h"

enum { MOST = 64, UNIT = 16 }; /* arguments; what compiled code knows addresses to be multiples of */

typedef struct launch {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *kept; /* owner of the kernel */
    ishmemx_loaded_t kernel;
    Py_ssize_t in_front, count; /* arguments that each call gives; all of them */
    char kinds[MOST];           /* see size_of() */
    uint64_t words[MOST];       /* the low bytes are what the kernel takes */
} launch_t;

static PyObject *data_ptr_name;

/* Bytes of an argument: addresses, integers with and without sign, float32, float64. 0: there is no such kind. */
static size_t size_of(char kind) {
    switch (kind) {
    case 'P':
    case 'q':
    case 'Q':
    case 'd':
        return 8;
    case 'i':
    case 'I':
    case 'f':
        return 4;
    default:
        return 0;
    }
}

/* An int, or what has data_ptr(), as tensors do. */
static int address_of(PyObject *value, uint64_t *word) {
    PyObject *number;

    if (PyLong_Check(value)) {
        *word = PyLong_AsUnsignedLongLong(value);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (!(number = PyObject_CallMethodNoArgs(value, data_ptr_name)))
        return -1;
    *word = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

static int integer_of(char kind, PyObject *value, uint64_t *word) {
    bool negative = kind == 'i' || kind == 'q', narrow = kind == 'i' || kind == 'I';
    long long number = negative ? PyLong_AsLongLong(value) : 0;
    unsigned long long positive = negative ? 0 : PyLong_AsUnsignedLongLong(value);

    if (PyErr_Occurred())
        return -1;
    if (narrow && (negative ? number != (int32_t)number : positive != (uint32_t)positive)) {
        PyErr_SetString(PyExc_OverflowError, "an argument of a kernel is an integer of 32 bits");
        return -1;
    }
    *word = negative ? (uint64_t)number : positive;
    return 0;
}

static int real_of(char kind, PyObject *value, uint64_t *word) {
    union {
        double twice;
        float once;
        uint64_t word;
    } bits = {.word = 0};
    double number = PyFloat_AsDouble(value);

    if (number == -1 && PyErr_Occurred())
        return -1;
    if (kind == 'd')
        bits.twice = number;
    else
        bits.once = (float)number;
    *word = bits.word;
    return 0;
}

static int word_of(char kind, PyObject *value, uint64_t *word) {
    if (kind == 'P')
        return address_of(value, word);
    return kind == 'f' || kind == 'd' ? real_of(kind, value, word) : integer_of(kind, value, word);
}

/* Of an argument that is given twice the address is asked for once. */
static int given_word(const launch_t *launch, PyObject *const *given, Py_ssize_t i, uint64_t *words) {
    if (launch->kinds[i] == 'P')
        for (Py_ssize_t k = 0; k < i; k++)
            if (given[k] == given[i] && launch->kinds[k] == 'P') {
                words[i] = words[k];
                return 0;
            }
    return word_of(launch->kinds[i], given[i], &words[i]);
}

/* launch(stream, *in_front): True; False, and nothing is launched, where an address is not a multiple of UNIT. */
static PyObject *launch_call(PyObject *self, PyObject *const *args, size_t n_flagged, PyObject *names) {
    launch_t *launch = (launch_t *)self;
    Py_ssize_t n_args = PyVectorcall_NARGS(n_flagged);
    uint64_t words[MOST], stream, together = 0;
    void *arguments[MOST];
    int status;

    if (names || n_args != launch->in_front + 1)
        return PyErr_Format(PyExc_TypeError, "a stream and %zd arguments are wanted", launch->in_front);
    stream = PyLong_AsUnsignedLongLong(args[0]);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < launch->count; i++) {
        if (i >= launch->in_front)
            words[i] = launch->words[i];
        else if (given_word(launch, args + 1, i, words))
            return NULL;
        else if (launch->kinds[i] == 'P')
            together |= words[i];
        arguments[i] = &words[i];
    }
    if (together % UNIT)
        Py_RETURN_FALSE;
    Py_BEGIN_ALLOW_THREADS /* a full queue waits for what other threads may have to do */
        status = ishmemx_loaded_launch(&launch->kernel, arguments, (void *)(uintptr_t)stream);
    Py_END_ALLOW_THREADS if (status) return fast_finish(status);
    Py_RETURN_TRUE;
}

/* (function, (x, y, z), threads, shared, cooperative, early, kinds, in_front, rest, kept) */
static PyObject *launch_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    launch_t *launch = (launch_t *)type->tp_alloc(type, 0);
    unsigned long long function;
    const char *kinds;
    PyObject *rest, *kept;
    Py_ssize_t count;

    if (!launch)
        return NULL;
    if (names || !PyArg_ParseTuple(args, "K(III)IIppsnO!O:Launch", &function, &launch->kernel.grid[0],
                                   &launch->kernel.grid[1], &launch->kernel.grid[2], &launch->kernel.threads,
                                   &launch->kernel.shared, &launch->kernel.cooperative, &launch->kernel.early, &kinds,
                                   &launch->in_front, &PyTuple_Type, &rest, &kept))
        goto failed;
    count = (Py_ssize_t)strlen(kinds);
    if (count > MOST || launch->in_front < 0 || launch->in_front + PyTuple_GET_SIZE(rest) != count ||
        (Py_ssize_t)strspn(kinds, "PqQdiIf") != count) {
        PyErr_Format(PyExc_ValueError, "arguments of kinds %s, of which %zd come first and %zd are known", kinds,
                     launch->in_front, PyTuple_GET_SIZE(rest));
        goto failed;
    }
    for (Py_ssize_t i = launch->in_front; i < count; i++)
        if (word_of(kinds[i], PyTuple_GET_ITEM(rest, i - launch->in_front), &launch->words[i]))
            goto failed;
    memcpy(launch->kinds, kinds, (size_t)count);
    launch->kernel.function = (void *)(uintptr_t)function;
    launch->count = count;
    launch->kept = Py_NewRef(kept);
    launch->vectorcall = launch_call;
    return (PyObject *)launch;
failed:
    Py_DECREF(launch);
    return NULL;
}

static void launch_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(((launch_t *)self)->kept);
    Py_TYPE(self)->tp_free(self);
}

static int launch_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((launch_t *)self)->kept);
    return 0;
}

/* takes(): whether the kernel has these arguments and no others, as far as the driver says. */
static PyObject *launch_takes(PyObject *self, PyObject *unused) {
    launch_t *launch = (launch_t *)self;
    size_t nbytes[MOST];
    int takes = 0, status;

    (void)unused;
    for (Py_ssize_t i = 0; i < launch->count; i++)
        nbytes[i] = size_of(launch->kinds[i]);
    status = ishmemx_loaded_takes(&launch->kernel, (int)launch->count, nbytes, &takes);
    return status ? fast_finish(status) : PyBool_FromLong(takes);
}

static PyMethodDef launch_methods[] = {{"takes", launch_takes, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

PyTypeObject fast_launch_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyshmem._core._fast.Launch",
    .tp_basicsize = sizeof(launch_t),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_new = launch_new,
    .tp_dealloc = launch_dealloc,
    .tp_traverse = launch_traverse,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(launch_t, vectorcall),
    .tp_methods = launch_methods,
};

int fast_launch_setup(void) {
    data_ptr_name = PyUnicode_InternFromString("data_ptr");
    return data_ptr_name ? PyType_Ready(&fast_launch_type) : -1;
}
