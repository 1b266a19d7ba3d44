/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The hand-written part of the cffi extension; ffi_build.py compiles it into _native.c, after
 * ishmemx.h and the shells that take addresses as integers. What is marked TO_PYTHON is callable from
 * Python. A call that returns a value returns failed_* when it fails and leaves its status in
 * last_status: the caller asks for it only when it sees that value, as with -1 and PyErr_Occurred(). */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TO_PYTHON static

TO_PYTHON const char *const PYSHMEM_VERSION_TEXT = PYSHMEM_VERSION;
static __thread int last_status;

TO_PYTHON int status_of_last_value(void) {
    return last_status;
}

TO_PYTHON uintptr_t ctx_default(void) {
    return (uintptr_t)&ishmemx_ctx_default;
}

TO_PYTHON uintptr_t team_world(void) {
    return (uintptr_t)&ishmemx_team_world;
}

TO_PYTHON uintptr_t team_shared(void) {
    return (uintptr_t)&ishmemx_team_shared;
}

TO_PYTHON uintptr_t team_node(void) {
    return (uintptr_t)&ishmemx_team_node;
}

/* What the library makes for Python it writes into a cell that Python made before, with one of these as its destructor:
 * it has an owner as soon as it is there, whatever a signal's handler raises behind the call. A cell that holds 0 holds
 * nothing (any more). */
TO_PYTHON void end_block(uintptr_t *cell) {
    uintptr_t block = *cell;
    *cell = 0;
    if (block)
        ishmemx_release(block);
}

TO_PYTHON void end_team(uintptr_t *cell) {
    uintptr_t team = *cell;
    *cell = 0;
    ishmemx_team_release(team);
}

TO_PYTHON void end_ctx(uintptr_t *cell) {
    uintptr_t ctx = *cell;
    *cell = 0;
    ishmemx_ctx_drop(ctx);
}

TO_PYTHON void end_request(uintptr_t *cell) {
    uintptr_t request = *cell;
    *cell = 0;
    ishmemx_request_free(request);
}

TO_PYTHON void end_graph(uintptr_t *cell) {
    uintptr_t graph = *cell;
    *cell = 0;
    if (graph)
        ishmemx_graph_drop(graph);
}

TO_PYTHON void end_capture(uintptr_t *cell) {
    uintptr_t stream = *cell, graph = 0;
    *cell = 0;
    if (stream && ishmemx_initialized() && !ishmemx_capture_end(stream, &graph))
        ishmemx_graph_drop(graph);
}

TO_PYTHON void end_stream(uintptr_t *cell) {
    uintptr_t stream = *cell;
    *cell = 0;
    if (stream && ishmemx_initialized())
        ishmemx_stream_destroy(stream);
}

/* The cell has the stream while it is captured. A capture that failed has ended, too. */
TO_PYTHON int begin_capture(uintptr_t stream, uintptr_t *cell) {
    int status = ishmemx_capture_begin(stream);
    if (!status)
        *cell = stream;
    return status;
}

TO_PYTHON int finish_capture(uintptr_t *cell, uintptr_t *graph) {
    uintptr_t stream = *cell;
    *cell = 0;
    return ishmemx_capture_end(stream, graph);
}

static int emptied(uintptr_t *cell, int status) {
    if (!status)
        *cell = 0;
    return status;
}

/* The calls that give it back empty the cell, in the same step for those who look at it. */
TO_PYTHON int free_block(uintptr_t *cell) {
    return emptied(cell, ishmemx_free(*cell));
}

TO_PYTHON int realloc_block(const char *contents, uintptr_t *cell, size_t nbytes, uintptr_t *moved) {
    return emptied(cell, ishmemx_realloc_as(contents, *cell, nbytes, moved));
}

TO_PYTHON int destroy_team(uintptr_t *cell) {
    return emptied(cell, ishmemx_team_destroy(*cell));
}

TO_PYTHON int withdraw_team(uintptr_t *cell) {
    return emptied(cell, ishmemx_team_withdraw(*cell));
}

TO_PYTHON int destroy_ctx(uintptr_t *cell) {
    return emptied(cell, ishmemx_ctx_destroy(*cell));
}

TO_PYTHON int destroy_stream(uintptr_t *cell) {
    return emptied(cell, ishmemx_stream_destroy(*cell));
}

TO_PYTHON const size_t NO_INDEX = SIZE_MAX;

TO_PYTHON uintptr_t address_of(const void *buffer) {
    return (uintptr_t)buffer;
}

/* The heap that [address, address + nbytes) of this PE lies in, or -1. What a pool has, and the PEs have not compared,
 * is on none yet. */
TO_PYTHON int heap_of(uintptr_t address, size_t nbytes) {
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++) {
        uintptr_t base = 0;
        int64_t size = 0;
        if (ishmemx_heap_range(heap, &base, &size) == 0 && base && address >= base &&
            address - base <= (uintptr_t)size && nbytes <= (uintptr_t)size - (address - base))
            return ishmemx_pool_pending(address, nbytes) ? -1 : heap;
    }
    return -1;
}

TO_PYTHON const uint64_t failed_signal = (uint64_t)-7919;

TO_PYTHON uint64_t signal_fetch(uintptr_t sig_addr) {
    uint64_t value;
    last_status = ishmemx_signal_fetch(sig_addr, &value);
    return last_status ? failed_signal : value;
}

TO_PYTHON uint64_t signal_wait_until(uintptr_t sig_addr, int cmp, uint64_t cmp_value) {
    uint64_t seen;
    last_status = ishmemx_signal_wait_until(sig_addr, cmp, cmp_value, &seen);
    return last_status ? failed_signal : seen;
}

static uintptr_t main_thread;

/* The interrupt check of slow waits: runs Python's signal handlers, which only the main thread does. Another thread
 * that took the lock for that would not come back from it once the interpreter is on its way out. What a handler raised
 * is kept in pyshmem._core.library.interruption, which raises it once the wait has ended. */
static int check_signals(void) {
    if ((uintptr_t)pthread_self() != main_thread || !Py_IsInitialized())
        return 0;
    PyGILState_STATE gil = PyGILState_Ensure();
    int raised = PyErr_CheckSignals();
    if (raised) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        PyObject *module = PyImport_ImportModule("pyshmem._core.library");
        if (!module || PyObject_SetAttrString(module, "interruption", value ? value : Py_None))
            PyErr_Clear();
        Py_XDECREF(module);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    PyGILState_Release(gil);
    return raised != 0;
}

/* ---- where the program waits ---- */

static const char *const *libraries; /* how names of files begin, or what they have in them, that are none of its own */

/* Is the frame one of the program's? Then "heat.py:12". Nothing here runs Python's code, in which handlers of signals
 * could run that the wait is to hear of. */
static int tell_line(PyObject *frame, char *text, size_t capacity) {
    PyObject *code = PyObject_GetAttrString(frame, "f_code"), *line = PyObject_GetAttrString(frame, "f_lineno");
    PyObject *file = code ? PyObject_GetAttrString(code, "co_filename") : NULL;
    PyObject *bytes = file ? PyUnicode_AsUTF8String(file) : NULL;
    const char *path = bytes ? PyBytes_AsString(bytes) : NULL;
    int is_own = path && line && line != Py_None;

    for (const char *const *one = libraries; is_own && one && *one; one++)
        is_own = !strstr(path, *one);
    if (is_own) {
        const char *base = strrchr(path, '/');
        snprintf(text, capacity, "%s:%ld", base ? base + 1 : path, PyLong_AsLong(line));
    }
    Py_XDECREF(bytes);
    Py_XDECREF(file);
    Py_XDECREF(line);
    Py_XDECREF(code);
    PyErr_Clear();
    return is_own;
}

/* Of the main thread alone, as the check of signals. */
static void tell_place(char *text, size_t capacity) {
    if ((uintptr_t)pthread_self() != main_thread || !Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame && frame != Py_None && !tell_line(frame, text, capacity)) {
        PyObject *outer = PyObject_GetAttrString(frame, "f_back");
        Py_DECREF(frame);
        frame = outer;
    }
    Py_XDECREF(frame);
    PyErr_Clear();
    PyGILState_Release(gil);
}

TO_PYTHON void know_libraries(const char *const *names) {
    libraries = names;
}

/* Runs after the interpreter has ended, when the exit status is known: a PE that fails must not wait
 * for the others in finalize but end them. */
static pid_t initialized_by;
static int others_know;

/* The other PEs have been told already why this one ends. */
TO_PYTHON void forget_exit_status(void) {
    others_know = 1;
}

static void leave_job(int status, void *unused) {
    (void)unused;
    if (getpid() != initialized_by || others_know || !ishmemx_initialized())
        return;
    ishmemx_set_interrupt_check(NULL);
    ishmemx_set_place_teller(NULL);
    if (status) {
        char why[64];
        snprintf(why, sizeof why, "exited with status %d", status);
        ishmemx_abort(status, why);
    } else if (ishmemx_finalize()) {
        fprintf(stderr, "pyshmem: finalize at exit: %s\n", ishmemx_error());
        fflush(NULL);
        _exit(1); /* here nothing else changes the status */
    }
}

#ifndef __GLIBC__
static void leave_job_plain(void) {
    leave_job(0, NULL);
}
#endif

/* From before init on: its waits are interrupted too. */
TO_PYTHON void heed_signals(uintptr_t main_thread_ident) {
    main_thread = main_thread_ident;
    ishmemx_set_interrupt_check(check_signals);
    ishmemx_set_place_teller(tell_place);
}

/* Behind init: what that has the process do at its end comes after what is done here. */
TO_PYTHON void attach_to_interpreter(void) {
    others_know = 0;
    if (initialized_by == getpid())
        return;
    initialized_by = getpid();
#ifdef __GLIBC__
    on_exit(leave_job, NULL);
#else
    atexit(leave_job_plain);
#endif
}
