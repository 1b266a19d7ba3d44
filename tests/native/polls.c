/* SPDX-License-Identifier: BSD-3-Clause
 * Who polls, by whatever and whatever it finds, gives its core away where another PE was seen on it, and seldom where
 * it has it for itself; in a job of more PEs than cores always. Of PEs on one core, in a job that has one for each, all
 * but the first go to another one, and have the affinity of before then. Where a PE runs is told here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

enum { FEW = 20 * 2048, MANY = 600 * 2048 };

static int core, yields, moves;

int sched_getcpu(void) {
    return core;
}

int sched_yield(void) {
    static int (*next)(void);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "sched_yield");
    yields++;
    return next();
}

int sched_setaffinity(pid_t pid, size_t nbytes, const cpu_set_t *mask) {
    static int (*next)(pid_t, size_t, const cpu_set_t *);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "sched_setaffinity");
    moves++;
    return next(pid, nbytes, mask);
}

/* What a program may poll with; the word is 0, and the lock is another's where there is another PE. */
static long *word, *lock;

static void test_that_fails(void) {
    CHECK(!shmem_long_test(word, SHMEM_CMP_NE, 0));
}

static void test_that_holds(void) {
    CHECK(shmem_long_test(word, SHMEM_CMP_EQ, 0));
}

static void test_of_a_short(void) {
    CHECK(!shmem_short_test((short *)word, SHMEM_CMP_NE, 0));
}

static void test_any(void) {
    CHECK(shmem_long_test_any(word, 1, NULL, SHMEM_CMP_NE, 0) == SIZE_MAX);
}

static void test_all(void) {
    CHECK(!shmem_long_test_all(word, 1, NULL, SHMEM_CMP_NE, 0));
}

static void test_some(void) {
    size_t indices[1];

    CHECK(shmem_long_test_some(word, 1, indices, NULL, SHMEM_CMP_NE, 0) == 0);
}

static void fetch(void) {
    CHECK(shmem_long_atomic_fetch(word, 0) == 0);
}

static void compare_swap(void) {
    CHECK(shmem_long_atomic_compare_swap(word, 1, 2, 0) == 0);
}

static void get(void) {
    CHECK(shmem_long_g(word, 0) == 0);
}

static void signal_fetch(void) {
    CHECK(shmem_signal_fetch((uint64_t *)word) == 0);
}

static void test_lock(void) {
    if (shmem_my_pe())
        CHECK(shmem_test_lock(lock));
}

/* How often the core was given away in so many looks. */
static int polled(void (*look)(void), int looks) {
    int before = yields;

    for (int i = 0; i < looks; i++)
        look();
    return yields - before;
}

static void all_give_way(void) {
    static void (*const looks[])(void) = {test_that_fails, test_that_holds, test_of_a_short, test_any, test_all,
                                          test_some,       fetch,           compare_swap,    get,      signal_fetch,
                                          test_lock};

    if (shmem_my_pe() == 0)
        shmem_set_lock(lock);
    shmem_barrier_all();
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) /* some turns are for going to another core */
        CHECK(polled(looks[i], FEW) >= (looks[i] == test_lock && shmem_my_pe() == 0 ? 0 : 5));
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        shmem_clear_lock(lock);
}

static void all_at(const int *cores) {
    shmem_barrier_all();
    core = cores[shmem_my_pe()];
    polled(test_that_fails, FEW); /* tells the others */
    shmem_barrier_all();
}

/* polls cores: as many as the PEs have together */
int main(int argc, char **argv) {
    int together[16] = {0}, apart[16], n, cores = atoi(argc > 1 ? argv[1] : "1");
    cpu_set_t before, after;

    setenv("PYSHMEM_CORES", argc > 1 ? argv[1] : "1", 1);
    CHECK(!sched_getaffinity(0, sizeof before, &before));
    shmem_init();
    n = shmem_n_pes();
    word = shmem_calloc(1, sizeof *word);
    lock = shmem_calloc(1, sizeof *lock);
    for (int i = 0; i < 16; i++)
        apart[i] = i;
    all_at(together);
    if (n > 1)
        all_give_way();
    CHECK(!sched_getaffinity(0, sizeof after, &after) && CPU_EQUAL(&before, &after));
    if (shmem_my_pe() == 0 || cores < n || (CPU_COUNT(&before) == 1 && CPU_ISSET(0, &before)))
        CHECK(moves == 0);
    else
        CHECK(moves >= 2 && moves % 2 == 0);
    all_at(apart);
    if (cores < n)
        all_give_way();
    else
        CHECK(polled(test_that_fails, FEW) <= 1 && polled(test_that_fails, MANY) > 0);
    return conclude();
}
