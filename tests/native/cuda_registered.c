/* SPDX-License-Identifier: BSD-3-Clause
 * Registered memory of GPUs, with the fake driver: parts of allocations that are no heap. On 2 PEs. */
#include <unistd.h>

#include "fake_cuda.h"

enum { BYTES = 1 << 20, AT = 4096 + 64, N = 1000 };

typedef int alloc_func_t(unsigned long long *address, size_t nbytes);

/* As torch would: our context is not current, or any is; the fake driver does not mind. */
static char *memory_of_gpu(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    unsigned long long address = 0;
    alloc_func_t *alloc = NULL;

    CHECK(library);
    *(void **)&alloc = dlsym(library, "cuMemAlloc_v2");
    CHECK(alloc && !alloc(&address, BYTES));
    return (char *)(uintptr_t)address;
}

static void transfers(int64_t *box, int pe, int n_pes) {
    int64_t mine[N], seen[N] = {0};
    int right = (pe + 1) % n_pes, left = (pe + n_pes - 1) % n_pes;
    void *peer;

    for (int i = 0; i < N; i++)
        mine[i] = 1000 * pe + i;
    MUST(ishmemx_put(&ishmemx_ctx_default, box, mine, sizeof mine, right));
    MUST(ishmemx_barrier_all());
    MUST(ishmemx_get(&ishmemx_ctx_default, seen, box, sizeof seen, pe));
    CHECK(seen[0] == 1000 * left && seen[N - 1] == 1000 * left + N - 1);
    MUST(ishmemx_get(&ishmemx_ctx_default, seen, box + 7, 8, right));
    CHECK(seen[0] == mine[7]);
    MUST(ishmemx_barrier_all());
    MUST(ishmemx_put_nbi(&ishmemx_ctx_default, box + 1, mine, 8, right));
    MUST(ishmemx_quiet(&ishmemx_ctx_default));
    MUST(ishmemx_barrier_all());
    CHECK(box[1] == 1000 * left); /* the fake driver's memory is the CPU's */
    MUST(ishmemx_ptr(box + 1, right, &peer));
    CHECK(peer && *(int64_t *)peer == 1000 * pe);
    CHECK(ishmemx_addr_accessible(box, right));
    MUST(ishmemx_barrier_all()); /* what comes next is put into the same words */
}

/* In the order of a stream; a signal is on the heap. */
static void on_stream(int64_t *box, uint64_t *signal, int pe, int n_pes) {
    int64_t *mine = (int64_t *)memory_of_gpu();
    int right = (pe + 1) % n_pes, left = (pe + n_pes - 1) % n_pes;
    void *stream;

    MUST(ishmemx_stream_create(&stream));
    for (int i = 0; i < N; i++) /* the fake driver's memory is the CPU's */
        mine[i] = 2000 * pe + i;
    MUST(ishmemx_put_on_stream(&ishmemx_ctx_default, box, mine, N * sizeof *mine, right, stream));
    MUST(ishmemx_put_signal_on_stream(&ishmemx_ctx_default, box + 5, mine + 9, 8, signal, 1, ISHMEMX_SIGNAL_SET, right,
                                      stream));
    MUST(ishmemx_stream_finish(stream));
    MUST(ishmemx_barrier_all());
    CHECK(box[0] == 2000 * left && box[N - 1] == 2000 * left + N - 1 && box[5] == 2000 * left + 9 && *signal == 1);
    MUST(ishmemx_get_on_stream(&ishmemx_ctx_default, mine, box + 5, 8, right, stream));
    MUST(ishmemx_p_on_stream(&ishmemx_ctx_default, box + 6, &mine[8], 8, right, stream));
    MUST(ishmemx_stream_finish(stream));
    MUST(ishmemx_barrier_all());
    CHECK(mine[0] == 2000 * pe + 9 && box[6] == 2000 * left + 8);
    CHECK(ishmemx_atomic_on_stream(&ishmemx_ctx_default, ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_INT64, box, 1, 0, right, NULL,
                                   stream) == ISHMEMX_ERR_ARGUMENT);
    CHECK(ishmemx_put_on_stream(&ishmemx_ctx_default, box + N, mine, 8, right, stream) == ISHMEMX_ERR_ARGUMENT);
    *signal = 0;
    MUST(ishmemx_barrier_all());
    MUST(ishmemx_stream_destroy(stream));
}

int main(void) {
    ishmemx_config_t config;
    uint64_t *signal;
    int64_t *box;
    char *memory;
    int pe, n_pes;

    MUST(ishmemx_config_from_environment(&config));
    config.accelerator = ISHMEMX_DEVICE_CUDA;
    MUST(ishmemx_init(&config));
    pe = ishmemx_my_pe();
    n_pes = ishmemx_n_pes();
    memory = memory_of_gpu();
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, sizeof *signal, 0, 1, (void **)&signal));
    box = (int64_t *)(memory + AT);
    CHECK(ishmemx_put(&ishmemx_ctx_default, box, &pe, sizeof pe, pe) == ISHMEMX_ERR_ARGUMENT);
    for (int turn = 0; turn < 3; turn++) {
        MUST(ishmemx_register(&ishmemx_team_world, box, N * sizeof *box));
        transfers(box, pe, n_pes);
        on_stream(box, signal, pe, n_pes);
        CHECK(ishmemx_register(&ishmemx_team_world, box + N - 1, 16) == ISHMEMX_ERR_ARGUMENT);
        CHECK(ishmemx_put(&ishmemx_ctx_default, box + N, &pe, sizeof pe, pe) == ISHMEMX_ERR_ARGUMENT);
        MUST(ishmemx_unregister(&ishmemx_team_world, box, N * sizeof *box));
        CHECK(ishmemx_unregister(&ishmemx_team_world, box, N * sizeof *box) == ISHMEMX_ERR_ARGUMENT);
        CHECK(!ishmemx_is_registered(box, 8));
    }
    /* Beyond the allocation; and on one PE alone of the GPU. */
    CHECK(ishmemx_register(&ishmemx_team_world, memory + BYTES - 8, 4096) != ISHMEMX_OK);
    CHECK(n_pes == 1 ||
          ishmemx_register(&ishmemx_team_world, pe ? (void *)box : (void *)&config, 64) == ISHMEMX_ERR_MISMATCH);
    MUST(ishmemx_register(&ishmemx_team_world, box, N * sizeof *box)); /* finalize ends it */
    MUST(ishmemx_finalize());
    if (!pe)
        puts("ok");
    return 0;
}
