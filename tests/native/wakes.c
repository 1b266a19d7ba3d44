/* SPDX-License-Identifier: BSD-3-Clause
 * A sleeping thread is woken: two threads of PE 1 wait for a word each, and PE 0 sends to the first and, when the
 * second is the only one that sleeps, to that. Their sleeps have no end of their own here: one that is not woken hangs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { N_ROUNDS = 100 };

/* On PE 1, and looked at by PE 0: for each thread the word it waits for, the last round in which it went to sleep, how
 * often it did, and the last round that it has ended. */
typedef struct waiter {
    uint64_t word, asleep_in, n_sleeps, ended;
} waiter_t;
static waiter_t *waiters;

static _Thread_local waiter_t *self; /* of a thread that waits */
static _Thread_local uint64_t self_round;

/* The library's system calls: sleeps of the threads that wait lose their timeout. */
long syscall(long number, ...) {
    static long (*next)(long, ...);
    long given[6];
    va_list arguments;

    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        given[i] = va_arg(arguments, long);
    va_end(arguments);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    if (self && number == SYS_futex && given[1] == FUTEX_WAIT) {
        given[3] = 0;
        __atomic_store_n(&self->asleep_in, self_round, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&self->n_sleeps, 1, __ATOMIC_SEQ_CST);
    }
    return next(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

static void *await(void *argument) {
    int which = *(int *)argument;

    self = &waiters[which];
    for (self_round = 1; self_round <= N_ROUNDS; self_round++) {
        shmem_uint64_wait_until(&self->word, SHMEM_CMP_GE, self_round);
        __atomic_store_n(&self->ended, self_round, __ATOMIC_SEQ_CST);
        while (which == 0 && __atomic_load_n(&waiters[1].ended, __ATOMIC_SEQ_CST) < self_round)
            sched_yield(); /* the other one is to be the only sleeper when its word comes */
    }
    return NULL;
}

static void until(const uint64_t *value, uint64_t least) {
    while (shmem_uint64_atomic_fetch(value, 1) < least)
        sched_yield();
}

static void send(uint64_t round) {
    uint64_t n_sleeps;

    until(&waiters[0].asleep_in, round);
    until(&waiters[1].asleep_in, round);
    n_sleeps = shmem_uint64_atomic_fetch(&waiters[1].n_sleeps, 1);
    shmem_uint64_atomic_set(&waiters[0].word, round, 1); /* wakes both, and the second goes to sleep again */
    until(&waiters[0].ended, round);
    until(&waiters[1].n_sleeps, n_sleeps + 1);
    shmem_uint64_atomic_set(&waiters[1].word, round, 1);
}

int main(void) {
    int which[2] = {0, 1}, level, me;
    pthread_t thread[2];
    /* Where the kernel has no such fence, a wake may be lost, for the time of one sleep. */
    int sure = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) & MEMBARRIER_CMD_GLOBAL_EXPEDITED;

    CHECK(!shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level));
    me = shmem_my_pe();
    waiters = shmem_calloc(2, sizeof *waiters);
    for (int i = 0; sure && shmem_n_pes() > 1 && me == 1 && i < 2; i++)
        CHECK(!pthread_create(&thread[i], NULL, await, &which[i]));
    for (uint64_t round = 1; sure && shmem_n_pes() > 1 && me == 0 && round <= N_ROUNDS; round++)
        send(round);
    for (int i = 0; sure && shmem_n_pes() > 1 && me == 1 && i < 2; i++)
        pthread_join(thread[i], NULL);
    shmem_barrier_all();
    return conclude();
}
