/* SPDX-License-Identifier: BSD-3-Clause
 * Device heaps of a job with more PEs than the state block has room for: those that are too far apart are nodes of
 * their own, and reached by messages. What the state block says is compared with where PEs are. */
#include "kernel.h"

enum { WORDS = 4 };

static uint64_t *box, *counter, *sig;

static int64_t distance_to(const int64_t *state, int pe) {
    if (pe < state[ISHMEMX_STATE_NEAR_BEGIN] || pe >= state[ISHMEMX_STATE_NEAR_END])
        return ISHMEMX_FAR;
    return state[ISHMEMX_STATE_DELTA + pe % ISHMEMX_MAX_NEAR_PES];
}

/* Near PEs are within one range of ISHMEMX_MAX_NEAR_PES numbers, whoever looks, and the rest is far. */
static void state_block_is_right(int me, int n) {
    int64_t state[ISHMEMX_STATE_WORDS];

    MUST(ishmemx_device_state(state));
    CHECK(state[ISHMEMX_STATE_P2P] == 0);
    for (int pe = 0; pe < n; pe++) {
        bool near = pe / ISHMEMX_MAX_NEAR_PES == me / ISHMEMX_MAX_NEAR_PES;
        void *peer;
        CHECK((distance_to(state, pe) == ISHMEMX_FAR) == !near);
        CHECK((ishmemx_node(pe) == ishmemx_node(me)) == near);
        MUST(ishmemx_ptr(box, pe, &peer));
        CHECK((peer != NULL) == near);
        CHECK(!near || (char *)peer - (char *)box == distance_to(state, pe));
    }
}

/* The same, for a near and a far one: by the host, and by a kernel's requests. */
static void reaches(int me, int n, int pe) {
    uint64_t value[WORDS], old;
    pysh_request_t request;

    for (int i = 0; i < WORDS; i++)
        value[i] = (uint64_t)(me * WORDS + i);
    MUST(ishmemx_put(&ishmemx_ctx_default, box, value, sizeof value, pe));
    MUST(ishmemx_atomic(&ishmemx_ctx_default, ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_UINT64, counter, 1, 0, pe, &old));
    request = request_of(PYSH_OP_AMO, ISHMEMX_TYPE_UINT64, 0, pe, ISHMEMX_ATOMIC_ADD);
    request.word[PYSH_WORD_DEST] = (uintptr_t)counter;
    request.word[PYSH_WORD_VALUE] = 1;
    CHECK(ask(request) > old);
    MUST(ishmemx_put_signal(&ishmemx_ctx_default, &box[0], value, 8, sig, 1, ISHMEMX_SIGNAL_ADD, pe));
    MUST(ishmemx_barrier_all());
    CHECK(box[WORDS - 1] == (uint64_t)((2 * me - pe + n) % n * WORDS + WORDS - 1)); /* of who is as far behind */
    MUST(ishmemx_barrier_all());
}

int main(void) {
    ishmemx_config_t config;
    int me, n;

    MUST(ishmemx_config_from_environment(&config));
    me = config.pe, n = config.n_pes;
    kernel_begin();
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, WORDS * sizeof *box, 0, 1, (void **)&box));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, sizeof *counter, 0, 1, (void **)&counter));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, sizeof *sig, 0, 1, (void **)&sig));
    state_block_is_right(me, n);
    reaches(me, n, (me + 1) % n);
    reaches(me, n, (me + ISHMEMX_MAX_NEAR_PES) % n); /* for some far, and in the place of a near one */
    CHECK(*counter == 4 && *sig == 2);
    MUST(ishmemx_finalize());
    if (me == 0)
        puts("ok");
    return 0;
}
