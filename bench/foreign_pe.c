/* SPDX-License-Identifier: BSD-3-Clause
 * Small collectives as OSU's benchmarks time them, and the few other calls of foreign_speed.py, against any OpenSHMEM
 * library: the call alone is timed, a barrier follows, and the figure is the mean of a batch of calls, the median of
 * the batches', and the mean over the PEs. Only calls of OpenSHMEM 1.4, as Open MPI has no later ones. A JSON line a
 * figure.
 *
 *     foreign_pe label [op...] */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 20000, BATCHES = 100, MAX_PES = 256, MOST = 256 * 1024 };

static long p_sync[2][SHMEM_COLLECT_SYNC_SIZE + SHMEM_REDUCE_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE];
static double work[2][SHMEM_REDUCE_MIN_WRKDATA_SIZE + 64];
static double mean[1], means[MAX_PES];
static double *source, *dest, *all_dest;
static long *word;
static int pe, n_pes;

static double now_us(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

#define SET 0, 0, n_pes

static void run_nothing(size_t n, long i) {
    (void)n, (void)i;
}

static void run_barrier(size_t n, long i) {
    (void)n, (void)i;
    shmem_barrier_all();
}

static void run_broadcast(size_t n, long i) {
    shmem_broadcast64(dest, source, n / 8, 0, SET, p_sync[i & 1]);
}

static void run_fcollect(size_t n, long i) {
    shmem_fcollect64(all_dest, source, n / 8, SET, p_sync[i & 1]);
}

static void run_collect(size_t n, long i) {
    shmem_collect64(all_dest, source, n / 8, SET, p_sync[i & 1]);
}

static void run_alltoall(size_t n, long i) {
    shmem_alltoall64(all_dest, source, n / 8, SET, p_sync[i & 1]);
}

static void run_sum(size_t n, long i) {
    shmem_double_sum_to_all(dest, source, (int)(n / 8), SET, work[i & 1], p_sync[i & 1]);
}

static void run_put(size_t n, long i) {
    (void)i;
    if (pe)
        return;
    shmem_putmem(dest, source, n, 1);
    shmem_quiet();
}

/* 64 at a time, as OSU does: the figure is of one. */
static void run_get_nb(size_t n, long i) {
    (void)i;
    if (pe)
        return;
    for (int k = 0; k < 64; k++)
        shmem_getmem_nbi((char *)all_dest + (size_t)k * n, source, n, 1);
    shmem_quiet();
}

/* A thousand looks that find nothing: the figure is of one. */
static void run_test(size_t n, long i) {
    static volatile long found;

    (void)n, (void)i;
    if (pe)
        return;
    for (int k = 0; k < 1000; k++)
        found += shmem_long_test(word, SHMEM_CMP_NE, 0);
}

static const struct op {
    const char *name;
    void (*run)(size_t n, long i);
    size_t sizes[8];
    int calls, parts; /* parts: of one call of run() */
    int pes;          /* that work: 0 for all */
} ops[] = {
    {"nothing", run_nothing, {0}, CALLS, 1, 0},
    {"barrier_all", run_barrier, {0}, CALLS, 1, 0},
    {"broadcast", run_broadcast, {8, 64, 256, 1024}, CALLS, 1, 0},
    {"fcollect", run_fcollect, {8, 64, 256, 1024}, CALLS, 1, 0},
    {"collect", run_collect, {8, 64, 256, 1024}, CALLS, 1, 0},
    {"alltoall", run_alltoall, {8, 64, 256}, CALLS, 1, 0},
    {"sum", run_sum, {8, 64, 256, 1024}, CALLS, 1, 0},
    {"put", run_put, {MOST}, CALLS / 20, 1, 1},
    {"get_nb", run_get_nb, {4096}, CALLS / 20, 64, 1},
    {"test", run_test, {8}, CALLS / 50, 1000, 1},
};

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of what the batches make of a call: a PE that loses its core for a moment spoils one of them. */
static double measure(const struct op *op, size_t n) {
    static double spent[BATCHES + 1];
    long i = 0;

    for (int batch = 0; batch <= BATCHES; batch++) { /* one to warm up */
        spent[batch] = 0;
        for (long end = i + op->calls / BATCHES; i < end; i++) {
            double start = now_us();
            op->run(n, i);
            spent[batch] += now_us() - start;
            shmem_barrier_all();
        }
    }
    qsort(spent + 1, BATCHES, sizeof *spent, order);
    return spent[1 + BATCHES / 2] / (op->calls / BATCHES) / op->parts;
}

static void tell(const char *label, const struct op *op, size_t n) {
    double sum = 0;

    mean[0] = measure(op, n);
    shmem_barrier_all();
    if (pe == 0) {
        for (int i = 0; i < n_pes; i++) {
            shmem_double_get(&means[i], mean, 1, i);
            sum += means[i];
        }
        printf("{\"peer\": \"%s\", \"op\": \"%s\", \"bytes\": %zu, \"pes\": %d, \"us\": %.4f, \"root_us\": %.4f}\n",
               label, op->name, n, n_pes, sum / (op->pes ? op->pes : n_pes), means[0]);
        fflush(stdout);
    }
    shmem_barrier_all();
}

static int asked(int argc, char **argv, const char *name) {
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return argc < 3;
}

int main(int argc, char **argv) {
    shmem_init();
    pe = shmem_my_pe();
    n_pes = shmem_n_pes();
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof p_sync[0] / sizeof *p_sync[0]; i++)
            p_sync[k][i] = SHMEM_SYNC_VALUE;
    source = shmem_malloc(MOST);
    dest = shmem_malloc(MOST);
    all_dest = shmem_malloc(MOST * 2);
    word = shmem_malloc(sizeof *word);
    memset(source, 0, MOST);
    memset(dest, 0, MOST);
    memset(all_dest, 0, MOST * 2);
    *word = 0;
    shmem_barrier_all();
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        for (size_t i = 0; asked(argc, argv, ops[k].name) && i < 8 && (i == 0 || ops[k].sizes[i]); i++)
            tell(argc > 1 ? argv[1] : "?", &ops[k], ops[k].sizes[i]);
    shmem_finalize();
    return 0;
}
