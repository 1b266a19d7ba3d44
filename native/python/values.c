/* SPDX-License-Identifier: BSD-3-Clause
 * One value between Python and an element. */
#include "fast.h"

#include <math.h>
#include <string.h>

#include "base/elements.h"

enum form { NEITHER, SIGNED, UNSIGNED, FLOAT };

/* Three have the C type of an integer, but are none. */
#define FORM(_name, _ctype, _nbytes)                                                            \
    {_nbytes, PYSH_TYPE_##_name == PYSH_TYPE_half || PYSH_TYPE_##_name == PYSH_TYPE_bfloat16 || \
                      PYSH_TYPE_##_name == ISHMEMX_TYPE_BOOL                                    \
                  ? NEITHER                                                                     \
                  : _Generic((_ctype)0,                                                         \
                      float: FLOAT,                                                             \
                      double: FLOAT,                                                            \
                      int8_t: SIGNED,                                                           \
                      int16_t: SIGNED,                                                          \
                      int32_t: SIGNED,                                                          \
                      int64_t: SIGNED,                                                          \
                      uint8_t: UNSIGNED,                                                        \
                      uint16_t: UNSIGNED,                                                       \
                      uint32_t: UNSIGNED,                                                       \
                      uint64_t: UNSIGNED,                                                       \
                      default: NEITHER)},
static const struct {
    size_t nbytes;
    enum form form;
} elements[] = {ISHMEMX_ELEMENTS(FORM)};
#undef FORM

size_t fast_element_nbytes(int element) {
    return elements[element].nbytes;
}

static bool float_in(size_t nbytes, PyObject *value, uint64_t *bits_p) {
    double wide;
    float narrow;

    if (!fast_float(value, &wide))
        return false;
    narrow = (float)wide;
    memcpy(bits_p, nbytes == sizeof wide ? (void *)&wide : (void *)&narrow, nbytes);
    return nbytes == sizeof wide || isinf(wide) || !isinf(narrow);
}

static bool signed_in(size_t nbytes, PyObject *value, uint64_t *bits_p) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    int unused = 64 - 8 * (int)nbytes;

    *bits_p = (uint64_t)number;
    return !overflow && (int64_t)((uint64_t)number << unused) >> unused == number;
}

static bool unsigned_in(size_t nbytes, PyObject *value, uint64_t *bits_p) {
    unsigned long long number = PyLong_AsUnsignedLongLong(value);

    if (number == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        return false;
    }
    *bits_p = number;
    return nbytes == 8 || number >> 8 * nbytes == 0;
}

bool fast_value_in(int element, PyObject *value, uint64_t *bits_p) {
    enum form form = elements[element].form;
    PyObject *number;
    bool held;

    *bits_p = 0;
    if (form == FLOAT)
        return float_in(elements[element].nbytes, value, bits_p);
    if (form == NEITHER || !(number = fast_integer(value)))
        return false;
    held = (form == SIGNED ? signed_in : unsigned_in)(elements[element].nbytes, number, bits_p);
    Py_DECREF(number);
    return held;
}

PyObject *fast_value_out(int element, uint64_t bits) {
    size_t nbytes = elements[element].nbytes;
    int unused = 64 - 8 * (int)nbytes;
    double wide;
    float narrow;

    switch (elements[element].form) {
    case SIGNED:
        return PyLong_FromLongLong((int64_t)(bits << unused) >> unused);
    case UNSIGNED:
        return PyLong_FromUnsignedLongLong(bits << unused >> unused);
    case FLOAT:
        memcpy(&wide, &bits, sizeof wide);
        memcpy(&narrow, &bits, sizeof narrow);
        return PyFloat_FromDouble(nbytes == sizeof wide ? wide : (double)narrow);
    default:
        return NULL;
    }
}

bool fast_has_values(int element) {
    return elements[element].form != NEITHER;
}
