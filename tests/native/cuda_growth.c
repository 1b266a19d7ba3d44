/* SPDX-License-Identifier: BSD-3-Clause
 * A device heap that grows, with the fake driver: what was added is reached by the host, by kernels' requests and by
 * the copy engine, a full GPU is told to all, and memory goes back. On 1 PE or more, each writes to its right
 * neighbour. */
#include <unistd.h>

#include "fake_cuda.h"

enum { TURNS = 6, MIB = 1 << 20, BLOCK = 40 * MIB, WORDS = BLOCK / 8 };

static int pe, n_pes, right, left;

static int mapped(void) {
    return fake_cuda("fake_cuda_mapped", 0);
}

static uint64_t *make(size_t nbytes, int status) {
    void *block = NULL;

    CHECK(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, nbytes, 0, 1, &block) == status);
    return block;
}

/* By the host and, with the last words, by a request. */
static void write_right(uint64_t *dest, uint64_t *source, uint64_t value) {
    pysh_request_t request = put_of(&dest[WORDS - 8], &source[WORDS - 8], 64, PYSH_REQUEST_DONE);

    CHECK(!source[0] && !source[WORDS - 1]); /* zeroed */
    source[0] = source[WORDS - 1] = value + (uint64_t)pe;
    MUST(ishmemx_put(&ishmemx_ctx_default, dest, source, 8, right));
    request.word[PYSH_WORD_PE] = (uint32_t)right;
    ask(request);
    MUST(ishmemx_barrier_all());
    CHECK(dest[0] == value + (uint64_t)left && dest[WORDS - 1] == value + (uint64_t)left);
}

static void a_full_gpu_is_told_to_all(void) {
    ishmemx_heap_stats_t before, after;
    int was = mapped();

    MUST(ishmemx_heap_stats(ISHMEMX_HEAP_DEVICE, &before));
    make((size_t)600 * MIB, ISHMEMX_ERR_MEMORY);
    CHECK(strstr(ishmemx_error(), "cannot grow by"));
    make((size_t)2000 * MIB, ISHMEMX_ERR_MEMORY);
    CHECK(strstr(ishmemx_error(), "it grows up to"));
    MUST(ishmemx_heap_stats(ISHMEMX_HEAP_DEVICE, &after));
    CHECK(!memcmp(&before, &after, sizeof before) && mapped() == was);
}

/* A job whose heap could grow by the settings, and does not: `why` says so. */
static int is_fixed(const char *why) {
    ishmemx_heap_stats_t stats;

    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    MUST(ishmemx_heap_stats(ISHMEMX_HEAP_DEVICE, &stats));
    CHECK(!mapped() && stats.memory == stats.nbytes);
    CHECK(strstr(ishmemx_device_heap_fixed(), why));
    make((size_t)2000 * MIB, ISHMEMX_ERR_MEMORY);
    CHECK(strstr(ishmemx_error(), "it does not grow: ") && strstr(ishmemx_error(), why));
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}

int main(int argc, char **argv) {
    ishmemx_config_t config;
    uint64_t *dest[TURNS], *source[TURNS];
    ishmemx_heap_stats_t stats;
    int first, grown;

    if (argc > 1)
        return is_fixed(argv[1]);
    MUST(ishmemx_config_from_environment(&config));
    pe = config.pe, n_pes = config.n_pes, right = (pe + 1) % n_pes, left = (pe + n_pes - 1) % n_pes;
    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    first = mapped();
    CHECK(!*ishmemx_device_heap_fixed());
    for (int turn = 0; turn < TURNS / 2; turn++) {
        dest[turn] = make(BLOCK, ISHMEMX_OK);
        source[turn] = make(BLOCK, ISHMEMX_OK);
        write_right(dest[turn], source[turn], (uint64_t)(100 * turn + 1));
    }
    grown = mapped();
    CHECK(grown >= first + 200);
    CHECK(!fake_cuda("fake_cuda_unreached", pe % n_pes)); /* libraries copy a peer's array by the GPU that it is on */
    a_full_gpu_is_told_to_all();
    for (int turn = TURNS / 2; turn-- > 1;) {
        MUST(ishmemx_free(dest[turn]));
        MUST(ishmemx_free(source[turn]));
    }
    MUST(ishmemx_heap_trim(ISHMEMX_HEAP_DEVICE));
    CHECK(mapped() < grown && mapped() >= first);
    dest[1] = make(BLOCK, ISHMEMX_OK);
    source[1] = make(BLOCK, ISHMEMX_OK);
    write_right(dest[1], source[1], 1000);
    quiet();
    MUST(ishmemx_heap_stats(ISHMEMX_HEAP_DEVICE, &stats));
    MUST(ishmemx_finalize());
    CHECK(mapped() == (int)(stats.memory / MIB)); /* its own, for the blocks that it still has */
    if (pe == 0)
        puts("ok");
    return 0;
}
