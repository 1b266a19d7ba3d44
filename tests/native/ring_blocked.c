/* SPDX-License-Identifier: BSD-3-Clause
 * A handler that does not return: finalize ends all the same, leaves its thread behind, and says so. The next job of
 * the process is as good as any. Run with PYSHMEM_TIMEOUT=1. */
#include <semaphore.h>
#include <time.h>

#include "kernel.h"

static sem_t entered, go;

static int64_t block(int64_t a, int64_t b, int64_t c, int64_t d) {
    sem_post(&entered);
    sem_wait(&go);
    return a + b + c + d;
}

static int64_t seconds(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

int main(void) {
    int64_t start = seconds();
    pysh_request_t request;
    int handler;

    sem_init(&entered, 0, 0);
    sem_init(&go, 0, 0);
    MUST(ishmemx_register_handler(block, &handler));
    kernel_begin();
    request = call_of(handler, 1, 2);
    send_request(&request);
    sem_wait(&entered);
    CHECK(ishmemx_finalize() == ISHMEMX_ERR_TIMEOUT);
    CHECK(seconds() - start < 30);
    CHECK(ishmemx_unregister_handler(handler) == ISHMEMX_ERR_STATE && strstr(ishmemx_error(), "keep its memory"));
    MUST(ishmemx_register_handler(block, &handler));
    kernel_begin();
    sem_post(&go); /* the thread that was left behind ends now, beside the new job */
    sem_post(&go);
    CHECK(ask(call_of(handler, 1, 2)) == 3);
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
