/* SPDX-License-Identifier: BSD-3-Clause
 * UCX is taken in this order: what is in the process already, as two of them in one do not work (the second finds the
 * first one's parts); what the setting names; the one of the Python package libucx; the system's, which may be too old,
 * and is not known to be before it is there. */
#define _GNU_SOURCE
#include "transport/ucx/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "ishmemx.h"

#define SONAME     "libucp.so.0"
#define LEAST      1020 /* 1.13 loses messages; what is between has not been tried */
#define PATH_BYTES 512

static pysh_ucx_library_t library;
static char package[PATH_BYTES]; /* where the package's is, as Python says */

void ishmemx_ucx_package(const char *path) {
    snprintf(package, sizeof package, "%s", path);
}

/* ---- settings of UCX, which it reads when it is opened ---- */

/* What the user has set stays. */
static const char *const variables[][2] = {
    {"UCX_MEM_EVENTS", "n"},       /* its hooks for freed memory take 400 ms to set, and serve registrations that are
                                    * made behind our back, which there are none of */
    {"UCX_LOG_FILE", "stderr"},    /* else stdout; by a path it would empty the file that is stderr */
    {"UCX_LOG_LEVEL", "fatal"},    /* what it would say of a PE that is gone, we say */
    {"UCX_HANDLE_ERRORS", "none"}, /* faults are Python's and ours */
    {"UCX_TCP_KEEPIDLE", "2s"},    /* a host that is silent is given up after about 5 s */
    {"UCX_TCP_KEEPINTVL", "1s"},    {"UCX_TCP_KEEPCNT", "3"},          {"UCX_TCP_USER_TIMEOUT", "5s"},
    {"UCX_TCP_MAX_NUM_EPS", "inf"}, /* with more PEs than 256 it would look for another transport */
    {"UCX_RC_MAX_NUM_EPS", "inf"},  {"UCX_WARN_UNUSED_ENV_VARS", "n"}, /* not all versions know all of these */
};

static int set_variables(void) {
    const char *devices, *origin;
    int status = ishmemx_setting("INTERFACE", &devices, &origin);

    if (status)
        return status;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        setenv(variables[i][0], variables[i][1], 0);
    if (*devices)
        setenv("UCX_NET_DEVICES", devices, 1);
    return ISHMEMX_OK;
}

/* ---- found ---- */

static void *try_open(const char *name, char *tried, size_t capacity) {
    void *handle = *name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    size_t used = strlen(tried);

    if (!handle && *name)
        snprintf(tried + used, capacity - used, "\n  %s", dlerror());
    return handle;
}

/* Beside this library in site-packages; for programs in C, to which nobody says it. */
static const char *beside_us(char path[PATH_BYTES]) {
    Dl_info info;
    char *slash;

    if (!dladdr((void *)(uintptr_t)pysh_ucx_open, &info) || !info.dli_fname)
        return "";
    snprintf(path, PATH_BYTES, "%s", info.dli_fname);
    slash = strrchr(path, '/');
    if (!slash)
        return "";
    snprintf(slash, PATH_BYTES - (size_t)(slash - path), "/../../libucx/lib/" SONAME);
    return path;
}

static int find(void **handle_p) {
    char tried[1536] = "", path[PATH_BYTES];
    const char *named, *origin;
    int status = ishmemx_setting("UCX_LIBRARY", &named, &origin);

    if (status || (status = set_variables()))
        return status;
    *handle_p = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    library.was_there = *handle_p != NULL;
    if (*handle_p)
        return ISHMEMX_OK;
    if (*named) {
        *handle_p = try_open(named, tried, sizeof tried);
        return *handle_p
                   ? ISHMEMX_OK
                   : pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "the UCX that %s names cannot be opened:%s", origin, tried);
    }
    if ((*handle_p = try_open(package, tried, sizeof tried)) ||
        (*handle_p = try_open(beside_us(path), tried, sizeof tried)) ||
        (*handle_p = try_open(SONAME, tried, sizeof tried)))
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                     "conduit ucx needs UCX, which was not found; tried:%s\ninstall it with pip (libucx-cu13 or "
                     "libucx-cu12) or from the system; PYSHMEM_UCX_LIBRARY names another",
                     tried);
}

/* ---- looked at ---- */

static int adopt(void *handle) {
    const char *missing = NULL;
    struct link_map *map;

    library.handle = handle;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
        snprintf(library.path, sizeof library.path, "%s", map->l_name);
#define LOOK_UP(_result, _name, _arguments)                                     \
    if (!(*(void **)&library._name = dlsym(handle, "ucp_" #_name)) && !missing) \
        missing = "ucp_" #_name;
    PYSH_UCX_CALLS(LOOK_UP)
#undef LOOK_UP
    *(void **)&library.status_text = dlsym(handle, "ucs_status_string"); /* of a library that this one needs */
    if (library.get_version)
        library.get_version(&library.major, &library.minor, &library.release);
    if (missing || !library.status_text || library.major * 1000 + library.minor < LEAST)
        return pysh_fail(
            ISHMEMX_ERR_UNSUPPORTED,
            "%s is UCX %u.%u%s%s%s; conduit ucx needs 1.20 or later: pip install libucx-cu13 (or libucx-cu12), "
            "or name another in PYSHMEM_UCX_LIBRARY",
            library.path, library.major, library.minor, missing ? ", without " : "", missing ? missing : "",
            library.was_there ? ", which another package has opened" : "");
    return ISHMEMX_OK;
}

int pysh_ucx_open(const pysh_ucx_library_t **library_p) {
    void *handle;
    int status;

    *library_p = &library;
    if (library.handle)
        return ISHMEMX_OK;
    if ((status = find(&handle)))
        return status;
    if ((status = adopt(handle))) {
        memset(&library, 0, sizeof library);
        dlclose(handle);
    }
    return status;
}

int ishmemx_ucx_describe(char *text, size_t capacity) {
    const pysh_ucx_library_t *found;
    int status = pysh_ucx_open(&found);

    if (!status)
        snprintf(text, capacity, "UCX %u.%u.%u in %s%s", found->major, found->minor, found->release, found->path,
                 found->was_there ? ", which another package has opened" : "");
    return status;
}
