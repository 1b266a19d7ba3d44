/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the openshmem conduit share: the library's calls, a PE's control block and the state.
 * Layers, upward: library < words (barrier, exchange) < amo < conduit_openshmem.c. */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "conduit/control.h"

/* ---- the library (conduit_openshmem_library.c) ---- */

/* result, name without shmem_, arguments: all of them are in OpenSHMEM 1.4. */
#define PYSH_OPENSHMEM_CALLS(X_)                                                                  \
    X_(int, init_thread, (int requested, int *provided))                                          \
    X_(void, finalize, (void))                                                                    \
    X_(void, global_exit, (int status))                                                           \
    X_(int, my_pe, (void))                                                                        \
    X_(int, n_pes, (void))                                                                        \
    X_(void, info_get_version, (int *major, int *minor))                                          \
    X_(void, info_get_name, (char *name))                                                         \
    X_(void *, align, (size_t alignment, size_t nbytes))                                          \
    X_(void *, ptr, (const void *address, int pe))                                                \
    X_(int, addr_accessible, (const void *address, int pe))                                       \
    X_(void, barrier_all, (void))                                                                 \
    X_(void, fence, (void))                                                                       \
    X_(void, quiet, (void))                                                                       \
    X_(int, long_test, (long *word, int cmp, long value))                                         \
    X_(void, putmem, (void *dest, const void *source, size_t nbytes, int pe))                     \
    X_(void, getmem, (void *dest, const void *source, size_t nbytes, int pe))                     \
    X_(void, putmem_nbi, (void *dest, const void *source, size_t nbytes, int pe))                 \
    X_(void, getmem_nbi, (void *dest, const void *source, size_t nbytes, int pe))                 \
    X_(unsigned, uint_atomic_fetch, (const unsigned *word, int pe))                               \
    X_(unsigned, uint_atomic_swap, (unsigned *word, unsigned value, int pe))                      \
    X_(unsigned, uint_atomic_fetch_add, (unsigned *word, unsigned value, int pe))                 \
    X_(void, uint_atomic_set, (unsigned *word, unsigned value, int pe))                           \
    X_(void, uint_atomic_add, (unsigned *word, unsigned value, int pe))                           \
    X_(unsigned long, ulong_atomic_fetch, (const unsigned long *word, int pe))                    \
    X_(unsigned long, ulong_atomic_swap, (unsigned long *word, unsigned long value, int pe))      \
    X_(unsigned long, ulong_atomic_fetch_add, (unsigned long *word, unsigned long value, int pe)) \
    X_(unsigned long, ulong_atomic_compare_swap,                                                  \
       (unsigned long *word, unsigned long cond, unsigned long value, int pe))                    \
    X_(void, ulong_atomic_set, (unsigned long *word, unsigned long value, int pe))                \
    X_(void, ulong_atomic_add, (unsigned long *word, unsigned long value, int pe))

typedef struct pysh_openshmem_library {
    void *handle; /* NULL: not open */
    int major, minor;
    char path[512], name[256];
    void (*progress)(void); /* Open MPI's, or NULL */
#define MEMBER(_result, _name, _arguments) _result(*_name) _arguments;
    PYSH_OPENSHMEM_CALLS(MEMBER)
#undef MEMBER
} pysh_openshmem_library_t;

/* Opens the library once a process: UNSUPPORTED tells what was tried. */
int pysh_openshmem_open(const pysh_openshmem_library_t **library_p);
/* Makes the library call its own routines, not ours, and see the end of the program's data, not of its own. */
struct link_map;
int pysh_openshmem_bind(const struct link_map *map);
/* The library's init, for symmetric memory of `nbytes`, with its environment and defects seen to. */
int pysh_openshmem_start(const pysh_openshmem_library_t *library, int64_t nbytes, bool several_hosts, int *level_p);

/* ---- a PE's control block, on the library's heap ---- */

/* The word `arrivals`, PE 0's: the epoch, and three counts of the PEs that came from an exchange, that
 * voted true, that arrived; 16 bits each. The word `released` is as on the shm conduit. */
#define PYSH_OS_ARRIVAL     1ULL
#define PYSH_OS_VOTE        (1ULL << 16)
#define PYSH_OS_EXCHANGE    (1ULL << 32)
#define PYSH_OS_EPOCH_SHIFT 48
#define PYSH_OS_MAX_PES     0xffff

typedef struct pysh_os_control {
    alignas(PYSH_CACHE_LINE) _Atomic uint64_t arrivals; /* PE 0's is the one that counts */
    alignas(PYSH_CACHE_LINE) _Atomic uint64_t released;
    alignas(PYSH_CACHE_LINE) _Atomic uint32_t aborted; /* written by other PEs, `why` first */
    uint32_t maps_all;                                 /* this PE can load and store all others' blocks */
    char why[504];
    pysh_control_slot_t slot;
} pysh_os_control_t;

typedef struct pysh_openshmem {
    const pysh_openshmem_library_t *library;
    int pe, n_pes;
    bool unfit;                 /* a job did not end together: the others may be gone */
    bool direct;                /* every PE maps every other: the CPU's stores and atomics do it all */
    pysh_os_control_t *control; /* own; NULL before the library's init */
    pysh_os_control_t **peer;   /* [n_pes] NULL where not mapped */
    pthread_mutex_t mutex;      /* one call of the library at a time */
    _Atomic bool dirty;         /* puts or gets since the last quiet; changed with the mutex */
    const char *what;           /* the slow wait this PE is in, or NULL */
} pysh_openshmem_t;
extern pysh_openshmem_t pysh_os;

/* A call of the library; `_call` begins with the routine's name. */
#define PYSH_OS_LOCK()   pthread_mutex_lock(&pysh_os.mutex)
#define PYSH_OS_UNLOCK() pthread_mutex_unlock(&pysh_os.mutex)

/* ---- conduit_openshmem_wait.c; see pysh_conduit_t ---- */
/* Lets the library work on what other PEs asked of this one; nothing when another thread is in it. */
void pysh_os_progress(void);
int pysh_os_serve_in_background(void); /* a thread that makes progress from time to time */
void pysh_os_wake(int pe);
void pysh_os_wake_for_memory(int pe);
void pysh_os_idle(bool for_memory, int64_t ns);
void pysh_os_activity(const char *what);
int pysh_os_liveness(void);
void pysh_os_describe(char *text, size_t capacity);
int pysh_os_kernel_waits(const pysh_kernel_wait_t *wait);
int pysh_os_kernel_meets(ishmemx_team_t team, const char *what, int64_t since_ns);
void pysh_os_abort(int code, const char *why);
const _Atomic uint32_t *pysh_os_alarm(void);

/* ---- conduit_openshmem.c ---- */
int pysh_os_quiet(void);

/* ---- conduit_openshmem_barrier.c ---- */
/* As pysh_shm_arrive and pysh_shm_exchange. */
int pysh_os_arrive(const char *what, uint64_t arrival, bool *all_p);
int pysh_os_exchange(const char *what, const void *mine, void *all, size_t nbytes);

/* ---- conduit_openshmem_amo.c ---- */
/* `word` is the symmetric address. */
int pysh_os_amo(int op, int type, void *word, uint64_t value, uint64_t cond, int pe, uint64_t *fetched_p);
