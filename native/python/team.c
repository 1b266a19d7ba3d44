/* SPDX-License-Identifier: BSD-3-Clause
 * Synchronisation, and the collectives whose speed is that of a call. */
#include "fast.h"

#include <string.h>

#include "base/elements.h"

/* Nothing is given but a stream, by name. */
static bool only_stream(PyObject *const *named, Py_ssize_t n_args, PyObject *names, void **stream_p) {
    fast_options_t options;

    if (n_args || !names || PyTuple_GET_SIZE(names) != 1 || !fast_ctx_options(named, names, FAST_STREAM, &options) ||
        !options.on_stream)
        return false;
    *stream_p = (void *)options.stream;
    return true;
}

static PyObject *barrier_all(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    void *stream;
    int status;

    (void)call;
    if (only_stream(args, n_args, names, &stream)) {
        Py_BEGIN_ALLOW_THREADS status = ishmemx_barrier_all_on_stream(stream);
        Py_END_ALLOW_THREADS return fast_finish(status);
    }
    if (n_args || names || !fast_nothing_kept())
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = ishmemx_barrier_all();
    Py_END_ALLOW_THREADS return fast_finish(status);
}

static PyObject *sync_all(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    void *stream;
    int status;

    (void)call;
    if (only_stream(args, n_args, names, &stream)) {
        Py_BEGIN_ALLOW_THREADS status = ishmemx_sync_on_stream(&ishmemx_team_world, stream);
        Py_END_ALLOW_THREADS return fast_finish(status);
    }
    if (n_args || names)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = ishmemx_team_sync(&ishmemx_team_world);
    Py_END_ALLOW_THREADS return fast_finish(status);
}

static PyObject *quiet(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    PyThreadState *left;
    void *stream;
    int status;

    (void)call;
    if (only_stream(args, n_args, names, &stream)) {
        Py_BEGIN_ALLOW_THREADS status = ishmemx_quiet_on_stream(stream);
        Py_END_ALLOW_THREADS return fast_finish(status);
    }
    if (n_args || names || !fast_nothing_kept())
        return NULL;
    left = fast_unlock(ishmemx_is_quiet());
    status = ishmemx_quiet(&ishmemx_ctx_default);
    fast_lock(left);
    return fast_finish(status);
}

static PyObject *fence(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    PyThreadState *left;
    int status;

    (void)call, (void)args;
    if (n_args || names)
        return NULL;
    left = fast_unlock(ishmemx_is_quiet());
    status = ishmemx_fence(&ishmemx_ctx_default);
    fast_lock(left);
    return fast_finish(status);
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

/* The bytes of a block of `source`, which holds one for each PE. */
static bool block_of(const sides_t *sides, int n_pes, int element, size_t *nbytes_p) {
    size_t width = fast_element_nbytes(element);

    *nbytes_p = sides->options.nelems < 0 ? sides->nbytes / (size_t)n_pes : sides->nbytes;
    return *nbytes_p % width == 0 && (sides->options.nelems >= 0 || *nbytes_p * (size_t)n_pes == sides->nbytes) &&
           *nbytes_p <= sides->source.nbytes / (size_t)n_pes;
}

/* alltoall(dest, source) */
static PyObject *alltoall(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    sides_t sides;
    size_t nbytes;
    int n_pes, element, status;

    (void)call;
    if (n_args != 2 || !sides_of(args, args + 2, names, &sides) || !fast_element(sides.source.kind, &element))
        return NULL;
    n_pes = ishmemx_team_n_pes((ishmemx_team_t)sides.options.handle);
    if (n_pes < 1 || !block_of(&sides, n_pes, element, &nbytes) || nbytes > sides.dest.nbytes / (size_t)n_pes)
        return NULL;
    Py_BEGIN_ALLOW_THREADS if (ON_STREAM(&sides)) status =
        ishmemx_alltoall_on_stream((ishmemx_team_t)sides.options.handle, (void *)sides.dest.address,
                                   (void *)sides.source.address, nbytes, STREAM(&sides));
    else status = ishmemx_alltoall((ishmemx_team_t)sides.options.handle, (void *)sides.dest.address,
                                   (void *)sides.source.address, nbytes);
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

/* sum_reduce_scatter(dest, source) and the others */
static PyObject *reduce_scatter(const fast_call_t *call, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    sides_t sides;
    size_t nbytes, count;
    int n_pes, element, status;

    if (n_args != 2 || !sides_of(args, args + 2, names, &sides) || !fast_element(sides.source.kind, &element) ||
        !(families[call->op] >> element & 1) || (element == ISHMEMX_TYPE_LONGDOUBLE && ON_STREAM(&sides)))
        return NULL;
    n_pes = ishmemx_team_n_pes((ishmemx_team_t)sides.options.handle);
    if (n_pes < 1 || !block_of(&sides, n_pes, element, &nbytes) || nbytes > sides.dest.nbytes)
        return NULL;
    count = nbytes / fast_element_nbytes(element);
    Py_BEGIN_ALLOW_THREADS if (ON_STREAM(&sides)) status = ishmemx_reduce_scatter_on_stream(
        (ishmemx_team_t)sides.options.handle, call->op, element, (void *)sides.dest.address,
        (void *)sides.source.address, count, STREAM(&sides));
    else status = ishmemx_reduce_scatter((ishmemx_team_t)sides.options.handle, call->op, element,
                                         (void *)sides.dest.address, (void *)sides.source.address, count);
    Py_END_ALLOW_THREADS return fast_finish(status);
}

FAST_ENTRY(barrier_all)
FAST_ENTRY(sync_all)
FAST_ENTRY(quiet)
FAST_ENTRY(fence)
FAST_ENTRY(broadcast)
FAST_ENTRY(fcollect)
FAST_ENTRY(alltoall)
FAST_ENTRY(reduce)
FAST_ENTRY(reduce_scatter)

const fast_family_t fast_team_families[] = {
    {"barrier_all", barrier_all_call},
    {"sync_all", sync_all_call},
    {"quiet", quiet_call},
    {"fence", fence_call},
    {"broadcast", broadcast_call},
    {"fcollect", fcollect_call},
    {"alltoall", alltoall_call},
    {"reduce", reduce_call},
    {"reduce_scatter", reduce_scatter_call},
    {NULL, NULL},
};
