/* SPDX-License-Identifier: BSD-3-Clause
 * The figures of host_pe.py from C, against any OpenSHMEM library; host.py compiles and runs it.
 *
 *     host_pe label version [op...] */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TARGET_NS 20e6
#define MAX_BYTES ((size_t)4 << 20)

static const size_t sizes[] = {8, 64, 512, 4096, 32768, 262144, 1048576, MAX_BYTES};
static double *dest, *source, *all_dest;
static long *word, *flag, *agreed;
static long *p_sync[2];
static double *p_work;
static long rallies; /* so far: flags only grow */
static int pe, n_pes;

static long now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* ---- the operations, n times ---- */

#define REPEAT for (long i = 0; i < n; i++)

static void run_put(size_t nbytes, long n) {
    REPEAT shmem_putmem(dest, source, nbytes, 1);
}

static void run_get(size_t nbytes, long n) {
    REPEAT shmem_getmem(dest, source, nbytes, 1);
}

static void run_p(size_t nbytes, long n) {
    (void)nbytes;
    REPEAT shmem_long_p(word, 7, 1);
}

static void run_g(size_t nbytes, long n) {
    (void)nbytes;
    REPEAT(void) shmem_long_g(word, 1);
}

static void run_fetch_add(size_t nbytes, long n) {
    (void)nbytes;
    REPEAT(void) shmem_long_atomic_fetch_add(word, 1, 1);
}

static void run_barrier_all(size_t nbytes, long n) {
    (void)nbytes;
    REPEAT shmem_barrier_all();
}

#if SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION < 5 /* no teams yet */
#define BROADCAST(_i, _n)  shmem_broadcast64(dest, source, _n, 0, 0, 0, n_pes, p_sync[_i & 1])
#define FCOLLECT(_i, _n)   shmem_fcollect64(all_dest, source, _n, 0, 0, n_pes, p_sync[_i & 1])
#define SUM_REDUCE(_i, _n) shmem_double_sum_to_all(dest, source, (int)(_n), 0, 0, n_pes, p_work, p_sync[_i & 1])
#else
#define BROADCAST(_i, _n)  shmem_double_broadcast(SHMEM_TEAM_WORLD, dest, source, _n, 0)
#define FCOLLECT(_i, _n)   shmem_double_fcollect(SHMEM_TEAM_WORLD, all_dest, source, _n)
#define SUM_REDUCE(_i, _n) shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, _n)
#endif

static void run_broadcast(size_t nbytes, long n) {
    REPEAT BROADCAST(i, nbytes / 8);
}

static void run_fcollect(size_t nbytes, long n) {
    REPEAT FCOLLECT(i, nbytes / 8);
}

static void run_sum_reduce(size_t nbytes, long n) {
    REPEAT SUM_REDUCE(i, nbytes / 8);
}

static void run_ping_pong(size_t nbytes, long n) {
    (void)nbytes;
    if (pe > 1)
        return;
    REPEAT {
        rallies++;
        if (pe == 0)
            shmem_long_p(flag, rallies, 1);
        shmem_long_wait_until(flag, SHMEM_CMP_EQ, rallies);
        if (pe == 1)
            shmem_long_p(flag, rallies, 0);
    }
}

static void run_call(size_t nbytes, long n) {
    (void)nbytes;
    REPEAT(void) shmem_my_pe();
}

static const struct {
    const char *name;
    void (*run)(size_t nbytes, long n);
    int sized, one_sided;
} ops[] = {
    {"put", run_put, 1, 1},
    {"get", run_get, 1, 1},
    {"p", run_p, 0, 1},
    {"g", run_g, 0, 1},
    {"fetch_add", run_fetch_add, 0, 1},
    {"barrier_all", run_barrier_all, 0, 0},
    {"broadcast", run_broadcast, 1, 0},
    {"fcollect", run_fcollect, 1, 0},
    {"sum_reduce", run_sum_reduce, 1, 0},
    {"ping-pong", run_ping_pong, 0, 0},
    {"call", run_call, 0, 1},
};
#define N_OPS (sizeof ops / sizeof *ops)

/* ---- measuring ---- */

static long timed(size_t op, size_t nbytes, long n) {
    long begin;

    shmem_barrier_all();
    begin = now_ns();
    if (!ops[op].one_sided || pe == 0) {
        ops[op].run(nbytes, n);
        if (ops[op].one_sided)
            shmem_quiet();
    }
    if (!ops[op].one_sided)
        shmem_barrier_all();
    return now_ns() - begin;
}

/* What PE 0 says. */
static long agree(long value) {
    shmem_barrier_all();
    if (pe == 0)
        for (int i = 0; i < n_pes; i++)
            shmem_long_p(agreed, value, i);
    shmem_barrier_all();
    return *agreed;
}

static void measure(const char *label, const char *version, size_t op, size_t nbytes) {
    long n = 1, ns, following;

    for (int attempt = 0;; attempt++) {
        double factor;
        ns = timed(op, nbytes, n);
        factor = 1.2 * TARGET_NS / (double)ns;
        factor = factor < 1.5 ? 1.5 : factor > 100 ? 100 : factor;
        following = agree(attempt && (double)ns >= TARGET_NS ? 0 : (long)((double)n * factor) + 1);
        if (!following)
            break;
        n = following;
    }
    if (pe == 0)
        printf("{\"provider\": \"%s\", \"op\": \"%s\", \"bytes\": %zu, \"pes\": %d, \"ns\": %.1f, \"calls\": %ld, "
               "\"version\": \"%s\"}\n",
               label, ops[op].name, nbytes, n_pes, (double)ns / (double)n, n, version);
    fflush(stdout);
}

static int wanted(int argc, char **argv, const char *name) {
    for (int i = 3; i < argc; i++)
        if (!strcmp(argv[i], name))
            return 1;
    return argc <= 3;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    shmem_init();
    pe = shmem_my_pe();
    n_pes = shmem_n_pes();
    dest = shmem_calloc(1, MAX_BYTES);
    source = shmem_calloc(1, MAX_BYTES);
    all_dest = shmem_calloc((size_t)n_pes, MAX_BYTES);
    word = shmem_calloc(1, sizeof *word);
    flag = shmem_calloc(8, sizeof *flag);
    agreed = shmem_calloc(1, sizeof *agreed);
    p_work = shmem_calloc(1, MAX_BYTES);
    for (int half = 0; half < 2; half++) {
        p_sync[half] = shmem_malloc(SHMEM_REDUCE_SYNC_SIZE * 2 * sizeof(long) + SHMEM_COLLECT_SYNC_SIZE * sizeof(long));
        for (size_t i = 0; i < SHMEM_REDUCE_SYNC_SIZE * 2 + SHMEM_COLLECT_SYNC_SIZE; i++)
            p_sync[half][i] = SHMEM_SYNC_VALUE;
    }
    shmem_barrier_all();
    for (size_t op = 0; op < N_OPS; op++) {
        size_t n_sizes = ops[op].sized ? sizeof sizes / sizeof *sizes : 1;
        for (size_t i = 0; wanted(argc, argv, ops[op].name) && i < n_sizes; i++)
            measure(argv[1], argv[2], op, sizes[i]);
    }
    shmem_finalize();
    return 0;
}
