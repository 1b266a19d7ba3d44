/* SPDX-License-Identifier: BSD-3-Clause
 * The names of Sandia OpenSHMEM's extensions. */
#include <shmemx.h>

#include "check.h"

#ifndef HAVE_SHMEMX_WTIME
#error "programs that bring their own shmemx_wtime ask for this"
#endif

int main(void) {
    static int source[4], dest[4], cells[8];
    static uint64_t signal;
    int initialized = 1, me, n, right;
    double begin;

    shmemx_query_initialized(&initialized);
    CHECK(!initialized);
    shmem_init();
    begin = shmemx_wtime();
    me = shmem_my_pe();
    n = shmem_n_pes();
    right = (me + 1) % n;
    for (int i = 0; i < 4; i++)
        source[i] = me + i;
    shmemx_int_sum_exscan(SHMEM_TEAM_WORLD, dest, source, 4);
    CHECK(dest[3] == me * (me - 1) / 2 + 3 * me);
    shmem_barrier_all();
    shmemx_sum_inscan(SHMEM_TEAM_WORLD, dest, source, 4);
    CHECK(dest[0] == me * (me + 1) / 2);
    shmemx_int_ibput(cells, source, 4, 2, 2, 2, right);
    shmemx_ctx_ibput32(SHMEM_CTX_DEFAULT, cells + 2, source, 4, 2, 2, 2, right);
    shmem_fence();
    shmemx_signal_set(&signal, 4, right);
    shmem_fence();
    shmemx_signal_set(SHMEM_CTX_DEFAULT, &signal, 5, right);
    CHECK(shmem_team_n_pes(SHMEMX_TEAM_NODE) == shmem_n_pes());
    shmemx_ctx_signal_add(SHMEM_CTX_DEFAULT, &signal, 2, right);
    shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 7);
    for (int i = 0; i < 8; i++)
        CHECK(cells[i] == (me + n - 1) % n + i / 4 * 2 + i % 2);
    shmem_barrier_all();
    shmemx_int_atomic_fetch_add_nbi(dest, cells, 0, right);
    shmemx_ctx_int32_atomic_fetch_xor_nbi(SHMEM_CTX_DEFAULT, dest + 1, cells, 0, right);
    shmemx_atomic_fetch_nbi(dest + 2, cells, right);
    shmem_quiet();
    CHECK(dest[0] == me && dest[1] == me && dest[2] == me);
    shmemx_ibget(SHMEM_CTX_DEFAULT, dest, cells, 2, 4, 2, 2, right);
    CHECK(!memcmp(dest, (int[]){me, me + 1, me + 2, me + 3}, sizeof dest));
    CHECK(shmemx_wtime() >= begin && shmemx_wtime() < begin + 3600);
    return conclude();
}
