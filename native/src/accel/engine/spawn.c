/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "accel/engine/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/memory_file.h"
#include "base/state.h"
#include "base/status.h"

#define SPIN_ALONE  20000
#define SPIN_SHARED 50
#define HIGH_FD     16 /* above those that the process gets */

extern char **environ;

int pysh_engine_segment(size_t nbytes, pysh_engine_queue_t **queue_p, int *fd_p) {
    int fd = memfd_create("pyshmem-engine", MFD_CLOEXEC);
    void *queue = MAP_FAILED;

    if (fd >= 0 && !pysh_memory_file_size(fd, nbytes))
        queue = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (queue == MAP_FAILED) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "memory for the copy engine's process: %s", strerror(why));
    }
    *queue_p = queue;
    *fd_p = fd;
    return ISHMEMX_OK;
}

/* A PE has a proxy that polls, and the program's own thread. */
int64_t pysh_engine_spin(void) {
    int64_t spin = -1;

    if (!ishmemx_setting_number("PROXY_SPIN", &spin) && spin >= 0)
        return spin;
    return 3 * pysh.n_pes <= pysh_cores() ? SPIN_ALONE : SPIN_SHARED;
}

/* The program is beside the library, or the program that has the library in it. */
static int program_path(char *path, size_t capacity) {
    char folder[PATH_MAX];
    Dl_info library;
    char *slash;

    if (!dladdr(&pysh, &library) || !library.dli_fname || !realpath(library.dli_fname, folder) ||
        !(slash = strrchr(folder, '/')))
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "where libpyshmem is cannot be found, so neither can pyshmem-engine");
    *slash = '\0';
    if ((size_t)snprintf(path, capacity, "%s/pyshmem-engine", folder) >= capacity || access(path, X_OK))
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "PYSHMEM_ENGINE=process needs the program %s, which cannot be run: %s",
                         path, strerror(errno));
    return ISHMEMX_OK;
}

/* The process has no signals, so that what a terminal sends to all is for the PEs to handle, and lives by its socket.
 */
static int spawn_run(const char *path, const int *fd, pid_t *pid_p) {
    char pe[16], *arguments[] = {"pyshmem-engine", pe, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    int error;

    snprintf(pe, sizeof pe, "%d", pysh.pe);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (int i = PYSH_ENGINE_FD_SOCKET; !error && i < PYSH_ENGINE_FDS; i++)
        if (fd[i] >= 0)
            error = posix_spawn_file_actions_adddup2(&actions, fd[i], i);
    if (!error)
        error = posix_spawn(pid_p, path, &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error ? pysh_fail(ISHMEMX_ERR_SYSTEM, "starting %s: %s", path, strerror(error)) : ISHMEMX_OK;
}

int pysh_engine_spawn(const int *fd, int *socket_p, pid_t *pid_p) {
    int ends[2] = {-1, -1}, high[PYSH_ENGINE_FDS];
    char path[PATH_MAX] = "";
    int status = program_path(path, sizeof path);

    if (status)
        return status;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "a socket to the copy engine's process: %s", strerror(errno));
    for (int i = PYSH_ENGINE_FD_SOCKET; i < PYSH_ENGINE_FDS; i++) {
        int from = i == PYSH_ENGINE_FD_SOCKET ? ends[1] : fd[i];
        high[i] = from < 0 ? -1 : fcntl(from, F_DUPFD_CLOEXEC, HIGH_FD);
        if (from >= 0 && high[i] < 0)
            status = pysh_fail(ISHMEMX_ERR_SYSTEM, "descriptors of the copy engine's process: %s", strerror(errno));
    }
    if (!status)
        status = spawn_run(path, high, pid_p);
    for (int i = PYSH_ENGINE_FD_SOCKET; i < PYSH_ENGINE_FDS; i++)
        if (high[i] >= 0)
            close(high[i]);
    close(ends[1]);
    if (status)
        close(ends[0]);
    else
        *socket_p = ends[0];
    return status;
}
