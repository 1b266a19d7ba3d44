/* SPDX-License-Identifier: BSD-3-Clause
 * A kernel's side of the ring, in C: threads of a test program stand for those of a kernel, on the simulator's
 * device heap. The steps are those of ring.h; pyshmem/device/ring/requests.py has them for kernels. */
#pragma once

#include <ishmemx.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring.h"

static struct {
    pysh_slot_t *slots;
    pysh_ring_control_t *control;
    pysh_ring_device_t *device;
    uint64_t n;
    unsigned log2_n;
} kernel;

static void fail(const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

#define MUST(_status)                                               \
    do {                                                            \
        if (_status)                                                \
            fail("%s:%d: %s", __FILE__, __LINE__, ishmemx_error()); \
    } while (0)
#define CHECK(_holds)                                                     \
    do {                                                                  \
        if (!(_holds))                                                    \
            fail("%s:%d: %s does not hold", __FILE__, __LINE__, #_holds); \
    } while (0)

/* One PE with an accelerator, and ring 0. Settings come from the environment. With the fake driver of fake_cuda.c a
 * GPU's memory is memory that this program reaches too. */
static void kernel_begin_on(int accelerator) {
    static int64_t words[ISHMEMX_STATE_WORDS];
    ishmemx_config_t config;

    MUST(ishmemx_config_from_environment(&config));
    config.accelerator = accelerator;
    MUST(ishmemx_init(&config));
    MUST(ishmemx_device_state(words));
    kernel.slots = (pysh_slot_t *)(intptr_t)words[ISHMEMX_STATE_RING];
    kernel.control = (pysh_ring_control_t *)(intptr_t)words[ISHMEMX_STATE_RING + 1];
    kernel.device = (pysh_ring_device_t *)(intptr_t)words[ISHMEMX_STATE_RING + 2];
    kernel.n = (uint64_t)words[ISHMEMX_STATE_RING_SLOTS];
    kernel.log2_n = (unsigned)words[ISHMEMX_STATE_RING_LOG2];
}

static inline void kernel_begin(void) {
    kernel_begin_on(ISHMEMX_DEVICE_SIM);
}

static inline uint64_t look(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void raise_to(uint64_t *word, uint64_t value) {
    uint64_t old = look(word);

    while (old < value && !__atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
}

static inline uint64_t *busy_of(uint64_t ticket) {
    return &kernel.device->word[ticket & (kernel.n - 1)];
}

static inline uint64_t *done_of(uint64_t ticket) {
    return &kernel.device->word[kernel.n + (ticket & (kernel.n - 1))];
}

/* Steps 1 to 4. Where a GPU has the order from dependences and C11 has not, the loads are acquires. */
static inline uint64_t send_request(const pysh_request_t *request) {
    uint64_t ticket = __atomic_fetch_add(&kernel.device->ticket, 1, __ATOMIC_RELAXED);
    uint64_t *word = kernel.slots[ticket & (kernel.n - 1)].word, known, polls = 0;
    pysh_slot_t slot;

    while ((known = __atomic_load_n(&kernel.device->consumed, __ATOMIC_ACQUIRE)) + kernel.n <= ticket) {
        if (ticket < known + kernel.n + PYSH_RING_CREDIT || ++polls % 4096 == 0)
            raise_to(&kernel.device->consumed, __atomic_load_n(&kernel.control->consumed, __ATOMIC_ACQUIRE));
        sched_yield();
    }
    if (request->word[PYSH_WORD_KIND] >> 16 & PYSH_REQUEST_REPLY) {
        for (uint64_t none = 0;
             !__atomic_compare_exchange_n(busy_of(ticket), &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
             none = 0)
            sched_yield();
    }
    pysh_request_pack(request, pysh_ring_phase(ticket, kernel.log2_n), &slot);
    /* Any order will do; this one differs from ticket to ticket. Release: the source data, and `busy`. */
    for (uint64_t i = 0; i < PYSH_SLOT_WORDS; i++)
        __atomic_store_n(&word[(i * 3 + ticket) % PYSH_SLOT_WORDS], slot.word[(i * 3 + ticket) % PYSH_SLOT_WORDS],
                         __ATOMIC_RELEASE);
    return ticket;
}

/* Step 5; the value, and the status behind `status_p`. */
static inline uint64_t await_reply(uint64_t ticket, bool by_engine, int *status_p) {
    const pysh_cell_t *cell = &kernel.control->cell[ticket & (kernel.n - 1)];
    const uint64_t *word = by_engine ? done_of(ticket) : (const uint64_t *)(const void *)&cell->tag;
    uint64_t seen, value;

    while ((uint32_t)(seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != (uint32_t)(ticket + 1))
        sched_yield();
    value = by_engine ? 0 : look(&cell->value);
    *status_p = (int)(seen >> 32);
    __atomic_store_n(busy_of(ticket), 0, __ATOMIC_RELEASE);
    return value;
}

static inline pysh_request_t request_of(int op, unsigned type, unsigned flags, int pe, uint32_t high) {
    pysh_request_t request = {{0}};

    request.word[PYSH_WORD_PE] = (uint32_t)pe | (uint64_t)high << 32;
    request.word[PYSH_WORD_KIND] = (uint64_t)op | type << 8 | (uint64_t)flags << 16;
    return request;
}

static inline uint64_t ask(pysh_request_t request) {
    int status;
    uint64_t value;

    request.word[PYSH_WORD_KIND] |= PYSH_REQUEST_REPLY << 16;
    value = await_reply(send_request(&request), request.word[PYSH_WORD_KIND] >> 16 & PYSH_REQUEST_DONE, &status);
    CHECK(status == ISHMEMX_OK);
    return value;
}

static inline void tell(const pysh_request_t *request) {
    raise_to(&kernel.device->pending, send_request(request) + 1);
}

static inline void quiet(void) {
    uint64_t need = look(&kernel.device->pending);

    if (need <= __atomic_load_n(&kernel.device->acked, __ATOMIC_ACQUIRE))
        return;
    while (__atomic_load_n(&kernel.control->acked, __ATOMIC_ACQUIRE) < need) {
        __atomic_store_n(&kernel.control->asked, need, __ATOMIC_RELEASE); /* again: others may ask for less */
        sched_yield();
    }
    raise_to(&kernel.device->acked, need);
}

/* ---- requests that the tests send ---- */

static inline pysh_request_t call_of(int handler, int64_t a, int64_t b) {
    pysh_request_t request = request_of(PYSH_OP_CALL, 0, 0, 0, (uint32_t)handler);

    request.word[0] = (uint64_t)a;
    request.word[1] = (uint64_t)b;
    return request;
}

static inline pysh_request_t add_of(uint64_t *dest, uint64_t value) {
    pysh_request_t request = request_of(PYSH_OP_AMO, ISHMEMX_TYPE_UINT64, 0, 0, ISHMEMX_ATOMIC_ADD);

    request.word[PYSH_WORD_DEST] = (uint64_t)(uintptr_t)dest;
    request.word[PYSH_WORD_VALUE] = value;
    return request;
}

static inline pysh_request_t put_of(void *dest, const void *source, size_t nbytes, unsigned flags) {
    pysh_request_t request = request_of(PYSH_OP_PUT, 0, flags, 0, 0);

    request.word[PYSH_WORD_DEST] = (uint64_t)(uintptr_t)dest;
    request.word[PYSH_WORD_SOURCE] = (uint64_t)(uintptr_t)source;
    request.word[PYSH_WORD_VALUE] = nbytes;
    return request;
}

/* Runs `body` on n threads; each gets its number. */
static inline void on_threads(int n, void *(*body)(void *)) {
    pthread_t *thread = calloc((size_t)n, sizeof *thread);

    for (int i = 0; i < n; i++)
        CHECK(pthread_create(&thread[i], NULL, body, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    free(thread);
}

static inline int count_of(int argc, char **argv, int place, int otherwise) {
    return argc > place ? atoi(argv[place]) : otherwise;
}
