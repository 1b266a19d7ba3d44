/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "base/memory_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/status.h"
#include "ishmemx.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

/* Linux from 6.3 on wants to hear that nobody will execute the file, and with vm.memfd_noexec=2 insists; earlier ones
 * do not know the word. */
int pysh_memory_file(const char *name) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        pysh_fail(ISHMEMX_ERR_SYSTEM, "memfd_create: %s%s", strerror(errno),
                  errno == EPERM || errno == EACCES || errno == ENOSYS
                      ? "; the host or the container forbids shared memory without a name (seccomp profile?)"
                      : "");
    return fd;
}

/* The limit of file sizes counts for memory, too, and who passes it is killed by SIGXFSZ: in C, without a word. */
int pysh_memory_file_size(int fd, size_t nbytes) {
    struct rlimit limit;

    if (!getrlimit(RLIMIT_FSIZE, &limit) && nbytes > limit.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    return ftruncate(fd, (off_t)nbytes);
}

const char *pysh_memory_file_reason(int why) {
    struct rlimit limit;

    if (why == ENOMEM && !getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
        return "no memory, or more addresses than this process may have (ulimit -v)";
    return why == EFBIG ? "larger than files may be, and so shared memory (ulimit -f)" : strerror(why);
}

const char *pysh_open_files_advice(void) {
    static _Thread_local char text[80];
    struct rlimit limit = {0};

    getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(text, sizeof text, "raise the limit of open files (ulimit -n, now %llu)",
             (unsigned long long)limit.rlim_cur);
    return text;
}
