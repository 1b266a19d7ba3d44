/* SPDX-License-Identifier: BSD-3-Clause
 * Static and global variables as symmetric objects. The first argument says which way the PEs are to have to each
 * other's: "mapped", "copied" (by the kernel) or "library" (of the openshmem conduit). With a second one there is
 * another thread when shmem_init is called. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define N            1000
#define SPARSE       ((size_t)1 << 30)
#define RESIDENT_KIB (256 * 1024)

long initialised[N] = {1, 2, 3};
static long zeroed[N];
static char sparse[SPARSE];
static int sum_in[N], sum_out[N];
static long collected[4 * N];
static long counter, flag, lock, pair[2];
static uint64_t signal_word;
static long sync_words[SHMEM_BCAST_SYNC_SIZE] = {SHMEM_SYNC_VALUE}; /* of an active set */
static const long constant = 5;

static int me, n_pes, next, mapped, atomic;

static void contents_survive_init(void) {
    CHECK(initialised[0] == 1 && initialised[2] == 3 && initialised[N - 1] == 0);
    CHECK(counter == 77); /* written before shmem_init */
    counter = 0;
}

static void puts_and_gets(void) {
    long block[N], got;

    for (int i = 0; i < N; i++)
        block[i] = me * N + i;
    shmem_long_put(zeroed, block, N, next);
    shmem_long_p(&initialised[N - 1], me + 1, next);
    shmem_barrier_all();
    for (int i = 0; i < N; i++)
        CHECK(zeroed[i] == (me + n_pes - 1) % n_pes * N + i);
    CHECK(initialised[N - 1] == (me + n_pes - 1) % n_pes + 1);
    CHECK(shmem_long_g(&initialised[N - 1], next) == me + 1);
    memset(block, 0, sizeof block);
    shmem_long_get_nbi(block, zeroed, N, next);
    shmem_quiet();
    CHECK(block[0] == me * N && block[N - 1] == me * N + N - 1);
    shmem_barrier_all();
    shmem_long_iput(initialised, block, 2, 1, 10, next);
    shmem_barrier_all();
    shmem_long_iget(&got, &initialised[18], 1, 1, 1, next);
    CHECK(got == me * N + 9);
    shmem_barrier_all();
}

static void a_large_array_stays_sparse(void) {
    FILE *statistics = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = 0;

    while (statistics && fgets(line, sizeof line, statistics))
        if (sscanf(line, "Rss: %ld kB", &kib) == 1)
            break;
    if (statistics)
        fclose(statistics);
    CHECK(!statistics || (kib > 0 && kib < RESIDENT_KIB));
    shmem_char_p(&sparse[SPARSE - 1], (char)(me + 1), next);
    shmem_barrier_all();
    CHECK(sparse[SPARSE - 1] == (me + n_pes - 1) % n_pes + 1);
    CHECK(sparse[SPARSE / 2] == 0);
}

static void a_store_ends_a_wait(void) {
    if (me == 0)
        shmem_long_p(&flag, 1, next);
    shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
    if (me != 0)
        shmem_long_p(&flag, 1, next);
    CHECK(shmem_long_test(&flag, SHMEM_CMP_GE, 1));
    shmem_barrier_all();
}

static void collectives(void) {
    for (int i = 0; i < N; i++)
        sum_in[i] = me + i;
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, sum_out, sum_in, N);
    for (int i = 0; i < N; i++)
        CHECK(sum_out[i] == n_pes * i + n_pes * (n_pes - 1) / 2);
    shmem_long_fcollect(SHMEM_TEAM_WORLD, collected, zeroed, N);
    for (int pe = 0; pe < n_pes; pe++)
        CHECK(collected[pe * N + 5] == (pe + n_pes - 1) % n_pes * N + 5);
    shmem_long_broadcast(SHMEM_TEAM_WORLD, initialised, zeroed, N, n_pes - 1);
    CHECK(initialised[7] == (2 * n_pes - 2) % n_pes * N + 7);
    /* too much for the stages of a team */
    shmem_char_max_reduce(SHMEM_TEAM_WORLD, sparse, sparse + SPARSE - 100000, 100000);
    CHECK(sparse[99999] == n_pes);
    shmem_barrier_all();
}

static void atomics_signals_and_locks(void) {
    const long turns = 500;
    long value = 42;

    for (int i = 0; i < turns; i++)
        shmem_long_atomic_inc(&counter, i % n_pes);
    shmem_barrier_all();
    CHECK(counter == turns / n_pes * n_pes + (me < turns % n_pes ? n_pes : 0));
    shmem_long_put_signal(&pair[1], &value, 1, &signal_word, 9, SHMEM_SIGNAL_SET, next);
    CHECK(shmem_signal_wait_until(&signal_word, SHMEM_CMP_EQ, 9) == 9 && pair[1] == 42);
    for (int i = 0; i < 50; i++) {
        shmem_set_lock(&lock);
        shmem_long_p(&pair[0], shmem_long_g(&pair[0], 0) + 1, 0);
        shmem_clear_lock(&lock);
    }
    shmem_barrier_all();
    CHECK(me != 0 || pair[0] == 50 * n_pes);
    sum_out[0] = -1;
    if (me == 0)
        sum_in[0] = 1234;
    shmem_broadcast32(sum_out, sum_in, 1, 0, 0, 0, n_pes, sync_words);
    CHECK(sum_out[0] == (me == 0 ? -1 : 1234)); /* as of old, the root's own is left alone */
    shmem_barrier_all();
}

static void addresses(void) {
    void *elsewhere = malloc(8);
    long local;

    for (int pe = 0; pe < n_pes; pe++) {
        long *peer = shmem_ptr(&counter, pe);
        CHECK(shmem_addr_accessible(&counter, pe) && shmem_addr_accessible(initialised, pe));
        CHECK(shmem_addr_accessible(&sparse[SPARSE - 1], pe) && !shmem_addr_accessible(elsewhere, pe));
        CHECK(!shmem_addr_accessible(&local, pe) && !shmem_addr_accessible(&constant, pe));
        CHECK(!shmem_ptr(&local, pe));
        if (pe == me)
            CHECK(peer == &counter);
        else
            CHECK(!peer == !mapped);
    }
    if (mapped) {
        *(long *)shmem_ptr(&pair[0], next) = 1000 + me;
        shmem_barrier_all();
        CHECK(pair[0] == 1000 + (me + n_pes - 1) % n_pes);
    }
    free(elsewhere);
    shmem_barrier_all();
}

static void a_child_has_its_own(void) {
    int status = -1;
    pid_t child;

    counter = 5;
    child = fork();
    if (child == 0) {
        int same = counter == 5 && zeroed[3] == (me + n_pes - 1) % n_pes * N + 3 && !sparse[SPARSE / 4];
        counter = 6;
        sparse[SPARSE / 4] = 1;
        _exit(same ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(counter == 5 && !sparse[SPARSE / 4]);
}

static void *nothing(void *unused) {
    return pause(), unused;
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";

    pthread_t thread;

    counter = 77;
    if (argc > 2 && pthread_create(&thread, NULL, nothing, NULL))
        return 1;
    shmem_init();
    me = shmem_my_pe();
    n_pes = shmem_n_pes();
    next = (me + 1) % n_pes;
    mapped = strcmp(way, "mapped") == 0;
    CHECK(mapped || strcmp(way, "copied") == 0 || strcmp(way, "library") == 0);
    atomic = n_pes == 1 || strcmp(way, "copied") != 0;
    contents_survive_init();
    shmem_barrier_all();
    puts_and_gets();
    a_large_array_stays_sparse();
    a_store_ends_a_wait();
    collectives();
    if (atomic)
        atomics_signals_and_locks();
    addresses();
    a_child_has_its_own();
    return conclude();
}
