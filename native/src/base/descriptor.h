/* SPDX-License-Identifier: BSD-3-Clause
 * Messages on Unix sockets that carry a file descriptor. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* As sendto(), with a descriptor; -1: none. */
ssize_t pysh_send_descriptor(int socket, const struct sockaddr *to, socklen_t to_nbytes, const void *bytes,
                             size_t nbytes, int fd);
/* As recv(); *fd_p is the caller's, -1: none came. *ours_p (may be NULL): a process of this user has sent it, on a
 * socket with SO_PASSCRED. */
ssize_t pysh_receive_descriptor(int socket, void *bytes, size_t nbytes, int *fd_p, bool *ours_p);
