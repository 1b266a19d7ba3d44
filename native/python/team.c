/* SPDX-License-Identifier: BSD-3-Clause
 * Synchronisation, and the collectives whose speed is that of a call. */
#include "fast.h"

#include <string.h>

#include "base/elements.h"

static PyObject *barrier_all(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    int status;

    (void)call, (void)args;
    if (n_args || names || !fast_nothing_kept())
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = ishmemx_barrier_all();
    Py_END_ALLOW_THREADS return fast_finish(status);
}

static PyObject *sync_all(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    int status;

    (void)call, (void)args;
    if (n_args || names)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = ishmemx_team_sync(&ishmemx_team_world);
    Py_END_ALLOW_THREADS return fast_finish(status);
}

static PyObject *quiet(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    int status;

    (void)call, (void)args;
    if (n_args || names || !fast_nothing_kept())
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = ishmemx_quiet(&ishmemx_ctx_default);
    Py_END_ALLOW_THREADS return fast_finish(status);
}

static PyObject *fence(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    int status;

    (void)call, (void)args;
    if (n_args || names)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = ishmemx_fence(&ishmemx_ctx_default);
    Py_END_ALLOW_THREADS return fast_finish(status);
}

/* Arrays that only a GPU reaches are a kernel's affair, on the library's own stream where none is given. */
#define ON_STREAM(_sides) \
    ((_sides)->options.on_stream || ishmemx_only_gpu((void *)(_sides)->dest.address, (void *)(_sides)->source.address))
#define STREAM(_sides) ((_sides)->options.on_stream ? (void *)(_sides)->options.stream : ISHMEMX_STREAM_OWN)

/* dest and source of one kind, and a team; `source` has the size unless nelems is given. */
typedef struct sides {
    fast_place_t dest, source;
    fast_options_t options;
    size_t nbytes;
} sides_t;

static bool sides_of(PyObject *const *args, PyObject *const *named, PyObject *names, sides_t *sides) {
    return fast_team_options(named, names, &sides->options) && fast_place(args[0], &sides->dest) &&
           fast_place(args[1], &sides->source) && sides->dest.kind == sides->source.kind &&
           fast_nbytes(&sides->source, sides->options.nelems, &sides->nbytes);
}

/* broadcast(dest, source, root) */
static PyObject *broadcast(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    sides_t sides;
    int root, status;

    (void)call;
    if (n_args != 3 || !fast_int(args[2], &root) || !sides_of(args, args + 3, names, &sides) ||
        sides.nbytes > sides.dest.nbytes)
        return NULL;
    Py_BEGIN_ALLOW_THREADS if (ON_STREAM(&sides)) status =
        ishmemx_broadcast_on_stream((ishmemx_team_t)sides.options.handle, (void *)sides.dest.address,
                                    (void *)sides.source.address, sides.nbytes, root, STREAM(&sides));
    else status = ishmemx_broadcast((ishmemx_team_t)sides.options.handle, (void *)sides.dest.address,
                                    (void *)sides.source.address, sides.nbytes, root);
    Py_END_ALLOW_THREADS return fast_finish(status);
}

/* fcollect(dest, source) */
static PyObject *fcollect(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    sides_t sides;
    int n_pes, status;

    (void)call;
    if (n_args != 2 || !sides_of(args, args + 2, names, &sides))
        return NULL;
    n_pes = ishmemx_team_n_pes((ishmemx_team_t)sides.options.handle);
    if (n_pes < 1 || sides.nbytes > sides.dest.nbytes / (size_t)n_pes)
        return NULL;
    Py_BEGIN_ALLOW_THREADS if (ON_STREAM(&sides)) status =
        ishmemx_fcollect_on_stream((ishmemx_team_t)sides.options.handle, (void *)sides.dest.address,
                                   (void *)sides.source.address, sides.nbytes, STREAM(&sides));
    else status = ishmemx_fcollect((ishmemx_team_t)sides.options.handle, (void *)sides.dest.address,
                                   (void *)sides.source.address, sides.nbytes);
    Py_END_ALLOW_THREADS return fast_finish(status);
}

static const unsigned families[ISHMEMX_REDUCE_COUNT] = {
    [ISHMEMX_REDUCE_AND] = PYSH_FAMILY_REDUCE_BITWISE,     [ISHMEMX_REDUCE_OR] = PYSH_FAMILY_REDUCE_BITWISE,
    [ISHMEMX_REDUCE_XOR] = PYSH_FAMILY_REDUCE_BITWISE,     [ISHMEMX_REDUCE_MAX] = PYSH_FAMILY_REDUCE_ORDER,
    [ISHMEMX_REDUCE_MIN] = PYSH_FAMILY_REDUCE_ORDER,       [ISHMEMX_REDUCE_SUM] = PYSH_FAMILY_REDUCE_ARITHMETIC,
    [ISHMEMX_REDUCE_PROD] = PYSH_FAMILY_REDUCE_ARITHMETIC,
};

/* sum_reduce(dest, source) and the other reductions */
static PyObject *reduce(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    sides_t sides;
    int element, status;

    if (n_args != 2 || !sides_of(args, args + 2, names, &sides) || sides.nbytes > sides.dest.nbytes ||
        !fast_element(sides.source.kind, &element) || !(families[call->op] >> element & 1) ||
        (element == ISHMEMX_TYPE_LONGDOUBLE && ON_STREAM(&sides)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS if (ON_STREAM(&sides)) status = ishmemx_reduce_on_stream(
        (ishmemx_team_t)sides.options.handle, call->op, element, (void *)sides.dest.address,
        (void *)sides.source.address, sides.nbytes / fast_element_nbytes(element), STREAM(&sides));
    else status = ishmemx_reduce((ishmemx_team_t)sides.options.handle, call->op, element, (void *)sides.dest.address,
                                 (void *)sides.source.address, sides.nbytes / fast_element_nbytes(element));
    Py_END_ALLOW_THREADS return fast_finish(status);
}

static FAST_ENTRY(barrier_all) static FAST_ENTRY(sync_all) static FAST_ENTRY(quiet) static FAST_ENTRY(
    fence) static FAST_ENTRY(broadcast) static FAST_ENTRY(fcollect) static FAST_ENTRY(reduce)

    vectorcallfunc fast_team_entry(const char *family) {
    if (!strcmp(family, "barrier_all"))
        return barrier_all_call;
    if (!strcmp(family, "sync_all"))
        return sync_all_call;
    if (!strcmp(family, "quiet"))
        return quiet_call;
    if (!strcmp(family, "fence"))
        return fence_call;
    if (!strcmp(family, "broadcast"))
        return broadcast_call;
    if (!strcmp(family, "fcollect"))
        return fcollect_call;
    return strcmp(family, "reduce") ? NULL : reduce_call;
}
