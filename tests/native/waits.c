/* SPDX-License-Identifier: BSD-3-Clause
 * Wait and test for all, any and some elements: masks, empty sets, turns, signedness. */
#include "check.h"

enum { COUNT = 24 };

static int me, n, right;

static void empty_sets(void) {
    int *ivars = shmem_calloc(4, sizeof *ivars), all_out[4] = {1, 2, -1, 1}, values[4] = {1, 1, 1, 1};
    size_t indices[4];

    shmem_int_wait_until_all(ivars, 4, all_out, SHMEM_CMP_EQ, 1);
    shmem_int_wait_until_all(NULL, 0, NULL, SHMEM_CMP_EQ, 1);
    shmem_int_wait_until_all_vector(ivars, 4, all_out, SHMEM_CMP_EQ, values);
    CHECK(shmem_int_wait_until_any(ivars, 4, all_out, SHMEM_CMP_EQ, 1) == SIZE_MAX);
    CHECK(shmem_int_wait_until_any(NULL, 0, NULL, SHMEM_CMP_EQ, 1) == SIZE_MAX);
    CHECK(shmem_int_wait_until_any_vector(ivars, 4, all_out, SHMEM_CMP_EQ, values) == SIZE_MAX);
    CHECK(shmem_int_wait_until_some(ivars, 4, indices, all_out, SHMEM_CMP_EQ, 1) == 0);
    CHECK(shmem_int_wait_until_some_vector(ivars, 0, indices, NULL, SHMEM_CMP_EQ, values) == 0);
    CHECK(shmem_int_test_all(ivars, 4, all_out, SHMEM_CMP_EQ, 1) == 1);
    CHECK(shmem_int_test_all(NULL, 0, NULL, SHMEM_CMP_EQ, 1) == 1);
    CHECK(shmem_int_test_all_vector(NULL, 0, NULL, SHMEM_CMP_EQ, NULL) == 1);
    CHECK(shmem_int_test_any(ivars, 4, all_out, SHMEM_CMP_EQ, 1) == SIZE_MAX);
    CHECK(shmem_int_test_any(ivars, 0, NULL, SHMEM_CMP_EQ, 1) == SIZE_MAX);
    CHECK(shmem_int_test_some(ivars, 4, indices, all_out, SHMEM_CMP_EQ, 1) == 0);
    CHECK(shmem_int_test_some(ivars, 0, indices, NULL, SHMEM_CMP_EQ, 1) == 0);
    CHECK(shmem_int_test_any(ivars, 4, NULL, SHMEM_CMP_EQ, 1) == SIZE_MAX); /* none holds */
    CHECK(shmem_int_test_some(ivars, 4, indices, NULL, SHMEM_CMP_EQ, 1) == 0);
    CHECK(shmem_int_test_all(ivars, 4, NULL, SHMEM_CMP_EQ, 1) == 0);
    shmem_free(ivars);
}

/* The left neighbour sets them all, some late. */
static void arriving(void) {
    long *ivars = shmem_calloc(COUNT, sizeof *ivars), values[COUNT];
    int status[COUNT] = {0}, seen[COUNT] = {0};
    size_t indices[COUNT], found, total = 0;

    for (int i = 0; i < COUNT; i++)
        values[i] = i + 1;
    status[3] = 1;
    for (int i = 0; i < COUNT; i++)
        if (i != 3)
            shmem_long_atomic_set(ivars + i, i + 1, right);
    shmem_long_wait_until_all_vector(ivars, COUNT, status, SHMEM_CMP_EQ, values);
    CHECK(shmem_long_test_all(ivars, COUNT, status, SHMEM_CMP_GT, 0) == 1);
    CHECK(shmem_long_test_all(ivars, COUNT, NULL, SHMEM_CMP_GT, 0) == 0); /* 3 did not come */
    shmem_long_wait_until_all(ivars, COUNT, status, SHMEM_CMP_NE, 0);
    while (total < COUNT - 1) {
        found = shmem_long_wait_until_some_vector(ivars, COUNT, indices, status, SHMEM_CMP_GE, values);
        CHECK(found > 0);
        for (size_t k = 0; k < found; k++, total++) {
            CHECK(indices[k] < COUNT && !seen[indices[k]] && indices[k] != 3);
            seen[indices[k]] = status[indices[k]] = 1;
        }
    }
    CHECK(shmem_long_test_some(ivars, COUNT, indices, NULL, SHMEM_CMP_GT, 0) == COUNT - 1);
    shmem_barrier_all();
    shmem_free(ivars);
}

/* A series of calls reports every element that holds, on two arrays in turn too. */
static void turns(void) {
    uint64_t *first = shmem_calloc(COUNT, sizeof *first), *second = shmem_calloc(COUNT, sizeof *second);
    int seen[2][COUNT] = {{0}}, missing = 0;

    for (int i = 0; i < COUNT; i++)
        first[i] = second[i] = 1;
    for (int call = 0; call < COUNT; call++) {
        seen[0][shmem_uint64_wait_until_any(first, COUNT, NULL, SHMEM_CMP_EQ, 1)] = 1;
        seen[1][shmem_uint64_test_any(second, COUNT, NULL, SHMEM_CMP_EQ, 1)] = 1;
    }
    for (int i = 0; i < COUNT; i++)
        missing += !seen[0][i] + !seen[1][i];
    CHECK(missing == 0);
    shmem_barrier_all();
    shmem_free(second);
    shmem_free(first);
}

static void signedness(void) {
    int32_t *s = shmem_calloc(2, sizeof *s);
    uint32_t *u = shmem_calloc(2, sizeof *u);
    size_t indices[2] = {7, 7};

    s[0] = -1, s[1] = 1;
    u[0] = UINT32_MAX, u[1] = 1;
    CHECK(shmem_int32_test_some(s, 2, indices, NULL, SHMEM_CMP_LT, 0) == 1 && indices[0] == 0);
    CHECK(indices[1] == 7); /* only as many as were found */
    CHECK(shmem_uint32_test_some(u, 2, indices, NULL, SHMEM_CMP_GT, 5) == 1 && indices[0] == 0);
    CHECK(shmem_int32_test_all(s, 2, NULL, SHMEM_CMP_LE, 1) && !shmem_int32_test_all(s, 2, NULL, SHMEM_CMP_LT, 1));
    CHECK(ishmemx_test_any(ISHMEMX_TYPE_INT8, s, 2, NULL, SHMEM_CMP_EQ, s, 0, indices) == ISHMEMX_ERR_TYPE);
    CHECK(ishmemx_test_any(ISHMEMX_TYPE_INT32, indices, 2, NULL, SHMEM_CMP_EQ, s, 0, indices) == ISHMEMX_ERR_ARGUMENT);
    CHECK(ishmemx_test_any(ISHMEMX_TYPE_INT32, s, 2, NULL, 9, s, 0, indices) == ISHMEMX_ERR_ARGUMENT);
    shmem_barrier_all();
    shmem_free(u);
    shmem_free(s);
}

/* Any of what all PEs send to PE 0; each once. */
static void any_of_many(void) {
    int *from = shmem_calloc(64, sizeof *from), status[64] = {0};

    shmem_int_atomic_set(from + me, 10 + me, 0);
    for (int k = 0; me == 0 && k < n; k++) {
        size_t i = shmem_int_wait_until_any(from, (size_t)n, status, SHMEM_CMP_NE, 0);
        CHECK(i < (size_t)n && !status[i] && from[i] == 10 + (int)i);
        status[i] = 1;
    }
    shmem_barrier_all();
    shmem_free(from);
}

int main(void) {
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    right = (me + 1) % n;
    empty_sets();
    arriving();
    turns();
    signedness();
    any_of_many();
    return conclude();
}
