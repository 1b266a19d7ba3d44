/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "node/sleep.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KINDS      3u /* the bits of the word that say what for */
#define KIND_SHIFT 2  /* above them: how many wakes there were */

/* With the mutex held bits are set and cleared by this PE, so that the last sleeper of a kind takes its bit away: a
 * wake of nobody costs a system call. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int n_sleepers[2]; /* for a barrier, for memory */

static uint32_t sleep_kind_of(const pysh_wait_t *wait) {
    return wait->for_memory ? PYSH_SLEEPS_FOR_MEMORY : PYSH_SLEEPS;
}

/* A put has no fence between its store and its look at the bit. So that one of them is seen, the sleeper makes all
 * other PEs' cores have one, after it set the bit and before it looks. Where the kernel refuses that, a wake lost in
 * between costs one idle period. */
static void fence_others(void) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void pysh_sleep_prepare(void) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

/* The ticket is of now, and the next wake finds the bit. */
static void take_ticket(_Atomic uint32_t *word, pysh_wait_t *wait) {
    uint32_t kind = sleep_kind_of(wait), before = atomic_fetch_or(word, kind);

    wait->ticket = before | kind;
    if (wait->for_memory && !(before & kind))
        fence_others();
}

void pysh_sleep(_Atomic uint32_t *word, pysh_wait_t *wait, int64_t ns) {
    struct timespec timeout = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    uint32_t seen = atomic_load(word);

    if (!wait->may_sleep) {
        wait->may_sleep = true;
        pthread_mutex_lock(&mutex);
        n_sleepers[wait->for_memory]++;
        take_ticket(word, wait);
        pthread_mutex_unlock(&mutex);
        return;
    }
    if (seen >> KIND_SHIFT == wait->ticket >> KIND_SHIFT)
        syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
    take_ticket(word, wait);
}

void pysh_sleep_end(_Atomic uint32_t *word, pysh_wait_t *wait) {
    pthread_mutex_lock(&mutex);
    if (--n_sleepers[wait->for_memory] == 0)
        atomic_fetch_and(word, ~sleep_kind_of(wait));
    pthread_mutex_unlock(&mutex);
    wait->may_sleep = false;
}

void pysh_sleep_wake(_Atomic uint32_t *word, uint32_t bits) {
    uint32_t seen = atomic_load_explicit(word, memory_order_relaxed);

    while (seen & bits) /* who changes it has the wake to do */
        if (atomic_compare_exchange_weak(word, &seen, (seen & ~KINDS) + (1u << KIND_SHIFT))) {
            syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
            return;
        }
}
