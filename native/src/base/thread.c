/* SPDX-License-Identifier: BSD-3-Clause
 * See thread.h. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <semaphore.h>
#include <signal.h>
#include <stddef.h>

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

typedef struct {
    void *(*run)(void *);
    void *argument;
    sem_t runs; /* posted by the new thread, waited for by its starter, whose stack this is on */
} start_t;

int pysh_thread_create(pthread_t *thread, const char *name, void *(*run)(void *), void *argument) {
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

static void *begin(void *argument) {
    start_t *start = argument;
    void *(*run)(void *) = start->run;

    argument = start->argument;
    sem_post(&start->runs);
    return run(argument);
}

int pysh_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument) {
    start_t start = {.run = run, .argument = argument};
    int error;

    sem_init(&start.runs, 0, 0);
    error = pysh_thread_create(thread, name, begin, &start);
    while (!error && sem_wait(&start.runs)) /* a signal's handler ran here */
        ;
    sem_destroy(&start.runs);
    return error;
}
