/* SPDX-License-Identifier: BSD-3-Clause
 * A proxy that stands still: credit holds all senders back, and nothing is lost when it goes on. Arguments:
 * senders, requests of each. */
#include "kernel.h"

static uint64_t *sum; /* on the device heap */
static int hold, n_requests;
static atomic_bool open_gate;

static int64_t wait_at_gate(int64_t a, int64_t b, int64_t c, int64_t d) {
    while (!atomic_load(&open_gate))
        sched_yield();
    return a + b + c + d;
}

static void *sender(void *argument) {
    uint64_t me = (uint64_t)(intptr_t)argument;

    for (int i = 0; i < n_requests; i++) {
        pysh_request_t request = add_of(sum, me + 1);
        tell(&request);
    }
    quiet();
    return NULL;
}

/* The last to start: opens the gate when every other sender stands before a full ring. */
static void *watcher(void *argument) {
    uint64_t n_senders = (uint64_t)(intptr_t)argument, stuck = kernel.n + n_senders;

    while (look(&kernel.device->ticket) < stuck)
        sched_yield();
    for (int i = 0; i < 2000; i++) {
        sched_yield();
        CHECK(look(&kernel.device->ticket) == stuck); /* one ticket a sender beyond the slots, and no more */
    }
    CHECK(look(&kernel.control->consumed) == 0 && look(sum) == 0);
    atomic_store(&open_gate, true);
    return NULL;
}

static int n_senders;

static void *either(void *argument) {
    return (intptr_t)argument == n_senders ? watcher(argument) : sender(argument);
}

int main(int argc, char **argv) {
    pysh_request_t request;
    uint64_t expected;

    n_senders = count_of(argc, argv, 1, 16);
    n_requests = count_of(argc, argv, 2, 500);
    kernel_begin();
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, sizeof *sum, 0, 1, (void **)&sum));
    MUST(ishmemx_register_handler(wait_at_gate, &hold));
    request = call_of(hold, 0, 0);
    tell(&request);
    on_threads(n_senders + 1, either);
    expected = (uint64_t)n_requests * (uint64_t)n_senders * (uint64_t)(n_senders + 1) / 2;
    CHECK(*sum == expected);
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
