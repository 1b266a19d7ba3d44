/* SPDX-License-Identifier: BSD-3-Clause
 * Who polls by test alone gives its core away where another PE was seen on it, and seldom where it has it for itself;
 * in a job of more PEs than cores always. Of PEs on one core, in a job that has one for each, all but the first go to
 * another one, and have the affinity of before then. Where a PE runs is told here. */
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

/* How often the core was given away in so many looks that find nothing. */
static int polled(long *word, int looks) {
    int before = yields;

    for (int i = 0; i < looks; i++)
        CHECK(!shmem_long_test(word, SHMEM_CMP_NE, 0));
    return yields - before;
}

static void all_at(const int *cores, long *word) {
    shmem_barrier_all();
    core = cores[shmem_my_pe()];
    polled(word, FEW); /* tells the others */
    shmem_barrier_all();
}

/* polls cores: as many as the PEs have together */
int main(int argc, char **argv) {
    int together[16] = {0}, apart[16], n, cores = atoi(argc > 1 ? argv[1] : "1");
    cpu_set_t before, after;
    long *word;

    setenv("PYSHMEM_CORES", argc > 1 ? argv[1] : "1", 1);
    CHECK(!sched_getaffinity(0, sizeof before, &before));
    shmem_init();
    n = shmem_n_pes();
    word = shmem_calloc(1, sizeof *word);
    for (int i = 0; i < 16; i++)
        apart[i] = i;
    all_at(together, word);
    CHECK(n == 1 || polled(word, FEW) >= 20);
    CHECK(!sched_getaffinity(0, sizeof after, &after) && CPU_EQUAL(&before, &after));
    if (shmem_my_pe() == 0 || cores < n || (CPU_COUNT(&before) == 1 && CPU_ISSET(0, &before)))
        CHECK(moves == 0);
    else
        CHECK(moves >= 2 && moves % 2 == 0);
    all_at(apart, word);
    if (cores < n)
        CHECK(polled(word, FEW) >= 20);
    else
        CHECK(polled(word, FEW) <= 1 && polled(word, MANY) > 0);
    return conclude();
}
