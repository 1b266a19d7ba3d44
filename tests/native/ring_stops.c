/* SPDX-License-Identifier: BSD-3-Clause
 * The end: quiet and finalize serve what is in the ring, and they do end when somebody goes on sending or a handler
 * takes for ever. Run with PYSHMEM_TIMEOUT=1. */
#include <time.h>

#include "kernel.h"

static int counter, repeater, sleeper;
static _Atomic int64_t counted;
static atomic_bool repeat;

static int64_t count(int64_t a, int64_t b, int64_t c, int64_t d) {
    return atomic_fetch_add(&counted, 1) + a + b + c + d;
}

/* A kernel that never stops: each request that is served sends the next. It is the proxy's thread that sends, so
 * that nobody writes to the ring once it is gone. */
static int64_t send_again(int64_t a, int64_t b, int64_t c, int64_t d) {
    pysh_request_t request = call_of(repeater, a, b);

    if (atomic_load(&repeat))
        send_request(&request);
    return count(a, b, c, d);
}

static int64_t be_slow(int64_t a, int64_t b, int64_t c, int64_t d) {
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    return count(a, b, c, d);
}

static double now(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void begin(void) {
    kernel_begin();
    atomic_store(&counted, 0);
    MUST(ishmemx_register_handler(count, &counter));
    MUST(ishmemx_register_handler(send_again, &repeater));
    MUST(ishmemx_register_handler(be_slow, &sleeper));
}

static void end(void) {
    MUST(ishmemx_unregister_handler(counter));
    MUST(ishmemx_unregister_handler(repeater));
    MUST(ishmemx_unregister_handler(sleeper));
}

static void *sender(void *argument) {
    (void)argument;
    for (int i = 0; i < 500; i++) {
        pysh_request_t request = call_of(counter, 0, 0);
        tell(&request);
    }
    return NULL;
}

static void finalize_serves_what_was_sent(void) {
    begin();
    on_threads(4, sender);
    MUST(ishmemx_finalize());
    CHECK(atomic_load(&counted) == 4 * 500);
    end();
}

static void both_end_while_a_kernel_goes_on(void) {
    pysh_request_t request;
    double start = now();

    begin();
    atomic_store(&repeat, true);
    request = call_of(repeater, 0, 0);
    tell(&request);
    request = call_of(counter, 0, 0);
    tell(&request);
    MUST(ishmemx_quiet(&ishmemx_ctx_default));
    CHECK(atomic_load(&counted) >= 2);
    MUST(ishmemx_finalize());
    CHECK(now() - start < 15);
    atomic_store(&repeat, false);
    end();
}

static void finalize_ends_with_a_slow_handler(void) {
    double start = now();

    begin();
    for (int i = 0; i < 4000; i++) {
        pysh_request_t request = call_of(sleeper, 0, 0);
        send_request(&request);
    }
    CHECK(ishmemx_finalize() == ISHMEMX_ERR_TIMEOUT);
    CHECK(strstr(ishmemx_error(), "quiet took longer than"));
    CHECK(now() - start < 30 && atomic_load(&counted) < 4000);
    end();
}

int main(void) {
    finalize_serves_what_was_sent();
    both_end_while_a_kernel_goes_on();
    finalize_ends_with_a_slow_handler();
    puts("ok");
    return 0;
}
