/* SPDX-License-Identifier: BSD-3-Clause
 * Addresses in the system region, the head of a heap that is the library's own: every routine that takes a symmetric
 * address refuses them, in checking mode and without. */
#include "check.h"
#include "ishmemx.h"

enum { N = 3 };

static char *first; /* the first block of the program's */
static int me;

static void refused(const char *routine, int status, const char *where) {
    if (status == ISHMEMX_ERR_ARGUMENT && strstr(ishmemx_error(), "the library's own"))
        return;
    failures++;
    fprintf(stderr, "PE %d: %s at %s: status %d: %s\n", me, routine, where, status, status ? ishmemx_error() : "");
}
#define REFUSED(_call) refused(#_call, (_call), where)

static void one_sided(void *low, const char *where) {
    ishmemx_ctx_t ctx = &ishmemx_ctx_default;
    int64_t mine[2] = {0};
    uint64_t *signal = (uint64_t *)(void *)(first + 64), value;
    void *peer;

    REFUSED(ishmemx_put(ctx, low, mine, 8, 0));
    REFUSED(ishmemx_get(ctx, mine, low, 8, 0));
    REFUSED(ishmemx_put_nbi(ctx, low, mine, 8, 0));
    REFUSED(ishmemx_get_nbi(ctx, mine, low, 8, 0));
    REFUSED(ishmemx_iput(ctx, low, mine, 2, 1, 1, 2, 8, 0));
    REFUSED(ishmemx_iget(ctx, mine, low, 1, 2, 1, 2, 8, 0));
    REFUSED(ishmemx_atomic(ctx, ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_INT64, low, 1, 0, 0, NULL));
    REFUSED(ishmemx_atomic(ctx, ISHMEMX_ATOMIC_FETCH, ISHMEMX_TYPE_INT64, low, 0, 0, 0, &value));
    REFUSED(ishmemx_atomic_nbi(ctx, ISHMEMX_ATOMIC_FETCH, ISHMEMX_TYPE_INT64, mine, low, 0, 0, 0));
    REFUSED(ishmemx_put_signal(ctx, low, mine, 8, signal, 1, ISHMEMX_SIGNAL_SET, 0));
    REFUSED(ishmemx_put_signal(ctx, first, mine, 8, low, 1, ISHMEMX_SIGNAL_SET, 0));
    REFUSED(ishmemx_put_signal_nbi(ctx, low, mine, 8, signal, 1, ISHMEMX_SIGNAL_SET, 0));
    REFUSED(ishmemx_signal_op(ctx, low, 1, ISHMEMX_SIGNAL_SET, 0));
    REFUSED(ishmemx_signal_fetch(low, &value));
    REFUSED(ishmemx_ptr(low, 0, &peer));
    CHECK(!ishmemx_addr_accessible(low, 0));
}

static void waits(void *low, const char *where) {
    uint64_t seen;
    int holds;

    REFUSED(ishmemx_wait_until(ISHMEMX_TYPE_INT64, low, ISHMEMX_CMP_EQ, 0, &seen));
    REFUSED(ishmemx_signal_wait_until(low, ISHMEMX_CMP_EQ, 0, &seen));
    REFUSED(ishmemx_test(ISHMEMX_TYPE_INT64, low, ISHMEMX_CMP_EQ, 0, &holds));
    REFUSED(ishmemx_set_lock(low));
    REFUSED(ishmemx_test_lock(low, &holds));
    REFUSED(ishmemx_clear_lock(low));
}

/* By all members alike, so that all are refused. */
static void collectives(void *low, const char *where) {
    ishmemx_team_t world = &ishmemx_team_world;

    REFUSED(ishmemx_broadcast(world, low, first, 8, 0));
    REFUSED(ishmemx_broadcast(world, first, low, 8, 0));
    REFUSED(ishmemx_fcollect(world, first, low, 8));
    REFUSED(ishmemx_collect(world, first, 64, low, 8));
    REFUSED(ishmemx_alltoall(world, low, first, 8));
    REFUSED(ishmemx_reduce(world, ISHMEMX_REDUCE_SUM, ISHMEMX_TYPE_INT64, low, first, 1));
    REFUSED(ishmemx_reduce(world, ISHMEMX_REDUCE_SUM, ISHMEMX_TYPE_INT64, first, low, 1));
    REFUSED(ishmemx_sum_scan(world, 0, ISHMEMX_TYPE_INT64, low, first, 1));
}

int main(void) {
    const char *names[N] = {"the last word before the first block", "64 KiB below", "the heap's first byte"};
    char *lows[N];
    void *base;
    int64_t nbytes;

    shmem_init();
    me = shmem_my_pe();
    first = shmem_calloc(1, 4096);
    CHECK(!ishmemx_heap_range(ISHMEMX_HEAP_HOST, &base, &nbytes));
    lows[0] = first - 8;
    lows[1] = first - 65536;
    lows[2] = base;
    for (int i = 0; i < N; i++) {
        CHECK(lows[i] < first && lows[i] >= (char *)base);
        one_sided(lows[i], names[i]);
        waits(lows[i], names[i]);
        collectives(lows[i], names[i]);
    }
    CHECK(!ishmemx_put(&ishmemx_ctx_default, first, names, 8, 0)); /* where the program's begins all is well */
    CHECK(ishmemx_addr_accessible(first, 0));
    shmem_barrier_all();
    return conclude();
}
