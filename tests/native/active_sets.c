/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives on active sets, of all PEs and of parts, from every root, of few and of many bytes: those of all PEs go
 * another way in the library than the others. pSync is as it was behind each call. */
#include "check.h"

enum { MOST = 80, PES = 8, KEPT = -7, WORDS = 4 };

typedef struct set {
    int start, log_stride, size, me; /* me: -1 outside */
} set_t;

static long sync_words[WORDS][SHMEM_BCAST_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE + SHMEM_REDUCE_SYNC_SIZE +
                              SHMEM_ALLTOALL_SYNC_SIZE];
static int work[2][MOST / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static int source[MOST * PES], dest[(MOST + PES) * PES];

static int value(int pe, int to, int i) {
    return pe * 1000000 + to * 10000 + i;
}

static int world_pe(const set_t *set, int member) {
    return set->start + (member << set->log_stride);
}

static void fill(int n, int turn) {
    for (int i = 0; i < n; i++)
        source[i] = value(shmem_my_pe(), 0, i) + turn;
    for (size_t i = 0; i < sizeof dest / sizeof *dest; i++)
        dest[i] = KEPT;
    shmem_barrier_all();
}

#define SET(_set) (_set)->start, (_set)->log_stride, (_set)->size

static void broadcasts(const set_t *set, int n) {
    for (int root = 0; root < set->size; root++) {
        fill(n, root);
        if (set->me >= 0) {
            shmem_broadcast32(dest, source, (size_t)n, root, SET(set), sync_words[root % 2]);
            for (int i = 0; i < n; i++)
                CHECK(dest[i] == (set->me == root ? KEPT : value(world_pe(set, root), 0, i) + root));
        }
        shmem_barrier_all();
    }
}

static void collects(const set_t *set, int n) {
    int at = 0;

    fill(n + PES, 0);
    if (set->me >= 0) {
        shmem_fcollect32(dest, source, (size_t)n, SET(set), sync_words[0]);
        for (int k = 0; k < set->size; k++)
            for (int i = 0; i < n; i++)
                CHECK(dest[k * n + i] == value(world_pe(set, k), 0, i));
        shmem_sync(SET(set), sync_words[1]);
        shmem_collect32(dest, source, (size_t)(n + set->me), SET(set), sync_words[2]);
        for (int k = 0; k < set->size; k++)
            for (int i = 0; i < n + k; i++)
                CHECK(dest[at++] == value(world_pe(set, k), 0, i));
    }
    shmem_barrier_all();
}

static void sums(const set_t *set, int n) {
    fill(n, 0);
    if (set->me >= 0 && n > 0) {
        shmem_int_sum_to_all(dest, source, n, SET(set), work[0], sync_words[0]);
        for (int i = 0; i < n; i++) {
            int sum = 0;
            for (int k = 0; k < set->size; k++)
                sum += value(world_pe(set, k), 0, i);
            CHECK(dest[i] == sum);
        }
    }
    shmem_barrier_all();
}

static void exchanges(const set_t *set, int n) {
    fill(0, 0);
    for (int k = 0; k < set->size; k++)
        for (int i = 0; i < n; i++)
            source[k * n + i] = value(shmem_my_pe(), k, i);
    shmem_barrier_all();
    if (set->me >= 0) {
        shmem_alltoall32(dest, source, (size_t)n, SET(set), sync_words[3]);
        for (int k = 0; k < set->size; k++)
            for (int i = 0; i < n; i++)
                CHECK(dest[k * n + i] == value(world_pe(set, k), set->me, i));
        shmem_barrier(SET(set), sync_words[1]);
    }
    shmem_barrier_all();
}

int main(void) {
    int n_pes, pe;

    shmem_init();
    n_pes = shmem_n_pes();
    pe = shmem_my_pe();
    for (int k = 0; k < WORDS; k++)
        for (size_t i = 0; i < sizeof *sync_words / sizeof **sync_words; i++)
            sync_words[k][i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    for (int start = 0; start < 2 && start < n_pes; start++)
        for (int log = 0; log < 2; log++) {
            int off = pe - start, inside = off >= 0 && off % (1 << log) == 0;
            set_t set = {start, log, (n_pes - start + (1 << log) - 1) >> log, inside ? off >> log : -1};

            for (int n = 0; n <= MOST; n += n < 9 ? 1 : 7) {
                broadcasts(&set, n);
                collects(&set, n);
                sums(&set, n);
                exchanges(&set, n);
            }
        }
    for (int k = 0; k < WORDS; k++)
        for (size_t i = 0; i < sizeof *sync_words / sizeof **sync_words; i++)
            CHECK(sync_words[k][i] == SHMEM_SYNC_VALUE);
    return conclude();
}
