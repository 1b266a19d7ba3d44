/* SPDX-License-Identifier: BSD-3-Clause
 * Copies that the copy engine's process begins and fails to do, those of FAILS bytes, with the fake driver: a kernel
 * hears of its own by its reply, and nobody else does. On 1 PE with 2 rings; or on 2 that do not reach each other, with
 * the argument "far". */
#include <signal.h>

#include "engine_pid.h"
#include "fake_cuda.h"

enum { FAILS = 4088, MANY = 300, A_BATCH = 80 };

static _Atomic int called, go_on;

static void use_ring(int k) {
    int64_t words[ISHMEMX_STATE_WORDS];

    MUST(ishmemx_device_state(words));
    kernel.slots = (pysh_slot_t *)(intptr_t)words[ISHMEMX_STATE_RING + 4 * k];
    kernel.control = (pysh_ring_control_t *)(intptr_t)words[ISHMEMX_STATE_RING + 4 * k + 1];
    kernel.device = (pysh_ring_device_t *)(intptr_t)words[ISHMEMX_STATE_RING + 4 * k + 2];
}

static pysh_request_t put_to(int pe, void *dest, const void *source, size_t nbytes, unsigned flags) {
    pysh_request_t request = put_of(dest, source, nbytes, flags);

    request.word[PYSH_WORD_PE] = (uint32_t)pe;
    return request;
}

static void is_told_once(uint64_t ticket) {
    ishmemx_fault_t fault;
    char why[512];
    int status;

    await_reply(ticket, false, &status);
    CHECK(status == ISHMEMX_ERR_SYSTEM);
    MUST(ishmemx_proxy_error(why, sizeof why));
    CHECK(strstr(why, "a copy") || strstr(why, "could not do"));
    quiet();
    for (int i = 0; i < A_BATCH; i++) /* the proxy has looked for failures once more */
        ask(request_of(PYSH_OP_NULL, 0, 0, 0, 0));
    MUST(ishmemx_fault_take(&fault));
    CHECK(fault.kind == ISHMEMX_FAULT_NONE);
}

static int64_t wait_there(int64_t a, int64_t b, int64_t c, int64_t d) {
    (void)a, (void)b, (void)c, (void)d;
    atomic_store(&called, 1);
    while (!atomic_load(&go_on))
        sched_yield();
    return 0;
}

/* The first ring's thread is in a handler while the second one's copies use the slot of the failed one. */
static void is_told_late(uint64_t *device, uint64_t *host) {
    pysh_request_t put = put_to(0, host, device, FAILS, PYSH_REQUEST_REPLY), call;
    int handler, status, pid = engine_pid();
    uint64_t failing, calling;

    MUST(ishmemx_register_handler(wait_there, &handler));
    CHECK(pid > 0 && !kill(pid, SIGSTOP));
    failing = send_request(&put);
    for (int i = 0; i < A_BATCH; i++) /* the copy is posted */
        ask(request_of(PYSH_OP_NULL, 0, 0, 0, 0));
    call = call_of(handler, 0, 0);
    call.word[PYSH_WORD_KIND] |= PYSH_REQUEST_REPLY << 16;
    calling = send_request(&call);
    while (!atomic_load(&called))
        sched_yield();
    CHECK(!kill(pid, SIGCONT));
    use_ring(1);
    for (int i = 0; i < MANY; i++)
        ask(put_to(0, device + 1024, device + 2048, 64, PYSH_REQUEST_DONE));
    use_ring(0);
    atomic_store(&go_on, 1);
    await_reply(calling, false, &status);
    is_told_once(failing);
}

int main(int argc, char **argv) {
    bool far = argc > 1 && !strcmp(argv[1], "far");
    uint64_t *device, *host;
    ishmemx_config_t config;
    pysh_request_t put;

    MUST(ishmemx_config_from_environment(&config));
    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 1 << 16, 0, 1, (void **)&device));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_HOST, 1 << 16, 0, 1, (void **)&host));
    put = put_to(far, far ? device : host, device, FAILS, PYSH_REQUEST_REPLY);
    if (config.pe == 0)
        is_told_once(send_request(&put));
    if (!far)
        is_told_late(device, host);
    MUST(ishmemx_barrier_all());
    MUST(ishmemx_finalize());
    if (config.pe == 0)
        puts("ok");
    return 0;
}
