/* SPDX-License-Identifier: BSD-3-Clause
 * Deprecated routines: collectives on active sets, names of before 1.4. */
#include <stdlib.h>

#include "check.h"

static int me, n;

/* The PEs 0, 2, 4, ... and all PEs, three times with the same pSync. */
static void sets(int log_stride, long *sync) {
    int stride = 1 << log_stride, size = (n + stride - 1) / stride, mine = me / stride;
    int32_t *dest = shmem_calloc(64, sizeof *dest), *source = shmem_calloc(64, sizeof *source);
    long *sum = shmem_calloc(2, sizeof *sum);
    double *work = shmem_calloc(4, sizeof *work);

    for (int round = 0; me % stride == 0 && round < 3; round++) {
        int at = 0;
        dest[0] = dest[1] = -1;
        source[0] = 10 * me + round;
        source[1] = source[0] + 1;
        shmem_barrier(0, log_stride, size, sync);
        shmem_broadcast32(dest, source, 2, size - 1, 0, log_stride, size, sync);
        CHECK(dest[1] == (mine == size - 1 ? -1 : 10 * (size - 1) * stride + round + 1)); /* not on the root */
        shmem_sync(0, log_stride, size, sync);
        shmem_fcollect32(dest, source, 2, 0, log_stride, size, sync);
        for (int i = 0; i < size; i++)
            CHECK(dest[2 * i] == 10 * i * stride + round && dest[2 * i + 1] == 10 * i * stride + round + 1);
        shmem_sync(0, log_stride, size, sync);
        shmem_collect32(dest, source, (size_t)(mine % 2), 0, log_stride, size, sync);
        for (int i = 1; i < size; i += 2)
            CHECK(dest[at++] == 10 * i * stride + round);
        shmem_sync(0, log_stride, size, sync);
        for (int i = 0; i < size; i++)
            source[2 * i] = 100 * mine + i;
        shmem_alltoalls32(dest, source, 1, 2, 1, 0, log_stride, size, sync);
        for (int i = 0; i < size; i++)
            CHECK(dest[i] == 100 * i + mine);
        shmem_sync(0, log_stride, size, sync);
        sum[0] = mine + 1;
        shmem_long_sum_to_all(sum, sum, 1, 0, log_stride, size, sum + 1, sync);
        CHECK(sum[0] == (long)size * (size + 1) / 2);
        work[0] = mine;
        shmem_double_max_to_all(work + 1, work, 1, 0, log_stride, size, work + 2, sync);
        CHECK(work[1] == size - 1);
        shmem_barrier(0, log_stride, size, sync);
    }
    for (int i = 0; i < _SHMEM_SYNC_SIZE; i++)
        CHECK(sync[i] == _SHMEM_SYNC_VALUE);
    shmem_barrier_all();
    shmem_free(work);
    shmem_free(sum);
    shmem_free(source);
    shmem_free(dest);
}

/* Who is outside may make the call all the same, but in checking mode. */
static void outsider(long *sync) {
    const char *checks = getenv("PYSHMEM_CHECK");
    long *sum = shmem_calloc(2, sizeof *sum);

    *sum = me;
    if (me < n - 1 || (checks && !strcmp(checks, "0")))
        shmem_long_sum_to_all(sum, sum, 1, 0, 0, n > 1 ? n - 1 : 1, sum + 1, sync);
    CHECK(*sum == (me < n - 1 ? (n - 1) * (n - 2) / 2 : me));
    shmem_barrier_all();
    shmem_free(sum);
}

static void atomics(void) {
    long *count = shmalloc(2 * sizeof *count);
    float *f = shmemalign(64, sizeof *f);

    count[0] = count[1] = 0;
    *f = 1;
    shmem_barrier_all();
    CHECK(shmem_long_finc(count, me) == 0 && shmem_long_fadd(count, 4, me) == 1 && shmem_long_fetch(count, me) == 5);
    CHECK(shmem_long_cswap(count, 5, 8, me) == 5 && shmem_long_swap(count, 2, me) == 8);
    shmem_long_inc(count, me);
    shmem_long_add(count, 2, me);
    shmem_float_set(f, 2.5F, me);
    CHECK(shmem_float_swap(f, 1, me) == 2.5F);
    shmem_long_wait(count, 4);
    shmem_wait(count, 4);
    shmem_wait_until(count, SHMEM_CMP_EQ, 5);
    CHECK(count[0] == 5);
    shmem_barrier_all();
    shfree(f);
    shfree(count);
}

/* Each PE is sent its left neighbour's negative number, and, once it has seen that, a large one. */
static void shorts(void) {
    static short number = 1;
    static unsigned short large = 2;
    int right = (me + 1) % n;

    CHECK(!shmem_short_test(&number, SHMEM_CMP_LT, 0) && shmem_ushort_test(&large, SHMEM_CMP_LE, 2));
    shmem_barrier_all();
    shmem_short_p(&number, (short)(-1 - me), right);
    shmem_short_wait(&number, 1);
    shmem_short_wait_until(&number, SHMEM_CMP_LT, 0);
    CHECK(shmem_short_wait_until_any(&number, 1, NULL, SHMEM_CMP_LT, 0) == 0);
    CHECK(number == -1 - (me + n - 1) % n && shmem_short_test(&number, SHMEM_CMP_GT, -32768));
    shmem_ushort_p(&large, 65000, right);
    shmem_ushort_wait_until(&large, SHMEM_CMP_GT, 40000);
    CHECK(large == 65000 && shmem_ushort_test_all(&large, 1, NULL, SHMEM_CMP_GT, 40000));
    shmem_barrier_all();
}

int main(void) {
    long *sync;

    start_pes(0);
    me = _my_pe();
    n = _num_pes();
    sync = shmem_calloc(2 * _SHMEM_SYNC_SIZE, sizeof *sync);
    sets(0, sync);
    sets(1, sync + _SHMEM_SYNC_SIZE);
    outsider(sync);
    atomics();
    shorts();
    return conclude();
}
