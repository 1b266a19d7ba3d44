/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "base/descriptor.h"

#include <string.h>
#include <unistd.h>

typedef union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
} control_t;

ssize_t pysh_send_descriptor(int socket, const struct sockaddr *to, socklen_t to_nbytes, const void *bytes,
                             size_t nbytes, int fd) {
    control_t control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = nbytes};
    struct msghdr message = {.msg_name = (void *)to, .msg_namelen = to_nbytes, .msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof fd);
        control.header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t pysh_receive_descriptor(int socket, void *bytes, size_t nbytes, int *fd_p, bool *ours_p) {
    control_t control;
    struct iovec part = {.iov_base = bytes, .iov_len = nbytes};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    bool ours = false;

    *fd_p = -1;
    if (received >= 0)
        for (struct cmsghdr *with = CMSG_FIRSTHDR(&message); with; with = CMSG_NXTHDR(&message, with)) {
            struct ucred sender;
            if (with->cmsg_level == SOL_SOCKET && with->cmsg_type == SCM_RIGHTS)
                memcpy(fd_p, CMSG_DATA(with), sizeof *fd_p);
            if (with->cmsg_level == SOL_SOCKET && with->cmsg_type == SCM_CREDENTIALS) {
                memcpy(&sender, CMSG_DATA(with), sizeof sender);
                ours = sender.uid == geteuid();
            }
        }
    if (ours_p)
        *ours_p = ours;
    return received;
}
