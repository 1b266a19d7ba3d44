/* SPDX-License-Identifier: BSD-3-Clause
 * Senders that give up while a full ring stands still: it goes on behind their tickets, for those who waited with them
 * and for those who come. Arguments: laps that are given up, requests afterwards. */
#include "kernel.h"

static uint64_t *sum; /* on the device heap */
static atomic_bool open_gate;

static int64_t wait_at_gate(int64_t a, int64_t b, int64_t c, int64_t d) {
    while (!atomic_load(&open_gate))
        sched_yield();
    return a + b + c + d;
}

static void give_up(void) {
    uint64_t ticket = __atomic_fetch_add(&kernel.device->ticket, 1, __ATOMIC_RELAXED);

    raise_to(pysh_ring_skipped(kernel.control, kernel.n, ticket), ticket + 1);
}

static void *waiter(void *argument) {
    pysh_request_t request = add_of(sum, 1);

    (void)argument;
    tell(&request);
    quiet();
    return NULL;
}

int main(int argc, char **argv) {
    int laps = count_of(argc, argv, 1, 3), n_requests = count_of(argc, argv, 2, 100), hold;
    pysh_request_t request;
    pthread_t thread;

    kernel_begin();
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, sizeof *sum, 0, 1, (void **)&sum));
    MUST(ishmemx_register_handler(wait_at_gate, &hold));
    request = call_of(hold, 0, 0);
    tell(&request);
    for (uint64_t i = 1; i < kernel.n; i++) { /* to the last slot */
        request = add_of(sum, 1);
        tell(&request);
    }
    CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0); /* its ticket is among those that are given up */
    while (look(&kernel.device->ticket) <= kernel.n)
        sched_yield();
    for (uint64_t i = 0; i < (uint64_t)laps * kernel.n; i++)
        give_up();
    atomic_store(&open_gate, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < n_requests; i++) {
        request = add_of(sum, 1);
        tell(&request);
        ask(request_of(PYSH_OP_NULL, 0, 0, 0, 0));
    }
    quiet();
    CHECK(*sum == kernel.n - 1 + 1 + (uint64_t)n_requests);
    give_up(); /* the host's quiet and finalize do not wait for it, and serve what is behind it */
    request = add_of(sum, 1);
    tell(&request);
    MUST(ishmemx_quiet(&ishmemx_ctx_default));
    CHECK(*sum == kernel.n + (uint64_t)n_requests + 1);
    give_up();
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
