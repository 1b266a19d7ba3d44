/* SPDX-License-Identifier: BSD-3-Clause
 * A far atomic operation whose old value a kernel wants in memory of the GPU, with the fake driver, on 2 PEs: the proxy
 * serves others while the value is copied there. */
#include <unistd.h>

#include "fake_cuda.h"

enum { SLOW_US = 600 * 1000, BEFORE = 41 };

static void fetch(uint64_t *counter, uint64_t *fetched, const uint64_t *done) {
    pysh_request_t request = add_of(counter, 1);

    request.word[PYSH_WORD_PE] |= 1;
    request.word[PYSH_WORD_SOURCE] = (uintptr_t)fetched;
    fake_cuda("fake_cuda_slow", SLOW_US);
    tell(&request);
    while (!look(done))
        usleep(1000);
    usleep(50000); /* the answer is here, and its value under way to the GPU */
    ask(request_of(PYSH_OP_NULL, 0, 0, 0, 0));
    CHECK(look(fetched) == 0);
    quiet();
    CHECK(look(fetched) == BEFORE);
    fake_cuda("fake_cuda_slow", 0);
}

int main(void) {
    ishmemx_config_t config;
    uint64_t *counter, *done, before = BEFORE, one = 1;

    MUST(ishmemx_config_from_environment(&config));
    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 64, 0, 1, (void **)&counter));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_HOST, 8, 0, 1, (void **)&done));
    MUST(ishmemx_put(&ishmemx_ctx_default, counter, &before, 8, config.pe));
    MUST(ishmemx_barrier_all());
    if (config.pe == 0) {
        fetch(counter, counter + 4, done);
    } else {
        while (look(counter) != BEFORE + 1)
            usleep(1000);
        MUST(ishmemx_put(&ishmemx_ctx_default, done, &one, 8, 0));
    }
    MUST(ishmemx_barrier_all());
    MUST(ishmemx_finalize());
    if (config.pe == 0)
        puts("ok");
    return 0;
}
