/* SPDX-License-Identifier: BSD-3-Clause
 * What a kernel sends to all members of a team on other nodes, with the fake driver, on nodes of argv[1] PEs: one
 * message a node carries it, and the reply comes when it is at every member, though copies are slow and a thread of
 * each PE is in a call of the driver that waits for a kernel. With "fails", copies of FAILS bytes by PE 2's engine
 * fail. */
#include <unistd.h>

#include "fake_cuda.h"

enum { MOST = 9000, FAILS = 4088, SLOW_US = 2000, NO_TEAM = 40 };

static int pe, n_pes, node_size;

static bool is_remote(int other) {
    return other / node_size != pe / node_size;
}

static pysh_request_t spread_of(uint64_t *dest, const uint64_t *source, size_t nbytes, int slot) {
    pysh_request_t request = request_of(PYSH_OP_SPREAD, 0, PYSH_REQUEST_REPLY, pe, 0);

    request.word[PYSH_WORD_DEST] = (uintptr_t)dest;
    request.word[PYSH_WORD_SOURCE] = (uintptr_t)source;
    request.word[PYSH_WORD_VALUE] = nbytes;
    request.word[PYSH_WORD_EXTRA] = (uint64_t)slot;
    return request;
}

static int asked(const pysh_request_t *request) {
    int status;

    await_reply(send_request(request), false, &status);
    return status;
}

static uint64_t word_of(int owner, int i) {
    return (uint64_t)owner * 1000000 + (uint64_t)i + 1;
}

/* Does `other` hold what this PE has sent? Asked of it directly, which is no way of what was sent. */
static void check_at(int other, uint64_t *dest, uint64_t *back, int words) {
    pysh_request_t request = request_of(PYSH_OP_GET, 0, 0, other, 0);

    request.word[PYSH_WORD_DEST] = (uintptr_t)back;
    request.word[PYSH_WORD_SOURCE] = (uintptr_t)dest;
    request.word[PYSH_WORD_VALUE] = (uint64_t)words * 8;
    ask(request);
    for (int i = 0; i < words; i++)
        CHECK(look(&back[i]) == word_of(pe, i));
}

static int64_t messages(void) {
    ishmemx_proxy_stats_t stats;

    MUST(ishmemx_proxy_stats(&stats));
    return stats.far_messages;
}

/* Of the engine's process alone nothing waits in the driver. */
static void wait_in_driver(int on) {
    const char *engine = getenv("PYSHMEM_ENGINE");

    if (engine && !strcmp(engine, "process"))
        fake_cuda("fake_cuda_free", on);
}

/* `data`: bytes of a message. */
static void spread(uint64_t *dest, const uint64_t *source, uint64_t *back, int words, int data) {
    pysh_request_t request = spread_of(dest, source, (size_t)words * 8, 0);
    int64_t before = messages(), pieces = (words * 8 + data - 1) / data;
    int nodes = (n_pes + node_size - 1) / node_size;

    wait_in_driver(1);
    CHECK(asked(&request) == ISHMEMX_OK);
    CHECK(messages() - before == pieces * (nodes - 1));
    for (int other = 0; other < n_pes; other++)
        if (is_remote(other))
            check_at(other, dest, back, words);
    wait_in_driver(0);
}

/* By PE 0 and PE 1, whose receivers are PE 2 and PE 3. */
static void fail_once(uint64_t *dest, const uint64_t *source, uint64_t *back) {
    pysh_request_t request = spread_of(dest, source, FAILS, 0);
    ishmemx_fault_t fault;
    char why[512];
    int status = asked(&request);

    if (pe == 0) {
        CHECK(status == ISHMEMX_ERR_SYSTEM);
        MUST(ishmemx_proxy_error(why, sizeof why));
        CHECK(strstr(why, "PE 2 could not do"));
    } else {
        CHECK(status == ISHMEMX_OK);
        for (int other = 2; other < 4; other++) /* a word less, which is another size */
            check_at(other, dest, back, FAILS / 8 - 1);
    }
    MUST(ishmemx_fault_take(&fault));
    CHECK(fault.kind == ISHMEMX_FAULT_NONE);
}

static void refuse(uint64_t *dest, uint64_t *source) {
    pysh_request_t request = spread_of(dest, source, 8, NO_TEAM);
    uint64_t here = 0;
    char why[512];

    CHECK(asked(&request) == ISHMEMX_ERR_ARGUMENT);
    MUST(ishmemx_proxy_error(why, sizeof why));
    CHECK(strstr(why, "team 40"));
    request = spread_of(dest, source, 8, -1);
    CHECK(asked(&request) == ISHMEMX_ERR_ARGUMENT);
    request = spread_of(&here, source, 8, 0);
    CHECK(asked(&request) == ISHMEMX_ERR_ARGUMENT);
    request = spread_of(dest, source, 0, 0);
    CHECK(asked(&request) == ISHMEMX_OK);
}

int main(int argc, char **argv) {
    int data = count_of(argc, argv, 2, 0);
    bool fails = argc > 3 && !strcmp(argv[3], "fails");
    const int sizes[] = {1, 3, 700, MOST};
    uint64_t *source, *back, *blocks, *dest;
    ishmemx_config_t config;

    MUST(ishmemx_config_from_environment(&config));
    node_size = count_of(argc, argv, 1, 1);
    pe = config.pe, n_pes = config.n_pes;
    if (fails && pe == 2)
        CHECK(!setenv("FAKE_CUDA_FAILS", "4088", 1));
    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8 * MOST, 0, 1, (void **)&source));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8 * MOST, 0, 1, (void **)&back));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8 * MOST * (size_t)n_pes, 0, 1, (void **)&blocks));
    dest = blocks + (size_t)pe * MOST;
    for (int i = 0; i < MOST; i++) /* the fake driver's device memory is the host's */
        source[i] = word_of(pe, i);
    refuse(dest, source);
    fake_cuda("fake_cuda_slow", SLOW_US);
    MUST(ishmemx_barrier_all());
    if (fails && pe < 2)
        fail_once(dest, source, back);
    for (size_t i = 0; !fails && i < sizeof sizes / sizeof *sizes; i++)
        spread(dest, source, back, sizes[i], data);
    MUST(ishmemx_barrier_all());
    fake_cuda("fake_cuda_slow", 0);
    for (int other = 0; !fails && other < n_pes; other++)
        CHECK(look(&blocks[(size_t)other * MOST]) == (is_remote(other) ? word_of(other, 0) : 0));
    MUST(ishmemx_finalize());
    if (pe == 0)
        puts("ok");
    return 0;
}
