/* SPDX-License-Identifier: BSD-3-Clause
 * Threads of the library. */
#pragma once

#include <pthread.h>

/* As pthread_create(), with a name of at most 15 bytes, by which debuggers and `ps -T` know it. The thread takes no
 * signals, since Python's handlers are for the threads of the program, but those of a fault of its own: SIGSEGV,
 * SIGBUS, SIGFPE, SIGILL and SIGABRT come to the program's handlers, faulthandler's among them. The C library starts
 * a thread with all signals blocked, and takes that off in the thread's first steps: these are done when
 * pysh_thread_start() returns. pysh_thread_create() does not wait for them: it is for threads that their starter joins
 * before it comes back to the program. */
int pysh_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);
int pysh_thread_create(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);
