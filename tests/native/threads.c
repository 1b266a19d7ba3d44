/* SPDX-License-Identifier: BSD-3-Clause
 * Several threads of each PE in put, get, atomics, fence and quiet at once, as a program and its proxy are. */
#include <pthread.h>

#include "check.h"

enum { N_THREADS = 3, N_ROUNDS = 400, NELEMS = 64 };

static int me, n;
static long *box, *count; /* [N_THREADS][NELEMS], [3] */

static void *work(void *argument) {
    long thread = *(long *)argument, sent[NELEMS], back[NELEMS];
    int next = (me + 1) % n;

    for (long round = 0; round < N_ROUNDS; round++) {
        for (int i = 0; i < NELEMS; i++)
            sent[i] = round * NELEMS + i + thread;
        if (round % 2)
            shmem_long_put(box + thread * NELEMS, sent, NELEMS, next);
        else
            shmem_long_put_nbi(box + thread * NELEMS, sent, NELEMS, next);
        shmem_fence();
        shmem_long_atomic_add(count, 1, next);
        shmem_ulong_atomic_fetch_xor((unsigned long *)count + 1, 1UL << thread, next);
        shmem_quiet();
        shmem_long_get(back, box + thread * NELEMS, NELEMS, next);
        CHECK(memcmp(sent, back, sizeof sent) == 0);
        shmem_long_atomic_compare_swap(count + 2, thread, thread, next);
    }
    return NULL;
}

int main(void) {
    pthread_t others[N_THREADS];
    long number[N_THREADS];
    int level;

    CHECK(!shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level) && level == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe();
    n = shmem_n_pes();
    box = shmem_calloc(N_THREADS * NELEMS, sizeof *box);
    count = shmem_calloc(3, sizeof *count);
    for (long i = 0; i < N_THREADS; i++) {
        number[i] = i;
        CHECK(!pthread_create(&others[i], NULL, work, &number[i]));
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(others[i], NULL);
    shmem_barrier_all();
    CHECK(count[0] == (long)N_THREADS * N_ROUNDS && count[1] == 0);
    shmem_barrier_all();
    return conclude();
}
