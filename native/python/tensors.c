/* SPDX-License-Identifier: BSD-3-Clause
 * Where torch's tensors are, and what a launch depends on of them, by DLPack's functions of C: a look by Python costs
 * microseconds, tens of them where it is an array interface. */
#include "fast.h"

#include <string.h>

/* ---- of dlpack.h 1.3 ---- */

enum { DL_HOST = 1, DL_CUDA = 2, DL_CUDA_PINNED = 3, DL_CUDA_MANAGED = 13 };
enum { DL_COMPLEX = 5 };

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id, ndim;
    uint32_t dtype; /* code, bits, lanes */
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor_t;

typedef struct dl_exchange {
    uint32_t major, minor;
    void *before;
    void *allocate, *from_object, *to_object;
    int (*look)(void *object, dl_tensor_t *tensor);
} dl_exchange_t;

static struct {
    const dl_exchange_t *api;
    PyTypeObject *tensor, *parameter;
    PyObject *is_neg, *requires_grad;
} torch;

/* know_tensors(capsule, Tensor, Parameter): whether they can be looked at. */
PyObject *fast_know_tensors(PyObject *module, PyObject *args) {
    PyObject *capsule, *tensor, *parameter;
    const dl_exchange_t *api;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O!", &capsule, &PyType_Type, &tensor, &PyType_Type, &parameter))
        return NULL;
    api =
        PyCapsule_IsValid(capsule, "dlpack_exchange_api") ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    if (!api || api->major != 1 || !api->look)
        Py_RETURN_FALSE;
    torch.is_neg = PyUnicode_InternFromString("is_neg");
    torch.requires_grad = PyUnicode_InternFromString("requires_grad");
    if (!torch.is_neg || !torch.requires_grad)
        return NULL;
    torch.tensor = (PyTypeObject *)Py_NewRef(tensor);
    torch.parameter = (PyTypeObject *)Py_NewRef(parameter);
    torch.api = api; /* torch keeps it for good */
    Py_RETURN_TRUE;
}

/* An attribute, or what a method returns, is False. */
static bool is_false(PyObject *value) {
    bool yes = value == Py_False;

    Py_XDECREF(value);
    return yes;
}

/* ---- where its elements are ---- */

static bool is_contiguous(const dl_tensor_t *tensor, uint64_t *size_p) {
    uint64_t size = 1;

    for (int32_t k = tensor->ndim - 1; k >= 0; k--) {
        if (tensor->shape[k] != 1 && tensor->strides[k] != (int64_t)size)
            return false;
        size *= (uint64_t)tensor->shape[k];
    }
    *size_p = size;
    return true;
}

/* tensor(object): the address, bytes and dtype (DLPack's code, bits and lanes in a word) of a tensor that is nothing
 * but contiguous elements; None: of anything else, for which Python has words. DLPack does not tell here of torch's
 * conjugate bit, so complex numbers are for Python. */
PyObject *fast_tensor(PyObject *module, PyObject *object) {
    dl_tensor_t tensor;
    uint64_t size;

    (void)module;
    if (!torch.api || (!Py_IS_TYPE(object, torch.tensor) && !Py_IS_TYPE(object, torch.parameter)))
        Py_RETURN_NONE;
    if (!torch.api->look(object, &tensor) && tensor.data && (!tensor.ndim || tensor.strides) &&
        (tensor.device_type == DL_HOST || tensor.device_type == DL_CUDA || tensor.device_type == DL_CUDA_PINNED ||
         tensor.device_type == DL_CUDA_MANAGED) &&
        (tensor.dtype & 0xff) != DL_COMPLEX && is_contiguous(&tensor, &size) &&
        is_false(PyObject_CallMethodNoArgs(object, torch.is_neg)) &&
        is_false(PyObject_GetAttr(object, torch.requires_grad))) {
        uint64_t bits = (tensor.dtype >> 8 & 0xff) * (tensor.dtype >> 16);
        return Py_BuildValue("(KKI)", (unsigned long long)(uintptr_t)tensor.data + tensor.byte_offset,
                             (unsigned long long)(size * (bits / 8)), tensor.dtype);
    }
    PyErr_Clear();
    Py_RETURN_NONE;
}

/* ---- what a launch depends on ---- */

enum { MOST_BYTES = 1024, MOST_DIMS = 8 };

typedef struct facts {
    size_t nbytes;
    char bytes[MOST_BYTES];
} facts_t;

static bool add(facts_t *key, const void *bytes, size_t nbytes) {
    if (key->nbytes + nbytes > MOST_BYTES)
        return false;
    memcpy(key->bytes + key->nbytes, bytes, nbytes);
    key->nbytes += nbytes;
    return true;
}

/* False: Python has to look, at a tensor of another kind or one that wants a gradient; or an exception is set. */
static bool look_at(facts_t *key, PyObject *object, bool grad) {
    const char kind = object == Py_None                     ? 'n'
                      : Py_IS_TYPE(object, torch.tensor)    ? 't'
                      : Py_IS_TYPE(object, torch.parameter) ? 'p'
                                                            : 0;
    dl_tensor_t tensor;
    size_t nbytes;

    if (!kind || !add(key, &kind, 1))
        return false;
    if (kind == 'n')
        return true;
    if (torch.api->look(object, &tensor) || tensor.ndim > MOST_DIMS || !tensor.strides ||
        !is_false(PyObject_CallMethodNoArgs(object, torch.is_neg)) ||
        (grad && !is_false(PyObject_GetAttr(object, torch.requires_grad))))
        return false;
    nbytes = (size_t)tensor.ndim * sizeof *tensor.shape;
    return add(key, &tensor.device_type, sizeof tensor.device_type) &&
           add(key, &tensor.device_id, sizeof tensor.device_id) && add(key, &tensor.dtype, sizeof tensor.dtype) &&
           add(key, &tensor.ndim, sizeof tensor.ndim) && add(key, tensor.shape, nbytes) &&
           add(key, tensor.strides, nbytes);
}

/* look(grad, *tensors): bytes that differ where sizes, strides, dtypes, devices or classes do; None: Python has to
 * look. `grad`: gradients are recorded, so that a tensor that wants one is for Python. */
PyObject *fast_look(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    facts_t key = {.nbytes = 0};

    (void)module;
    if (!torch.api || !n_args)
        Py_RETURN_NONE;
    for (Py_ssize_t i = 1; i < n_args; i++)
        if (!look_at(&key, args[i], args[0] == Py_True)) {
            PyErr_Clear();
            Py_RETURN_NONE;
        }
    return PyBytes_FromStringAndSize(key.bytes, (Py_ssize_t)key.nbytes);
}
