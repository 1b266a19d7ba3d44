/* SPDX-License-Identifier: BSD-3-Clause
 * Atomic operations between GPUs whose link has no native ones, with the fake driver: the owner's proxy does them, for
 * host calls and for kernels; on a stream they are refused. On 3 PEs, of which the last has no link with atomics. */
#include <unistd.h>

#include "fake_cuda.h"

enum { ADDS = 50, APART = 2 };

static uint64_t *counter, *flag;

static bool by_owner(int pe) {
    int64_t words[ISHMEMX_STATE_WORDS];

    MUST(ishmemx_device_state(words));
    return words[ISHMEMX_STATE_BY_OWNER + pe / 64] >> (pe % 64) & 1;
}

static uint64_t fetch_add(int pe) {
    uint64_t old;

    MUST(ishmemx_atomic(&ishmemx_ctx_default, ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_UINT64, counter, 1, 0, pe, &old));
    return old;
}

static pysh_request_t add_at(int pe) {
    pysh_request_t request = add_of(counter, 1);

    request.word[PYSH_WORD_PE] |= (uint32_t)pe;
    return request;
}

/* Every PE adds to `target`, by host calls, by kernels that fetch and by kernels that do not. */
static void add_to(int target, int pe, int n_pes) {
    uint64_t seen;
    int before = fake_cuda("fake_cuda_atomics", 0), ran, expected = 0;

    MUST(ishmemx_barrier_all()); /* the count stands before anybody adds */
    for (int i = 0; i < ADDS; i++) {
        pysh_request_t request = add_at(target);
        uint64_t old = fetch_add(target);
        CHECK(ask(request) > old);
        tell(&request);
    }
    quiet();
    MUST(ishmemx_barrier_all());
    MUST(ishmemx_get(&ishmemx_ctx_default, &seen, counter, 8, target));
    CHECK(seen == (uint64_t)(3 * ADDS * n_pes));
    for (int asker = 0; asker < n_pes; asker++) {
        bool apart = asker != target && (asker == APART || target == APART);
        expected += (apart ? target : asker) == pe ? 3 * ADDS : 0;
    }
    ran = fake_cuda("fake_cuda_atomics", 0) - before;
    if (ran != expected)
        fail("to PE %d: PE %d's driver ran %d atomic operations, not %d", target, pe, ran, expected);
    MUST(ishmemx_barrier_all());
}

/* Data and an added signal: who has seen the signal sees the data. */
static void signal_behind_data(int pe, int n_pes) {
    uint64_t value = 7;

    if (pe == 0)
        MUST(ishmemx_put_signal(&ishmemx_ctx_default, counter, &value, 8, flag, 3, ISHMEMX_SIGNAL_ADD, n_pes - 1));
    MUST(ishmemx_barrier_all());
    if (pe == n_pes - 1) {
        MUST(ishmemx_get(&ishmemx_ctx_default, &value, counter, 8, pe));
        CHECK(value == 7);
    }
}

int main(void) {
    ishmemx_config_t config;

    MUST(ishmemx_config_from_environment(&config));
    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    for (int pe = 0; pe < config.n_pes; pe++)
        CHECK(by_owner(pe) == (pe != config.pe && (pe == APART || config.pe == APART)));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8, 0, 1, (void **)&counter));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8, 0, 1, (void **)&flag));
    for (int target = 0; target < config.n_pes; target++)
        add_to(target, config.pe, config.n_pes);
    signal_behind_data(config.pe, config.n_pes);
    if (config.pe == 0) {
        CHECK(ishmemx_atomic_on_stream(&ishmemx_ctx_default, ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_UINT64, counter, 1, 0,
                                       APART, NULL, NULL) == ISHMEMX_ERR_UNSUPPORTED);
        CHECK(strstr(ishmemx_error(), "the link to the GPU of PE 2 has no native atomic operations"));
        CHECK(ishmemx_put_signal_on_stream(&ishmemx_ctx_default, counter, counter, 8, flag, 1, ISHMEMX_SIGNAL_ADD,
                                           APART, NULL) == ISHMEMX_ERR_UNSUPPORTED);
        MUST(ishmemx_atomic_on_stream(&ishmemx_ctx_default, ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_UINT64, counter, 1, 0, 1,
                                      NULL, NULL));
    }
    MUST(ishmemx_finalize());
    if (config.pe == 0)
        puts("ok");
    return 0;
}
