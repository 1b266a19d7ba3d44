/* SPDX-License-Identifier: BSD-3-Clause
 * Threads of the library. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* As pthread_create(), but the thread takes no signals: Python's handlers are for the threads of the program. */
static inline int pysh_thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
