/* SPDX-License-Identifier: BSD-3-Clause
 * A plain OpenSHMEM program: every PE talks to its right neighbour and all check what they got. */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 3000 };

static int failures;

static void check(int holds, const char *what) {
    if (holds)
        return;
    failures++;
    fprintf(stderr, "PE %d: %s\n", shmem_my_pe(), what);
}

/* put, get, p, g and the non-blocking forms around the ring */
static void neighbours(int me, int right, int left) {
    int *dest = shmem_calloc(COUNT, sizeof *dest), *source = shmem_malloc(COUNT * sizeof *source);
    double *cell = shmem_align(128, sizeof *cell);
    int got[COUNT], same = 1;

    for (int i = 0; i < COUNT; i++)
        source[i] = 10000 * me + i;
    shmem_barrier_all();
    shmem_int_put(dest, source, COUNT, right);
    shmem_double_p(cell, me + 0.5, right);
    shmem_barrier_all();
    for (int i = 0; i < COUNT; i++)
        same &= dest[i] == 10000 * left + i;
    check(same, "int_put");
    check(*cell == left + 0.5, "double_p");
    check(shmem_double_g(cell, right) == me + 0.5, "double_g");
    shmem_int_get(got, dest, COUNT, right);
    check(!memcmp(got, source, sizeof got), "int_get");
    memset(got, 0, sizeof got);
    shmem_getmem_nbi(got, source, sizeof got, shmem_my_pe());
    shmem_quiet();
    check(!memcmp(got, source, sizeof got), "getmem_nbi");
    shmem_barrier_all();
    shmem_ctx_put32_nbi(SHMEM_CTX_DEFAULT, dest, source + 1, COUNT - 1, right);
    shmem_barrier_all();
    check(dest[0] == 10000 * left + 1, "ctx_put32_nbi");
    check(shmem_ptr(dest, me) == dest, "ptr");
    shmem_free(cell);
    shmem_free(source);
    shmem_free(dest);
}

/* every PE counts on PE 0; the tickets it gets are different */
static void counters(int me, int n) {
    long *count = shmem_calloc(4, sizeof *count);
    unsigned *bits = shmem_calloc(1, sizeof *bits);
    double *last = shmem_calloc(1, sizeof *last);
    long ticket = shmem_long_atomic_fetch_inc(&count[0], 0);

    check(ticket >= 0 && ticket < n, "long_atomic_fetch_inc");
    shmem_barrier_all();
    check(shmem_long_atomic_fetch_add(&count[1 + ticket % 3], 1, 0) < n, "long_atomic_fetch_add");
    shmem_long_atomic_add(&count[0], 100, 0);
    shmem_uint_atomic_or(bits, 1u << me, 0);
    if (shmem_long_atomic_compare_swap(&count[3], -1, 7, me) == -1)
        check(0, "long_atomic_compare_swap");
    shmem_double_atomic_set(last, me + 1.25, me);
    shmem_barrier_all();
    check(shmem_long_atomic_fetch(count, 0) == 101L * n, "long_atomic_add");
    check(shmem_uint_atomic_fetch_and(bits, ~0u, 0) == (n < 32 ? (1u << n) - 1 : ~0u), "uint_atomic_or");
    check(shmem_double_atomic_swap(last, -1.0, me) == me + 1.25, "double_atomic_swap");
    shmem_barrier_all();
    shmem_free(last);
    shmem_free(bits);
    shmem_free(count);
}

/* data and its signal; then a token that goes round twice */
static void signals(int me, int right, int left) {
    uint64_t *sig = shmem_calloc(1, sizeof *sig);
    int *token = shmem_calloc(1, sizeof *token);
    short *data = shmem_calloc(8, sizeof *data), mine[8];

    for (int i = 0; i < 8; i++)
        mine[i] = (short)(100 * me + i);
    shmem_short_put_signal(data, mine, 8, sig, 5, SHMEM_SIGNAL_SET, right);
    check(shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 5) == 5, "signal_wait_until");
    check(data[7] == 100 * left + 7, "short_put_signal");
    shmem_barrier_all();
    shmem_ctx_putmem_signal_nbi(SHMEM_CTX_DEFAULT, data, mine, 0, sig, 2, SHMEM_SIGNAL_ADD, right);
    shmem_signal_wait_until(sig, SHMEM_CMP_GT, 6);
    check(shmem_signal_fetch(sig) == 7, "a signal without data");
    for (int lap = 1; lap <= 2; lap++) {
        if (me != 0)
            shmem_int_wait_until(token, SHMEM_CMP_GE, lap);
        shmem_int_atomic_set(token, lap, right);
        if (me == 0)
            shmem_int_wait_until(token, SHMEM_CMP_GE, lap);
    }
    check(shmem_int_test(token, SHMEM_CMP_EQ, 2), "int_test");
    shmem_barrier_all();
    shmem_free(data);
    shmem_free(token);
    shmem_free(sig);
}

/* small ones and ones above any small-message limit */
static void collectives(int me, int n, size_t nelems) {
    long *source = shmem_malloc(nelems * sizeof *source), *dest = shmem_calloc(nelems * (size_t)n, sizeof *dest);
    int root = n - 1, same = 1;

    for (size_t i = 0; i < nelems; i++)
        source[i] = (long)i * (me + 1);
    check(!shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, nelems, root), "long_broadcast");
    for (size_t i = 0; i < nelems; i++)
        same &= dest[i] == (long)i * n;
    check(same, "what long_broadcast brought");
    shmem_barrier_all();
    check(!shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, nelems), "long_fcollect");
    for (int pe = 0; pe < n; pe++)
        for (size_t i = 0; i < nelems; i++)
            same &= dest[(size_t)pe * nelems + i] == (long)i * (pe + 1);
    check(same, "what long_fcollect brought");
    check(!shmem_long_sum_reduce(SHMEM_TEAM_WORLD, source, source, nelems), "long_sum_reduce");
    for (size_t i = 0; i < nelems; i++)
        same &= source[i] == (long)i * n * (n + 1) / 2;
    check(same, "what long_sum_reduce gave, in place");
    check(shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, nelems, n) != 0, "a root that is no PE");
    shmem_barrier_all();
    shmem_free(dest);
    shmem_free(source);
}

int main(void) {
    int me, n, major, minor;
    char name[SHMEM_MAX_NAME_LEN];

    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    shmem_info_get_version(&major, &minor);
    shmem_info_get_name(name);
    check(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION && !strcmp(name, SHMEM_VENDOR_STRING), "info");
    neighbours(me, (me + 1) % n, (me + n - 1) % n);
    counters(me, n);
    signals(me, (me + 1) % n, (me + n - 1) % n);
    collectives(me, n, 7);
    collectives(me, n, 50000);
    shmem_sync_all();
    shmem_finalize();
    if (!failures && me == 0)
        printf("ok\n");
    return failures != 0;
}
