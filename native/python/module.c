/* SPDX-License-Identifier: BSD-3-Clause
 * The class Call and the module. */
#include "fast.h"

#include <string.h>
#include <structmember.h>

static vectorcallfunc entry_of(const char *family) {
    static const fast_family_t *const tables[] = {fast_rma_families, fast_atomic_families, fast_signal_families,
                                                  fast_team_families};

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const fast_family_t *row = tables[i]; row->name; row++)
            if (!strcmp(row->name, family))
                return row->entry;
    return NULL;
}

static PyObject *call_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    PyObject *slow;
    const char *family;
    int op = 0;
    vectorcallfunc entry;
    fast_call_t *call;

    if (names || !PyArg_ParseTuple(args, "Os|i:Call", &slow, &family, &op))
        return NULL;
    if (!(entry = entry_of(family)))
        return PyErr_Format(PyExc_ValueError, "there is no family %s", family);
    call = (fast_call_t *)type->tp_alloc(type, 0);
    if (!call)
        return NULL;
    call->vectorcall = entry;
    call->slow = Py_NewRef(slow);
    call->op = op;
    return (PyObject *)call;
}

static int call_traverse(PyObject *self, visitproc visit, void *arg) {
    fast_call_t *call = (fast_call_t *)self;

    Py_VISIT(call->slow);
    Py_VISIT(call->dict);
    return 0;
}

static int call_clear(PyObject *self) {
    fast_call_t *call = (fast_call_t *)self;

    Py_CLEAR(call->dict);
    return 0; /* never without `slow` */
}

static void call_dealloc(PyObject *self) {
    fast_call_t *call = (fast_call_t *)self;

    PyObject_GC_UnTrack(self);
    if (call->weakrefs)
        PyObject_ClearWeakRefs(self);
    call_clear(self);
    Py_CLEAR(call->slow);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *call_repr(PyObject *self) {
    return PyUnicode_FromFormat("<fast %R>", ((fast_call_t *)self)->slow);
}

/* Names the function for pickle, which finds it in its module. */
static PyObject *call_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}

/* With it help() and inspect take a Call for a routine. It is no method, and binds to nothing. */
static PyObject *call_get(PyObject *self, PyObject *object, PyObject *type) {
    (void)object, (void)type;
    return Py_NewRef(self);
}

static PyMethodDef call_methods[] = {{"__reduce__", call_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyGetSetDef call_attributes[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                                        {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject call_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyshmem._core._fast.Call",
    .tp_basicsize = sizeof(fast_call_t),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = call_new,
    .tp_dealloc = call_dealloc,
    .tp_traverse = call_traverse,
    .tp_clear = call_clear,
    .tp_repr = call_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(fast_call_t, vectorcall),
    .tp_dictoffset = offsetof(fast_call_t, dict),
    .tp_weaklistoffset = offsetof(fast_call_t, weakrefs),
    .tp_descr_get = call_get,
    .tp_methods = call_methods,
    .tp_getset = call_attributes,
};

static PyObject *setup(PyObject *module, PyObject *args) {
    (void)module;
    if (fast_arguments_setup(args))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"setup", setup, METH_VARARGS, NULL},
                                  {"know_gpu_arrays", fast_know_gpu_arrays, METH_VARARGS, NULL},
                                  {"know_streams", fast_know_streams, METH_O, NULL},
                                  {"know_tensors", fast_know_tensors, METH_VARARGS, NULL},
                                  {"tensor", fast_tensor, METH_O, NULL},
                                  {"look", (PyCFunction)(void (*)(void))fast_look, METH_FASTCALL, NULL},
                                  {"know_job", fast_know_job, METH_O, NULL},
                                  {"tell_missing", fast_tell_missing, METH_VARARGS, NULL},
                                  {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "pyshmem._core._fast", .m_size = -1,
                                    .m_methods = functions};

PyMODINIT_FUNC PyInit__fast(void) {
    PyObject *made;

    if (PyType_Ready(&call_type) || fast_launch_setup() || !(made = PyModule_Create(&module)))
        return NULL;
    if (PyModule_AddObjectRef(made, "Call", (PyObject *)&call_type) ||
        PyModule_AddObjectRef(made, "Launch", (PyObject *)&fast_launch_type)) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
