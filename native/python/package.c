/* SPDX-License-Identifier: BSD-3-Clause
 * The class of the package as a module, which says what is meant by names of other libraries.
 *
 * A function __getattr__ in the module would do that too, but its presence alone takes from Python the short
 * way to all names that there are: each `pyshmem.p` then looks through the class of modules first. Here what
 * is there is found by one look, and the function is called for what is not. */
#include "fast.h"

static PyObject *missing; /* what raises the error, given the name */

static PyObject *package_getattro(PyObject *module, PyObject *name) {
    PyObject *value = NULL;

    /* Names of the class, such as __class__ and __dict__, are in no module's dict. */
#if PY_VERSION_HEX >= 0x030d0000
    if (PyDict_GetItemRef(PyModule_GetDict(module), name, &value) < 0 || value)
        return value;
#else
    value = PyDict_GetItemWithError(PyModule_GetDict(module), name);
    if (value || PyErr_Occurred())
        return Py_XNewRef(value);
#endif
    value = PyModule_Type.tp_getattro(module, name);
    if (value || !missing || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return value;
    PyErr_Clear();
    return PyObject_CallOneArg(missing, name);
}

/* To those who pickle a function with what it names, such as pyshmem.launch, the package is a module: by its name. */
static PyObject *package_reduce(PyObject *module, PyObject *unused) {
    PyObject *name, *import, *importlib, *reduced = NULL;

    (void)unused;
    name = PyModule_GetNameObject(module);
    importlib = name ? PyImport_ImportModule("importlib") : NULL;
    import = importlib ? PyObject_GetAttrString(importlib, "import_module") : NULL;
    if (import)
        reduced = Py_BuildValue("O(O)", import, name);
    Py_XDECREF(import);
    Py_XDECREF(importlib);
    Py_XDECREF(name);
    return reduced;
}

static PyMethodDef package_methods[] = {
    {"__reduce__", package_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject package_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pyshmem._core._fast.Package",
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_getattro = package_getattro,
    .tp_methods = package_methods,
};

/* (module, function): the function gets each name that the module does not have, and raises. */
PyObject *fast_tell_missing(PyObject *unused, PyObject *args) {
    PyObject *module, *function;

    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O", &PyModule_Type, &module, &function))
        return NULL;
    package_type.tp_base = &PyModule_Type;
    if (PyType_Ready(&package_type) || PyObject_SetAttrString(module, "__class__", (PyObject *)&package_type))
        return NULL;
    Py_XSETREF(missing, Py_NewRef(function));
    Py_RETURN_NONE;
}
