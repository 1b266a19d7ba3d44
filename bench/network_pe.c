/* SPDX-License-Identifier: BSD-3-Clause
 * What two PEs on two hosts pay for the network, against any OpenSHMEM library; network.py compiles and runs it.
 *
 *     network_pe label [op...]
 *
 * PE 0 prints one JSON line a figure: of `calls` samples the median, and tenths from both ends. Of init both PEs do, as
 * who comes first waits for the other; PE 1 prints what a get from it, while it computed, took of its other threads'
 * time on the CPU. */
#include <math.h>
#include <shmem.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALLS     1500
#define BYTES     ((size_t)1 << 20)
#define WINDOW    16  /* puts of that size behind one another */
#define WINDOWS   20  /* samples of those */
#define BUSY_GETS 300 /* while the other PE computes */
#define BUSY_US   1e6
#define HEAD_US   1e5
#define APART_US  1e3 /* between gets that each have to wake who serves them */

static const char *label;
static double sample[CALLS];
static long *words, round_trip, pe;
static char *block;

static double clock_us(clockid_t clock) {
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static double now_us(void) {
    return clock_us(CLOCK_MONOTONIC);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* ---- the operations ---- */

static void put(void) { /* there and back */
    round_trip++;
    if (pe == 0)
        shmem_long_p(words, round_trip, 1);
    shmem_long_wait_until(words, SHMEM_CMP_GE, round_trip);
    if (pe == 1)
        shmem_long_p(words, round_trip, 0);
}

static void put_quiet(void) {
    if (pe == 0) {
        shmem_long_p(words + 1, 7, 1);
        shmem_quiet();
    }
}

static void get(void) {
    if (pe == 0)
        (void)shmem_long_g(words + 1, 1);
}

static void fetch_add(void) {
    if (pe == 0)
        (void)shmem_long_atomic_fetch_add(words + 1, 1, 1);
}

static void barrier_all(void) {
    shmem_barrier_all();
}

static void put_window(void) {
    for (int i = 0; pe == 0 && i < WINDOW; i++)
        shmem_putmem_nbi(block, block, BYTES, 1);
    if (pe == 0)
        shmem_quiet();
}

/* Without a call of the library. */
static void compute(double us) {
    double end_us = now_us() + us;

    while (now_us() < end_us)
        ;
}

static void get_apart(void) {
    get();
}

static const struct operation {
    const char *name;
    void (*call)(void);
    int calls;
    double per_call; /* so many of what is counted */
    size_t nbytes;
} operations[] = {
    {"put", put, CALLS, 2, 8},
    {"put_quiet", put_quiet, CALLS, 1, 8},
    {"get", get, CALLS, 1, 8},
    {"fetch_add", fetch_add, CALLS, 1, 8},
    {"barrier_all", barrier_all, CALLS, 1, 0},
    {"put", put_window, WINDOWS, WINDOW, BYTES},
    {"busy_get", get, BUSY_GETS, 1, 8},
    {"busy_get_apart", get_apart, BUSY_GETS, 1, 8},
};

static void emit(const char *op, size_t nbytes, int n) {
    qsort(sample, (size_t)n, sizeof *sample, by_size);
    printf("{\"op\": \"%s\", \"provider\": \"%s\", \"bytes\": %zu, \"pes\": 2, \"us\": %.2f, \"tenth_us\": %.2f, "
           "\"nine_tenths_us\": %.2f, \"calls\": %d}\n",
           op, label, nbytes, sample[n / 2], sample[n / 10], sample[n * 9 / 10], n);
    fflush(stdout);
}

/* Calls that end after PE 1 has computed are not counted, but for one that waited for that. */
static int sample_calls(const struct operation *operation, int warm, double until_us) {
    int n = 0;

    for (int i = -warm; n < operation->calls && now_us() < until_us; i++) {
        double begin_us;
        compute(operation->call == get_apart ? APART_US : 0);
        begin_us = now_us();
        operation->call();
        if (i >= 0)
            sample[n++] = (now_us() - begin_us) / operation->per_call;
    }
    return n;
}

/* Of this process, but for the thread that asks. */
static double others_cpu_us(void) {
    return clock_us(CLOCK_PROCESS_CPUTIME_ID) - clock_us(CLOCK_THREAD_CPUTIME_ID);
}

static void measure(const struct operation *operation) {
    bool is_busy = strncmp(operation->name, "busy_get", 8) == 0;
    double until_us, cpu_us = 0;
    char name[64];
    int n;

    shmem_barrier_all();
    until_us = is_busy ? now_us() + BUSY_US : HUGE_VAL;
    if (is_busy) {
        cpu_us = others_cpu_us();
        compute(pe == 0 ? HEAD_US : BUSY_US);
        cpu_us = others_cpu_us() - cpu_us;
    }
    n = sample_calls(operation, is_busy ? 0 : operation->calls / 10, until_us);
    if (is_busy && pe == 0)
        shmem_long_p(words + 2, n, 1);
    shmem_barrier_all();
    if (pe == 0)
        emit(operation->name, operation->nbytes, n);
    if (is_busy && pe == 1) {
        snprintf(name, sizeof name, "%s_cpu", operation->name);
        sample[0] = cpu_us / (double)words[2];
        emit(name, operation->nbytes, 1);
    }
}

int main(int argc, char **argv) {
    double began_us = now_us();

    if (argc < 2)
        return 2;
    label = argv[1];
    shmem_init();
    sample[0] = now_us() - began_us;
    emit("init", 0, 1);
    pe = shmem_my_pe();
    words = shmem_calloc(8, sizeof *words);
    block = shmem_malloc(BYTES);
    memset(block, 1, BYTES);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        bool wanted = argc == 2;
        for (int k = 2; k < argc; k++)
            wanted = wanted || strcmp(argv[k], operations[i].name) == 0;
        if (wanted)
            measure(&operations[i]);
    }
    shmem_free(block);
    shmem_free(words);
    shmem_finalize();
    return 0;
}
