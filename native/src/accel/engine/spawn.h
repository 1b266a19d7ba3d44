/* SPDX-License-Identifier: BSD-3-Clause
 * How the copy engine's process comes to be. */
#pragma once

#include <sys/types.h>

#include "accel/engine/queue.h"

/* A segment of so many bytes that begins with the queue, zero, and its descriptor. */
int pysh_engine_segment(size_t nbytes, pysh_engine_queue_t **queue_p, int *fd_p);
/* How often the process polls before it gives its core away: PYSHMEM_PROXY_SPIN, or fewer where cores are. */
int64_t pysh_engine_spin(void);
/* Runs the program pyshmem-engine with fd[PYSH_ENGINE_FD_QUEUE] and, unless that is -1, fd[PYSH_ENGINE_FD_ARENAS].
 * *socket_p is the PE's end of its socket: who closes it ends the process. */
int pysh_engine_spawn(const int *fd, int *socket_p, pid_t *pid_p);
