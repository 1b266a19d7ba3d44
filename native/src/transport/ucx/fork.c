/* SPDX-License-Identifier: BSD-3-Clause
 * A child of fork() has the parent's connections too, and while it holds them the others do not see that the parent is
 * gone: the kernel goes on answering for it. So the child lets go of them. It learns which they are from the kernel, as
 * UCX does not tell: the sockets that the worker's descriptor watches, itself or by another such descriptor. */
#define _GNU_SOURCE
#include "transport/ucx/fork.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define NESTED 2 /* descriptors that watch others: the worker's, and a transport's in it */

/* A number may have come to be another file's since: the inode says whether it is the one that is watched. */
static void close_watched(int watcher, int nested) {
    char path[64], line[256];
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", watcher);
    if (!(file = fopen(path, "re")))
        return;
    while (fgets(line, sizeof line, file)) {
        unsigned long inode;
        struct stat found;
        int fd;
        if (sscanf(line, "tfd: %d events: %*x data: %*x pos:%*d ino:%lx", &fd, &inode) != 2 || fstat(fd, &found) ||
            found.st_ino != inode)
            continue;
        if (S_ISSOCK(found.st_mode))
            close(fd);
        else if (nested > 1)
            close_watched(fd, nested - 1);
    }
    fclose(file);
}

void pysh_ucx_let_go(int descriptor) {
    close_watched(descriptor, NESTED);
}
