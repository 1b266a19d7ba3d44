/* SPDX-License-Identifier: BSD-3-Clause
 * Strided and block-strided RMA, non-blocking fetching atomics, realloc and what is told about addresses. */
#include "check.h"

enum { SPACE = 400 };

static int me, n, right, left;

static void strided(void) {
    short *dest = shmem_calloc(SPACE, sizeof *dest), source[SPACE], back[SPACE];
    int same = 1;

    for (int i = 0; i < SPACE; i++)
        source[i] = (short)(1000 * me + i);
    shmem_barrier_all();
    shmem_short_iput(dest, source, 3, 2, 50, right);
    shmem_short_iput(dest, source, 1, 1, 0, right); /* nothing */
    shmem_barrier_all();
    for (int i = 0; i < SPACE; i++)
        same &= dest[i] == (i % 3 == 0 && i < 150 ? 1000 * left + i / 3 * 2 : 0);
    CHECK(same);
    memset(back, -1, sizeof back);
    shmem_ctx_short_iget(SHMEM_CTX_DEFAULT, back, dest, 2, 3, 50, right);
    for (int i = 0; i < SPACE; i++)
        same &= back[i] == (i % 2 == 0 && i < 100 ? 1000 * me + i : -1);
    CHECK(same);
    shmem_barrier_all();
    shmem_iput64(dest, source, 2, 1, 3, right); /* 64-bit elements 0, 1, 2 go to 0, 2, 4 */
    shmem_barrier_all();
    CHECK(dest[8] == 1000 * left + 4 && dest[16] == 1000 * left + 8);
    shmem_barrier_all();
    shmem_free(dest);
}

static void blocks(void) {
    double *dest = shmem_calloc(SPACE, sizeof *dest), source[SPACE], back[SPACE];
    char *bytes = shmem_calloc(SPACE, 16);
    int same = 1;

    for (int i = 0; i < SPACE; i++)
        source[i] = 1000 * me + i, back[i] = -1;
    shmem_barrier_all();
    shmem_double_ibput(dest, source, 7, 5, 3, 20, right); /* 20 blocks of 3 */
    shmem_barrier_all();
    for (int i = 0; i < SPACE; i++)
        same &= dest[i] == (i < 20 * 7 && i % 7 < 3 ? 1000 * left + i / 7 * 5 + i % 7 : 0);
    CHECK(same);
    shmem_double_ibget(back, dest, 3, 7, 3, 20, right);
    for (int i = 0; i < SPACE; i++)
        same &= back[i] == (i < 60 ? 1000 * me + i / 3 * 5 + i % 3 : -1);
    CHECK(same);
    shmem_ibput8(bytes, source, 2, 1, 1, 10, right);
    shmem_ibput128(bytes + 160, source, 1, 1, 1, 2, right);
    shmem_barrier_all();
    source[0] = 1000 * left;
    for (int i = 0; i < 8; i++)
        CHECK(bytes[2 * i] == ((char *)source)[i] && bytes[2 * i + 1] == 0);
    CHECK(!memcmp(bytes + 160, source, 8));
    CHECK(ishmemx_iput(SHMEM_CTX_DEFAULT, dest, source, 0, 1, 1, 2, 8, 0) != 0);
    CHECK(ishmemx_iput(SHMEM_CTX_DEFAULT, dest, source, 2, 2, 3, 2, 8, 0) != 0); /* blocks that overlap */
    CHECK(ishmemx_iput(SHMEM_CTX_DEFAULT, dest, source, 1, 1, 1, (size_t)1 << 62, 8, 0) != 0);
    CHECK(ishmemx_iput(SHMEM_CTX_DEFAULT, dest, source, 1, 1, 1, 2, 8, n) != 0);
    CHECK(ishmemx_iget(SHMEM_CTX_DEFAULT, dest, source, 1, 1, 1, 2, 8, 0) != 0); /* the stack is not symmetric */
    shmem_barrier_all();
    shmem_free(bytes);
    shmem_free(dest);
}

static void fetching(void) {
    long *count = shmem_calloc(2, sizeof *count), ticket = -1, old = -1;
    float *number = shmem_calloc(1, sizeof *number), was = -1;
    uint32_t *bits = shmem_calloc(1, sizeof *bits), before = 7;
    static long taken[64];

    *number = (float)me + 0.5F;
    shmem_barrier_all();
    shmem_long_atomic_fetch_inc_nbi(&ticket, count, 0);
    shmem_quiet();
    CHECK(ticket >= 0 && ticket < n);
    shmem_long_atomic_fetch_add_nbi(&taken[0], count + 1, 2, right);
    shmem_ctx_float_atomic_fetch_nbi(SHMEM_CTX_DEFAULT, &was, number, right);
    shmem_uint32_atomic_fetch_or_nbi(&before, bits, 5u, right);
    shmem_quiet();
    CHECK(taken[0] == 0 && was == (float)right + 0.5F && before == 0);
    shmem_barrier_all();
    CHECK(count[1] == 2 && *bits == 5u);
    shmem_barrier_all();
    shmem_long_atomic_compare_swap_nbi(&old, count + 1, 2, 9, right);
    shmem_float_atomic_swap_nbi(&was, number, 2.5F, right);
    shmem_quiet();
    CHECK(old == 2 && was == (float)right + 0.5F);
    shmem_barrier_all();
    CHECK(count[1] == 9 && *number == 2.5F);
    shmem_signal_set((uint64_t *)count, 40, right);
    shmem_barrier_all();
    shmem_ctx_signal_add(SHMEM_CTX_DEFAULT, (uint64_t *)count, 2, right);
    shmem_barrier_all();
    CHECK(shmem_signal_fetch((uint64_t *)count) == 42);
    shmem_free(bits);
    shmem_free(number);
    shmem_free(count);
}

static void memory(void) {
    int *block = shmem_malloc(100 * sizeof *block), *old, outside;

    CHECK(shmem_malloc(0) == NULL && shmem_malloc_with_hints(0, 0) == NULL);
    for (int i = 0; i < 100; i++)
        block[i] = me + i;
    old = block;
    block = shmem_realloc(block, 10000 * sizeof *block);
    CHECK(block && block[99] == me + 99 && block[0] == me);
    CHECK(shmem_realloc(block, (size_t)1 << 50) == NULL && block[99] == me + 99); /* the old one stays */
    old = block;
    block = shmem_realloc(block, 10 * sizeof *block);
    CHECK(block == old && block[9] == me + 9); /* where it was, and nothing is copied */
    block = shmem_realloc(block, 5000 * sizeof *block);
    CHECK(block == old && block[9] == me + 9);
    CHECK(shmem_int_g(block + 9, right) == right + 9);
    CHECK(shmem_realloc(block, 0) == NULL);
    block = shmem_realloc(NULL, 64);
    CHECK(block != NULL);
    CHECK(shmem_addr_accessible(block, right) == 1 && shmem_addr_accessible(&outside, right) == 0);
    CHECK(shmem_addr_accessible(block, n) == 0 && shmem_pe_accessible(n) == 0 && shmem_pe_accessible(-1) == 0);
    CHECK(shmem_pe_accessible(right) == 1);
    shmem_free(block);
    block = shmem_malloc_with_hints(64, SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
    CHECK(block != NULL);
    shmem_free(block);
}

/* Inits are counted; a query may come at any time. */
/* A count of 0 needs no address, and moves nothing; but a signal goes. */
static void nothing(void) {
    uint64_t *sig = shmem_calloc(1, sizeof *sig);

    shmem_long_put(NULL, NULL, 0, right);
    shmem_long_get_nbi(NULL, NULL, 0, right);
    shmem_putmem(NULL, NULL, 0, right);
    shmem_long_iput(NULL, NULL, 1, 1, 0, right);
    shmem_long_put_signal(NULL, NULL, 0, sig, 3, SHMEM_SIGNAL_SET, right);
    CHECK(shmem_signal_wait_until(sig, SHMEM_CMP_NE, 0) == 3);
    CHECK(!shmem_long_broadcast(SHMEM_TEAM_WORLD, NULL, NULL, 0, 0));
    CHECK(!shmem_long_fcollect(SHMEM_TEAM_WORLD, NULL, NULL, 0));
    CHECK(!shmem_long_alltoall(SHMEM_TEAM_WORLD, NULL, NULL, 0));
    CHECK(!shmem_long_sum_reduce(SHMEM_TEAM_WORLD, NULL, NULL, 0));
    if (me == 0) { /* no allocation, so no barrier either */
        CHECK(shmem_malloc(0) == NULL && shmem_calloc(0, 8) == NULL && shmem_align(64, 0) == NULL);
        shmem_free(NULL);
    }
    shmem_barrier_all();
    shmem_free(sig);
}

static void setup(void) {
    int provided = -1, initialized = -1;

    shmem_query_initialized(&initialized);
    CHECK(initialized == 0);
    CHECK(shmem_init_thread(99, &provided) != 0);
    CHECK(shmem_init_thread(SHMEM_THREAD_SERIALIZED, &provided) == 0 && provided == SHMEM_THREAD_SERIALIZED);
    shmem_init();
    shmem_finalize();
    shmem_query_initialized(&initialized);
    CHECK(initialized == 1);
    shmem_query_thread(&provided);
    CHECK(provided == SHMEM_THREAD_SERIALIZED);
    shmem_finalize();
    shmem_query_initialized(&initialized);
    CHECK(initialized == 0 && shmem_my_pe() == -1);
    shmem_init();
    shmem_pcontrol(1);
    shmem_pcontrol(3, 1, "more");
}

int main(void) {
    setup();
    me = shmem_my_pe();
    n = shmem_n_pes();
    right = (me + 1) % n;
    left = (me + n - 1) % n;
    strided();
    blocks();
    fetching();
    memory();
    nothing();
    return conclude();
}
