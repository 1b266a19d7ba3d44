/* SPDX-License-Identifier: BSD-3-Clause
 * Random elements of a table that is spread over the PEs, fetched by requests and answers through two of bale's
 * exstack2
 * ("index gather"); a program that does nothing but poll where it waits. foreign_speed.py builds it with bale's
 * sources.
 *
 *     exstack2_pe label [requests a PE] */
#include <libgetput.h>

#include <exstack.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct package {
    int64_t index, value;
} package_t;

enum { TURNS = 5, TABLE = 1000, BUFFER = 1024, TAG = 1000000 };

static double now_s(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void gather(exstack2_t *asks, exstack2_t *answers, int64_t *found, const int64_t *wanted, int64_t n,
                   const int64_t *table) {
    int64_t sent = 0, more = 1, from;
    package_t package, answer;

    while (more || exstack2_proceed(answers, !more)) {
        for (; sent < n; sent++) {
            package = (package_t){sent, wanted[sent] / THREADS};
            if (!exstack2_push(asks, &package, wanted[sent] % THREADS))
                break;
        }
        while (exstack2_pop(asks, &package, &from)) {
            answer = (package_t){package.index, table[package.value]};
            if (!exstack2_push(answers, &answer, from)) {
                exstack2_unpop(asks);
                break;
            }
        }
        while (exstack2_pop(answers, &package, NULL))
            found[package.index] = package.value;
        more = exstack2_proceed(asks, sent == n);
    }
}

int main(int argc, char **argv) {
    int64_t n, wrong = 0, *table, *wanted, *found;
    exstack2_t *asks, *answers;
    double spent;

    shmem_init();
    n = argc > 2 ? atol(argv[2]) : 1000000;
    table = malloc(TABLE * sizeof *table);
    wanted = malloc((size_t)n * sizeof *wanted);
    found = calloc((size_t)n, sizeof *found);
    for (int64_t i = 0; i < TABLE; i++)
        table[i] = (int64_t)MYTHREAD * TAG + i;
    srand48(MYTHREAD + 17);
    for (int64_t i = 0; i < n; i++)
        wanted[i] = lrand48() % (TABLE * (int64_t)THREADS);
    asks = exstack2_init(BUFFER, sizeof(package_t));
    answers = exstack2_init(BUFFER, sizeof(package_t));
    shmem_barrier_all();
    spent = now_s();
    for (int turn = 0; turn < TURNS; turn++) {
        gather(asks, answers, found, wanted, n, table);
        exstack2_reset(asks); /* with a barrier */
        exstack2_reset(answers);
    }
    spent = now_s() - spent;
    for (int64_t i = 0; i < n; i++)
        wrong += found[i] != wanted[i] % THREADS * TAG + wanted[i] / THREADS;
    if (wrong)
        printf("%ld of %ld elements are wrong\n", (long)wrong, (long)n);
    else if (MYTHREAD == 0)
        printf("{\"peer\": \"%s\", \"op\": \"exstack2 gather\", \"bytes\": 8, \"pes\": %d, \"us\": %.5f}\n",
               argc > 1 ? argv[1] : "?", (int)THREADS, spent * 1e6 / TURNS / (double)n);
    shmem_finalize();
    return wrong != 0;
}
