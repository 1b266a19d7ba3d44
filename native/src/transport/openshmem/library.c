/* SPDX-License-Identifier: BSD-3-Clause
 * The OpenSHMEM library under the openshmem conduit: found, opened, checked, started. */
#define _GNU_SOURCE
#include "transport/openshmem/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/state.h"
#include "base/status.h"
#include "ishmemx.h"
#include "transport/openshmem/elf.h"

#define THREAD_MULTIPLE 3 /* the same in Open MPI and Sandia OpenSHMEM; a lower level is accepted */

static pysh_openshmem_library_t library;

/* ---- found ---- */

static const char *const open_mpi_names[] = {"liboshmem.so.40", "liboshmem.so", NULL};
static const char *const sandia_names[] = {"libsma.so.1", "libsma.so", NULL};

/* Without RTLD_GLOBAL its shmem_* stay apart from ours; elf.c does the rest. */
static void *open_one(const char *name, char *tried, size_t capacity) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    size_t used = strlen(tried);

    if (!handle)
        snprintf(tried + used, capacity - used, "\n  %s", dlerror());
    return handle;
}

static void *open_first(const char *const *names, char *tried, size_t capacity) {
    void *handle = NULL;

    for (; *names && !handle; names++)
        handle = open_one(*names, tried, capacity);
    return handle;
}

static int find_library(void **handle_p) {
    char tried[1536] = "";
    const char *named, *origin;
    void *open_mpi, *sandia = NULL;
    int status = ishmemx_setting("OPENSHMEM_LIBRARY", &named, &origin);

    if (status)
        return status;
    if (*named) {
        *handle_p = open_one(named, tried, sizeof tried);
        return *handle_p ? ISHMEMX_OK
                         : pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "the OpenSHMEM library that %s names cannot be opened:%s",
                                     origin, tried);
    }
    open_mpi = open_first(open_mpi_names, tried, sizeof tried);
    if (!open_mpi || !getenv("OMPI_COMM_WORLD_SIZE")) /* under oshrun it is Open MPI's, whatever else there is */
        sandia = open_first(sandia_names, tried, sizeof tried);
    if (open_mpi && sandia) {
        dlclose(open_mpi);
        dlclose(sandia);
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "two OpenSHMEM libraries were found, Open MPI's liboshmem.so and Sandia's libsma.so; "
                         "PYSHMEM_OPENSHMEM_LIBRARY names the one that started this job");
    }
    *handle_p = open_mpi ? open_mpi : sandia;
    return *handle_p ? ISHMEMX_OK
                     : pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                                 "no OpenSHMEM library was found; tried:%s\nPYSHMEM_OPENSHMEM_LIBRARY names another; "
                                 "PYSHMEM_CONDUIT=shm needs none, on one host",
                                 tried);
}

/* ---- checked ---- */

static const char *file_of(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Two copies of an OpenSHMEM in one process would both be the job's PE. */
static int check_other(struct dl_phdr_info *info, size_t nbytes, void *other) {
    const char *file = file_of(info->dlpi_name);
    char here[PATH_MAX], there[PATH_MAX];

    (void)nbytes;
    if (strncmp(file, "liboshmem.so", 12) && strncmp(file, "libsma.so", 9))
        return 0;
    if (!realpath(info->dlpi_name, there) || !realpath(library.path, here) || strcmp(here, there) == 0)
        return 0;
    snprintf(other, PATH_MAX, "%s", there);
    return 1;
}

static int check_library(void) {
    char other[PATH_MAX] = "", name[256] = ""; /* SHMEM_MAX_NAME_LEN is 256 in Open MPI, 64 in Sandia */
    const char *missing = NULL;

    /* first, to name the version of one that lacks others */
    *(void **)&library.info_get_version = dlsym(library.handle, "shmem_info_get_version");
#define LOOK_UP(_result, _name, _arguments)                                               \
    if (!missing && !(*(void **)&library._name = dlsym(library.handle, "shmem_" #_name))) \
        missing = "shmem_" #_name;
    PYSH_OPENSHMEM_CALLS(LOOK_UP)
#undef LOOK_UP
    if (library.info_get_version)
        library.info_get_version(&library.major, &library.minor);
    if (library.major && library.major * 100 + library.minor < 104)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "%s is OpenSHMEM %d.%d; the openshmem conduit needs 1.4 or later",
                         library.path, library.major, library.minor);
    if (missing)
        return pysh_fail(
            ISHMEMX_ERR_UNSUPPORTED,
            "%s has no %s: it is no OpenSHMEM library, or older than 1.4, which the openshmem conduit needs",
            library.path, missing);
    library.info_get_name(name);
    snprintf(library.name, sizeof library.name, "%s", name);
    if (dl_iterate_phdr(check_other, other))
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "two OpenSHMEM libraries are in this process, %s and %s; PYSHMEM_OPENSHMEM_LIBRARY names the "
                         "one to use, and nothing else may load another",
                         library.path, other);
    return ISHMEMX_OK;
}

static int adopt(void *handle) {
    struct link_map *map = NULL;

    library.handle = handle;
    *(void **)&library.progress = dlsym(handle, "opal_progress");
    *(void **)&library.mpi_finalized = dlsym(handle, "MPI_Finalized");
    library.initialized = dlsym(handle, "oshmem_shmem_initialized");
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map))
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "the OpenSHMEM library: %s", dlerror());
    snprintf(library.path, sizeof library.path, "%s", map->l_name);
    return pysh_openshmem_bind(map);
}

int pysh_openshmem_open(const pysh_openshmem_library_t **library_p) {
    void *handle;
    int status;

    *library_p = &library;
    if (library.handle)
        return ISHMEMX_OK;
    if ((status = find_library(&handle)))
        return status;
    if ((status = adopt(handle)) || (status = check_library())) {
        memset(&library, 0, sizeof library);
        dlclose(handle);
    }
    return status;
}

int ishmemx_openshmem_describe(char *text, size_t capacity) {
    const pysh_openshmem_library_t *found;
    int status = pysh_openshmem_open(&found);

    if (!status)
        snprintf(text, capacity, "OpenSHMEM %d.%d, %s, in %s", found->major, found->minor, found->name, found->path);
    return status;
}

/* ---- started ---- */

int pysh_openshmem_check_srun(int n_pes, int seen_n_pes) {
    /* Open MPI, which alone has `progress`, would end the process or be a job of one PE; others need no PMI here. */
    bool lost = seen_n_pes == 1 || (seen_n_pes == 0 && library.progress && !pysh.srun_pmi);

    if (n_pes < 2 || !pysh.srun || !lost)
        return ISHMEMX_OK;
    return pysh_fail(
        ISHMEMX_ERR_MISMATCH,
        "srun started %d tasks but OpenSHMEM (%s) sees 1: use srun --mpi=pmix (see srun --mpi=list) or oshrun "
        "inside the allocation",
        n_pes, library.path);
}

/* Each library reads one or more of them. */
static const char *const heap_variables[] = {"SHMEM_SYMMETRIC_HEAP_SIZE", "SHMEM_SYMMETRIC_SIZE", "SMA_SYMMETRIC_SIZE"};
#define N_HEAP_VARIABLES (sizeof heap_variables / sizeof *heap_variables)

/* The user's size, where it is larger. */
static int64_t heap_wanted(int64_t nbytes) {
    for (size_t i = 0; i < N_HEAP_VARIABLES; i++) {
        const char *text = getenv(heap_variables[i]);
        int64_t of_user;
        if (text && *text && ishmemx_parse_size(text, &of_user) == ISHMEMX_OK && of_user > nbytes)
            nbytes = of_user;
    }
    return nbytes;
}

int pysh_openshmem_start(const pysh_openshmem_library_t *found, int64_t nbytes, bool several_hosts, int *level_p) {
    char size[32], *before[N_HEAP_VARIABLES];
    int failed;

    snprintf(size, sizeof size, "%lld", (long long)heap_wanted(nbytes));
    for (size_t i = 0; i < N_HEAP_VARIABLES; i++) {
        const char *text = getenv(heap_variables[i]);
        before[i] = text ? strdup(text) : NULL;
        setenv(heap_variables[i], size, 1);
    }
    /* Open MPI 4.1: its hook for freed memory is called after finalize has unloaded it. */
    setenv("OMPI_MCA_opal_common_ucx_opal_mem_hooks", "0", 0);
    /* PEs of one host use the CPU's atomics among each other: the network's must agree with them. */
    if (several_hosts)
        setenv("UCX_ATOMIC_MODE", "cpu", 0);
    failed = found->init_thread(THREAD_MULTIPLE, level_p);
    for (size_t i = 0; i < N_HEAP_VARIABLES; i++) {
        if (before[i])
            setenv(heap_variables[i], before[i], 1);
        else
            unsetenv(heap_variables[i]);
        free(before[i]);
    }
    if (failed)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "shmem_init_thread of %s failed with %d, for a symmetric heap of %s",
                         found->path, failed, pysh_bytes_text(nbytes));
    return ISHMEMX_OK;
}

/* ---- ended ---- */

bool pysh_openshmem_is_over(const pysh_openshmem_library_t *found) {
    int flag = 0;

    return found->mpi_finalized && found->mpi_finalized(&flag) == 0 && flag;
}

/* MPI_Finalize takes away what the library's finalize calls, and with it all of the library. Open MPI's calls it from
 * an exit handler of its own, too. */
void pysh_openshmem_finalize(const pysh_openshmem_library_t *found, int status) {
    if (!pysh_openshmem_is_over(found)) {
        found->finalize();
    } else if (found->initialized) {
        *found->initialized = false;
    } else { /* what else it does at exit is not known */
        fflush(NULL);
        _exit(status);
    }
}
