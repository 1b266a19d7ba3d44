/* SPDX-License-Identifier: BSD-3-Clause
 * The C11 generic interfaces, with and without a context, and the names for profilers. */
#include <complex.h>

#include "check.h"

static int me, n, right, left, profiled;

/* A profiler's routine takes the place of the library's, and calls it by its other name. */
void shmem_double_put(double *dest, const double *source, size_t nelems, int pe) {
    profiled++;
    pshmem_double_put(dest, source, nelems, pe);
}

static void rma(shmem_ctx_t ctx) {
    double *d = shmem_calloc(8, sizeof *d), local[8] = {me, 1, 2, 3, 4, 5, 6, 7};
    const double *source = d;
    size_t *z = shmem_calloc(4, sizeof *z);
    uint64_t *sig = shmem_calloc(1, sizeof *sig);
    char *letter = shmem_calloc(1, 1);

    shmem_put(d, local, 4, right);
    shmem_put_nbi(ctx, d + 4, local + 4, 4, right);
    shmem_p(z, (size_t)me + 1, right);
    shmem_p(ctx, letter, (char)('a' + me), right);
    shmem_barrier_all();
    CHECK(profiled > 0 && d[0] == left && d[7] == 7 && z[0] == (size_t)left + 1 && *letter == 'a' + left);
    CHECK(shmem_g(source, right) == me && shmem_g(ctx, z, right) == (size_t)me + 1);
    shmem_get(local, source + 1, 2, right);
    shmem_get_nbi(ctx, local + 2, d + 6, 2, right);
    shmem_quiet();
    shmem_ctx_quiet(ctx);
    CHECK(local[0] == 1 && local[1] == 2 && local[2] == 6 && local[3] == 7);
    shmem_barrier_all();
    shmem_iput(d, local, 2, 1, 2, right);
    shmem_ibput(ctx, d + 4, local, 2, 2, 1, 2, right);
    shmem_put_signal(z, z + 1, 1, sig, 3, SHMEM_SIGNAL_SET, right);
    shmem_put_signal_nbi(ctx, z + 2, z + 1, 1, sig, 4, SHMEM_SIGNAL_ADD, right);
    shmem_wait_until(sig, SHMEM_CMP_EQ, 7);
    shmem_barrier_all();
    CHECK(d[2] == 2 && d[6] == 6);
    shmem_iget(local, d, 1, 2, 2, right);
    shmem_ibget(ctx, local + 2, d, 1, 2, 1, 2, right);
    CHECK(local[1] == 2 && local[3] == 2);
    shmem_barrier_all();
    shmem_free(letter);
    shmem_free(sig);
    shmem_free(z);
    shmem_free(d);
}

static void atomics(shmem_ctx_t ctx) {
    int *i = shmem_calloc(4, sizeof *i), old = -1, wanted[4] = {0};
    float *f = shmem_calloc(1, sizeof *f);
    unsigned *u = shmem_calloc(1, sizeof *u);
    size_t indices[4];

    shmem_atomic_add(i, 3, right);
    shmem_atomic_inc(ctx, i, right);
    shmem_atomic_set(f, 1.5F, right);
    shmem_atomic_or(u, 6u, right);
    shmem_atomic_xor(ctx, u, 2u, right);
    shmem_barrier_all();
    CHECK(shmem_atomic_fetch(ctx, i, me) == 4 && shmem_atomic_fetch(f, me) == 1.5F);
    CHECK(shmem_atomic_fetch_and(u, 4u, me) == 4u && shmem_atomic_swap(f, 2.5F, me) == 1.5F);
    CHECK(shmem_atomic_compare_swap(i, 4, 9, me) == 4 && shmem_atomic_fetch_add(ctx, i, 1, me) == 9);
    shmem_atomic_fetch_inc_nbi(&old, i, me);
    shmem_quiet();
    CHECK(old == 10 && shmem_test(i, SHMEM_CMP_EQ, 11));
    shmem_wait_until_all(i, 1, NULL, SHMEM_CMP_GT, 10);
    CHECK(shmem_wait_until_any(i, 4, NULL, SHMEM_CMP_GT, 10) == 0);
    CHECK(shmem_test_some_vector(i, 4, indices, NULL, SHMEM_CMP_EQ, wanted) == 3);
    shmem_barrier_all();
    shmem_free(u);
    shmem_free(f);
    shmem_free(i);
}

static void old_names(void) {
    static long long many;
    static double real = 1;
    static short brief = 1;
    static unsigned short natural = 7;
    static unsigned count = 4;

    shmem_add(&many, 4, right);
    shmem_inc(&many, right);
    shmem_barrier_all();
    CHECK(shmem_fadd(&many, 1, me) == 5 && shmem_finc(&many, me) == 6 && shmem_cswap(&many, 7, 3, me) == 7);
    shmem_wait(&many, 0);
    shmem_wait(&brief, 0);
    shmem_wait_until(&brief, SHMEM_CMP_GT, -1);
    CHECK(shmem_test_any(&natural, 1, NULL, SHMEM_CMP_GT, 8) == SIZE_MAX);
    shmem_wait_until_all_vector(&natural, 1, NULL, SHMEM_CMP_LE, &natural);
    CHECK(shmem_test_all(&brief, 1, NULL, SHMEM_CMP_NE, -1) &&
          shmem_wait_until_any(&brief, 1, NULL, SHMEM_CMP_EQ, 1) == 0);
    CHECK(shmem_test(&natural, SHMEM_CMP_LT, 8) && !shmem_test(&brief, SHMEM_CMP_EQ, 7));
    shmem_add(&count, 3U, me);
    CHECK(shmem_fadd(&count, 1U, me) == 7 && shmem_fetch(&count, me) == 8);
    CHECK(shmem_fetch(&many, me) == 3 && shmem_swap(&real, 2.5, me) == 1);
    shmem_set(&real, 4.5, me);
    CHECK(real == 4.5);
    shmem_barrier_all();
}

static void alignment(void) {
    const size_t refused[] = {0, 3, 24, SIZE_MAX / 2 + 1};
    char *block = shmem_align(16 << 20, 100);

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(shmem_align(refused[i], 100) == NULL); /* an answer, and the job goes on */
    CHECK(block && (uintptr_t)block % (16 << 20) == 0);
    shmem_free(block);
}

static void collectives(void) {
    short *s = shmem_calloc(64, sizeof *s);
    double complex *c = shmem_calloc(2, sizeof *c);
    unsigned char *b = shmem_calloc(2, 1);
    long long *l = shmem_calloc(2, sizeof *l);

    s[0] = (short)(me + 1);
    c[0] = 1 + 2 * I;
    b[0] = 1;
    l[0] = ~(1LL << me);
    CHECK(!shmem_broadcast(SHMEM_TEAM_WORLD, s + 1, s, 1, n - 1) && s[1] == n);
    shmem_barrier_all();
    CHECK(!shmem_fcollect(SHMEM_TEAM_WORLD, s + 2, s, 1) && s[1 + n] == n);
    CHECK(!shmem_collect(SHMEM_TEAM_WORLD, s + 8, s, 1) && s[7 + n] == n);
    CHECK(!shmem_max_reduce(SHMEM_TEAM_WORLD, s + 20, s, 1) && s[20] == n);
    CHECK(!shmem_sum_reduce(SHMEM_TEAM_WORLD, c + 1, c, 1) && creal(c[1]) == n && cimag(c[1]) == 2 * n);
    CHECK(!shmem_sum_exscan(SHMEM_TEAM_WORLD, c + 1, c, 1) && creal(c[1]) == me);
    CHECK(!shmem_and_reduce(SHMEM_TEAM_WORLD, b + 1, b, 1) && b[1] == 1);
    CHECK(!shmem_and_reduce(SHMEM_TEAM_WORLD, l + 1, l, 1) && l[1] == ~((1LL << n) - 1));
    shmem_barrier_all();
    shmem_free(l);
    shmem_free(b);
    shmem_free(c);
    shmem_free(s);
}

int main(void) {
    shmem_ctx_t ctx;

    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    right = (me + 1) % n;
    left = (me + n - 1) % n;
    CHECK(!shmem_ctx_create(0, &ctx));
    rma(ctx);
    atomics(ctx);
    old_names();
    alignment();
    collectives();
    shmem_ctx_destroy(ctx);
    return conclude();
}
