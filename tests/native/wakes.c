/* SPDX-License-Identifier: BSD-3-Clause
 * How soon a sleeping thread wakes: two threads of PE 1 wait for a word each, and PE 0 sends to the first, and a moment
 * later to the second. That one must be woken like the first, not find out by itself when its sleep of a millisecond
 * ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

enum { N_ROUNDS = 100 };

static const struct timespec asleep = {.tv_nsec = 12 * 1000 * 1000}; /* then waits sleep for a millisecond at a time */
static const struct timespec moment = {.tv_nsec = 200 * 1000};
static uint64_t *words; /* [2][8] to wait for, and when they were sent */
static int64_t took[2][N_ROUNDS];

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *await(void *argument) {
    int which = *(int *)argument;

    for (uint64_t round = 1; round <= N_ROUNDS; round++) {
        shmem_uint64_wait_until(&words[which * 8], SHMEM_CMP_GE, round);
        took[which][round - 1] = now_ns() - (int64_t)words[16 + which];
        if (which == 0) /* the other one is the only sleeper when its word comes */
            nanosleep(&asleep, NULL);
    }
    return NULL;
}

static void send(int which, uint64_t round) {
    shmem_uint64_atomic_set(&words[16 + which], (uint64_t)now_ns(), 1);
    shmem_uint64_atomic_set(&words[which * 8], round, 1);
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int main(void) {
    int which[2] = {0, 1}, level, me;
    pthread_t thread[2];

    CHECK(!shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level));
    me = shmem_my_pe();
    words = shmem_calloc(24, sizeof *words);
    for (int i = 0; me == 1 && i < 2; i++)
        CHECK(!pthread_create(&thread[i], NULL, await, &which[i]));
    for (uint64_t round = 1; me == 0 && shmem_n_pes() > 1 && round <= N_ROUNDS; round++) {
        nanosleep(&asleep, NULL);
        nanosleep(&asleep, NULL);
        send(0, round);
        nanosleep(&moment, NULL);
        send(1, round);
    }
    for (int i = 0; me == 1 && i < 2; i++) {
        pthread_join(thread[i], NULL);
        qsort(took[i], N_ROUNDS, sizeof took[i][0], compare);
        /* Without a wake most rounds take 800 us; on a busy machine it is enough that three in ten do not. */
        CHECK(took[i][N_ROUNDS * 3 / 10] < 400 * 1000);
        if (getenv("WAKES_SHOW"))
            fprintf(stderr, "thread %d: us of 50, 70, 90 in 100: %ld %ld %ld\n", i, (long)took[i][N_ROUNDS / 2] / 1000,
                    (long)took[i][N_ROUNDS * 7 / 10] / 1000, (long)took[i][N_ROUNDS * 9 / 10] / 1000);
    }
    shmem_barrier_all();
    return conclude();
}
