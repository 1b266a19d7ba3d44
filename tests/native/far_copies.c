/* SPDX-License-Identifier: BSD-3-Clause
 * Puts, gets and signals of kernels while a thread of each PE is in a call of the driver that waits for a kernel, with
 * the fake driver, on 2 PEs: between device heaps out of reach, or, with "host", between those and host heaps. More
 * than there are pieces, and more than a message has room for, are under way. */
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"

enum { WORDS = 78000, PARTS = 60, PART = WORDS / PARTS };

/* Copies of a piece each to a host heap end in any order, so there their signals are added up; a copy engine, and a far
 * PE, have an order, but engines can only set. */
static int signals = ISHMEMX_SIGNAL_SET;

static pysh_request_t to_peer(int op, uint64_t *dest, const uint64_t *source, size_t words) {
    pysh_request_t request = request_of(op, 0, 0, 1, signals);

    request.word[PYSH_WORD_DEST] = (uint64_t)(uintptr_t)dest;
    request.word[PYSH_WORD_SOURCE] = (uint64_t)(uintptr_t)source;
    request.word[PYSH_WORD_VALUE] = words * 8;
    return request;
}

static pysh_request_t signal_behind(uint64_t *dest, const uint64_t *source, uint64_t *signal, uint64_t value) {
    pysh_request_t request = to_peer(PYSH_OP_PUT_SIGNAL, dest, source, PART);

    request.word[PYSH_WORD_EXTRA] = (uintptr_t)signal;
    request.word[PYSH_WORD_EXTRA2] = signals == ISHMEMX_SIGNAL_SET ? value : 1;
    return request;
}

static void check(const uint64_t *found, uint64_t first) {
    for (int i = 0; i < WORDS; i++)
        CHECK(look(&found[i]) == first + (uint64_t)i);
}

/* PE 0: its source goes to PE 1 in one piece, in parts with a signal each, and comes back. */
static void move(uint64_t *source, uint64_t *dest, uint64_t *parts, uint64_t *back, uint64_t *signal) {
    pysh_request_t request = to_peer(PYSH_OP_PUT, dest, source, WORDS);

    tell(&request);
    quiet();
    for (int part = 0; part < PARTS; part++) {
        request = signal_behind(parts + (size_t)part * PART, source + (size_t)part * PART, signal, (uint64_t)part + 1);
        tell(&request);
    }
    quiet();
    request = to_peer(PYSH_OP_GET, back, dest, WORDS);
    tell(&request);
    quiet();
    check(back, 7);
}

int main(int argc, char **argv) {
    ishmemx_config_t config;
    int there = argc > 1 && !strcmp(argv[1], "host") ? ISHMEMX_HEAP_HOST : ISHMEMX_HEAP_DEVICE;
    uint64_t *source, *dest, *parts, *back, *signal;

    signals = there == ISHMEMX_HEAP_HOST ? ISHMEMX_SIGNAL_ADD : ISHMEMX_SIGNAL_SET;
    MUST(ishmemx_config_from_environment(&config));
    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8 * WORDS, 0, 1, (void **)&source));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8 * WORDS, 0, 1, (void **)&back));
    MUST(ishmemx_malloc(there, 8 * WORDS, 0, 1, (void **)&dest));
    MUST(ishmemx_malloc(there, 8 * WORDS, 0, 1, (void **)&parts));
    MUST(ishmemx_malloc(there, 8, 0, 1, (void **)&signal));
    for (int i = 0; i < WORDS; i++)
        source[i] = 7 + (uint64_t)i; /* the fake driver's device memory is the host's */
    MUST(ishmemx_barrier_all());
    fake_cuda("fake_cuda_free", 1);
    if (config.pe == 0) {
        move(source, dest, parts, back, signal);
    } else {
        while (look(signal) != PARTS)
            usleep(1000);
        check(dest, 7);
        check(parts, 7);
    }
    MUST(ishmemx_barrier_all());
    fake_cuda("fake_cuda_free", 0);
    MUST(ishmemx_finalize());
    if (config.pe == 0)
        puts("ok");
    return 0;
}
