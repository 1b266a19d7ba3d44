/* SPDX-License-Identifier: BSD-3-Clause
 * See thread.h. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

int pysh_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument) {
    sigset_t others, before;
    int error;

    sigfillset(&others);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&others, faults[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before); /* the new thread has it from its first instruction */
    error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_setname_np(*thread, name); /* a longer one is refused, and nothing else depends on it */
    return error;
}
