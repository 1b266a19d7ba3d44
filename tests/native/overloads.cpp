/* SPDX-License-Identifier: BSD-3-Clause
 * The generic interfaces of C++, on static variables: one routine of each family, for several types. */
#include <cstddef>
#include <cstdint>

#include "check.h"

static int me, n, right_pe;
static shmem_ctx_t ctx;

template <typename T> static void rma() {
    static T cells[6], one;
    static uint64_t word;
    T local[4] = {T(me), T(me + 1), T(me + 2), T(me + 3)}, left = T((me + n - 1) % n);

    shmem_p(&one, T(me), right_pe);
    shmem_put(ctx, cells, local, 2, right_pe);
    shmem_iput(cells + 2, local, 1, 2, 2, right_pe);
    shmem_put_signal(cells + 4, local, 1, &word, 7, SHMEM_SIGNAL_SET, right_pe);
    shmem_signal_wait_until(&word, SHMEM_CMP_EQ, 7);
    shmem_put_nbi(cells + 5, local, 1, right_pe);
    shmem_barrier_all();
    CHECK(one == left && cells[0] == left && cells[1] == T(left + 1));
    CHECK(cells[2] == left && cells[3] == T(left + 2) && cells[4] == left && cells[5] == left);
    CHECK(shmem_g(&one, right_pe) == T(me) && shmem_g(ctx, &one, right_pe) == T(me));
    shmem_ibget(local, cells, 1, 1, 1, 2, right_pe);
    CHECK(local[1] == T(me + 1));
    shmem_barrier_all();
}

template <typename T> static void atomics() {
    static T sum, bits;
    T old = 9;
    size_t index;

    shmem_barrier_all();
    for (int pe = 0; pe < n; pe++) {
        shmem_atomic_add(&sum, T(2), pe);
        shmem_atomic_inc(ctx, &sum, pe);
    }
    shmem_barrier_all();
    CHECK(shmem_atomic_fetch(&sum, right_pe) == T(3 * n));
    CHECK(shmem_test(&sum, SHMEM_CMP_EQ, T(3 * n)));
    shmem_wait_until(&sum, SHMEM_CMP_GE, T(n));
    shmem_wait_until_all(&sum, 1, NULL, SHMEM_CMP_NE, T(0));
    CHECK(shmem_test_some(&sum, 1, &index, NULL, SHMEM_CMP_NE, T(0)) == 1 && index == 0);
    shmem_barrier_all();
    CHECK(shmem_atomic_compare_swap(&sum, T(3 * n), T(5), me) == T(3 * n));
    CHECK(shmem_atomic_swap(ctx, &sum, T(6), me) == T(5) && shmem_atomic_fetch_add(&sum, T(1), me) == T(6));
    shmem_atomic_set(&bits, T(3), me);
    shmem_atomic_fetch_inc_nbi(&old, &bits, me);
    shmem_quiet();
    CHECK(old == T(3) && bits == T(4));
    shmem_barrier_all();
}

template <typename T> static void bitwise() {
    static T word;

    shmem_barrier_all();
    shmem_atomic_or(&word, T(6), right_pe);
    shmem_barrier_all();
    CHECK(shmem_atomic_fetch_and(ctx, &word, T(4), me) == T(6) && shmem_atomic_fetch_xor(&word, T(1), me) == T(4));
    CHECK(word == T(5));
}

template <typename T> static void old_names() {
    static T word;

    shmem_set(&word, T(1), right_pe);
    shmem_barrier_all();
    CHECK(shmem_fetch(&word, right_pe) == T(1));
    shmem_barrier_all();
    CHECK(shmem_swap(&word, T(2), me) == T(1));
    shmem_set(&word, T(0), me);
}

template <typename T> static void old_waits() {
    static T word = T(40000); /* negative as a short */

    shmem_wait(&word, T(1));
    shmem_wait_until(&word, SHMEM_CMP_LT, T(40001));
    CHECK(shmem_test(&word, SHMEM_CMP_EQ, T(40000)));
}

template <typename T> static void collectives() {
    static T source[2], dest[8];

    source[0] = T(me + 1);
    shmem_sync(SHMEM_TEAM_WORLD);
    CHECK(!shmem_fcollect(SHMEM_TEAM_WORLD, dest, source, 1) && dest[n - 1] == T(n));
    CHECK(!shmem_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 1) && dest[0] == T(n * (n + 1) / 2));
    CHECK(!shmem_max_reduce(SHMEM_TEAM_WORLD, dest, source, 1) && dest[0] == T(n));
    CHECK(!shmem_broadcast(SHMEM_TEAM_WORLD, dest, source, 1, 0));
    CHECK(!shmem_sum_exscan(SHMEM_TEAM_WORLD, dest, source, 1) && dest[0] == T(me * (me + 1) / 2));
    shmem_barrier_all();
}

int main() {
    static unsigned char bits[2] = {3, 0};
    static long long many[2] = {6, 0};
    static unsigned short natural = 40000;

    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    right_pe = (me + 1) % n;
    CHECK(!shmem_ctx_create(0, &ctx));
    rma<char>(), rma<short>(), rma<int>(), rma<long>(), rma<long long>(), rma<unsigned char>(), rma<uint16_t>();
    rma<float>(), rma<double>(), rma<long double>(), rma<size_t>();
    atomics<int>(), atomics<long>(), atomics<long long>(), atomics<unsigned>(), atomics<size_t>();
    bitwise<unsigned>(), bitwise<int32_t>(), bitwise<uint64_t>();
    old_names<int>(), old_names<long>(), old_names<unsigned>(), old_names<float>(), old_names<double>();
    collectives<signed char>(), collectives<int>(), collectives<double>(), collectives<uint64_t>();
    CHECK(!shmem_and_reduce(SHMEM_TEAM_WORLD, bits + 1, bits, 1) && bits[1] == 3);
    CHECK(!shmem_xor_reduce(SHMEM_TEAM_WORLD, many + 1, many, 1) && many[1] == (n % 2 ? 6 : 0));
    old_waits<short>(), old_waits<int>(), old_waits<long>(), old_waits<long long>();
    shmem_wait_until(&natural, SHMEM_CMP_GT, 39999);
    CHECK(shmem_test(&natural, SHMEM_CMP_EQ, 40000));
    shmem_ctx_destroy(ctx);
    return conclude();
}
