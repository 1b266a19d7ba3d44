/* SPDX-License-Identifier: BSD-3-Clause
 * As many replies outstanding at one time as a GPU has threads: the proxy is held up until all have asked. Arguments:
 * senders, requests of each, which must fit into the ring. */
#include "kernel.h"

static int echo, hold, n_senders, n_requests;
static atomic_bool open_gate;

static int64_t answer(int64_t a, int64_t b, int64_t c, int64_t d) {
    return a << 32 | (b + c + d);
}

static int64_t wait_at_gate(int64_t a, int64_t b, int64_t c, int64_t d) {
    while (!atomic_load(&open_gate))
        sched_yield();
    return a + b + c + d;
}

static void *sender(void *argument) {
    int64_t me = (int64_t)(intptr_t)argument;
    uint64_t *ticket = malloc((size_t)n_requests * sizeof *ticket);
    int status;

    for (int i = 0; i < n_requests; i++) {
        pysh_request_t request = call_of(echo, me, i);
        request.word[PYSH_WORD_KIND] |= PYSH_REQUEST_REPLY << 16;
        ticket[i] = send_request(&request);
    }
    while (look(&kernel.device->ticket) < (uint64_t)n_senders * (uint64_t)n_requests + 1)
        sched_yield();
    atomic_store(&open_gate, true);
    for (int i = n_requests; i-- > 0;) /* not in the order in which they were sent */
        CHECK(await_reply(ticket[i], false, &status) == (uint64_t)answer(me, i, 0, 0) && status == ISHMEMX_OK);
    free(ticket);
    return NULL;
}

int main(int argc, char **argv) {
    pysh_request_t request;

    n_senders = count_of(argc, argv, 1, 64);
    n_requests = count_of(argc, argv, 2, 4700);
    kernel_begin();
    CHECK(kernel.n > (uint64_t)n_senders * (uint64_t)n_requests);
    MUST(ishmemx_register_handler(answer, &echo));
    MUST(ishmemx_register_handler(wait_at_gate, &hold));
    request = call_of(hold, 0, 0);
    tell(&request);
    on_threads(n_senders, sender);
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
