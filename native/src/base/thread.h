/* SPDX-License-Identifier: BSD-3-Clause
 * Threads of the library. */
#pragma once

#include <pthread.h>

/* As pthread_create(), with a name of at most 15 bytes, by which debuggers and `ps -T` know it. The thread takes no
 * signals, since Python's handlers are for the threads of the program, but those of a fault of its own: SIGSEGV,
 * SIGBUS, SIGFPE, SIGILL and SIGABRT come to the program's handlers, faulthandler's among them. */
int pysh_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);
