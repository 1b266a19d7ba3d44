/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of the OpenSHMEM library, found at run time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    void (*progress)(void);          /* Open MPI's, or NULL */
    bool *initialized;               /* what Open MPI's own exit handler looks at, or NULL */
    int (*mpi_finalized)(int *flag); /* of the MPI that the library is linked with, or NULL */
#define MEMBER(_result, _name, _arguments) _result(*_name) _arguments;
    PYSH_OPENSHMEM_CALLS(MEMBER)
#undef MEMBER
} pysh_openshmem_library_t;

/* Opens the library once a process: UNSUPPORTED tells what was tried. */
int pysh_openshmem_open(const pysh_openshmem_library_t **library_p);
/* OK, or that the n_pes PEs that srun started cannot meet: the library says that they are seen_n_pes (0: it has not
 * started). */
int pysh_openshmem_check_srun(int n_pes, int seen_n_pes);
/* The library's init, for symmetric memory of `nbytes`, with its environment and defects seen to. */
int pysh_openshmem_start(const pysh_openshmem_library_t *library, int64_t nbytes, bool several_hosts, int *level_p);
/* Has the program ended MPI, on which the library stands? Then none of its calls works any more. */
bool pysh_openshmem_is_over(const pysh_openshmem_library_t *library);
/* The library's finalize, at the exit of the process with `status`, unless it is over. */
void pysh_openshmem_finalize(const pysh_openshmem_library_t *library, int status);
