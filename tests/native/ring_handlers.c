/* SPDX-License-Identifier: BSD-3-Clause
 * Who unregisters a handler waits until no ring is in it, and its number is nobody else's before; a handler may
 * unregister itself. Run with PYSHMEM_TIMEOUT=1. */
#include <semaphore.h>
#include <time.h>

#include "kernel.h"

static sem_t entered, go;
static atomic_bool gone; /* unregistered: its memory may not be used */
static atomic_int used_after, own_number;

static int64_t block(int64_t a, int64_t b, int64_t c, int64_t d) {
    sem_post(&entered);
    sem_wait(&go);
    if (atomic_load(&gone))
        atomic_fetch_add(&used_after, 1);
    return a + b + c + d;
}

static int64_t leave_itself(int64_t a, int64_t b, int64_t c, int64_t d) {
    return ishmemx_unregister_handler(atomic_load(&own_number)) + a + b + c + d;
}

static int64_t nothing(int64_t a, int64_t b, int64_t c, int64_t d) {
    return a + b + c + d;
}

static void *let_go(void *unused) {
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
    sem_post(&go);
    return unused;
}

int main(void) {
    pysh_request_t request;
    int handler, other;
    uint64_t ticket;
    pthread_t thread;
    int status;

    sem_init(&entered, 0, 0);
    sem_init(&go, 0, 0);
    kernel_begin();
    MUST(ishmemx_register_handler(block, &handler));
    request = call_of(handler, 1, 2);
    request.word[PYSH_WORD_KIND] |= PYSH_REQUEST_REPLY << 16;
    ticket = send_request(&request);
    sem_wait(&entered);
    CHECK(ishmemx_unregister_handler(handler) == ISHMEMX_ERR_TIMEOUT);
    CHECK(strstr(ishmemx_error(), "unregister_handler"));
    MUST(ishmemx_register_handler(nothing, &other));
    CHECK(other != handler);
    CHECK(pthread_create(&thread, NULL, let_go, NULL) == 0);
    MUST(ishmemx_unregister_handler(handler)); /* again: it goes on waiting */
    atomic_store(&gone, true);
    CHECK(await_reply(ticket, false, &status) == 3 && status == ISHMEMX_OK);
    CHECK(pthread_join(thread, NULL) == 0 && atomic_load(&used_after) == 0);
    CHECK(ishmemx_unregister_handler(handler) == ISHMEMX_ERR_ARGUMENT);
    MUST(ishmemx_register_handler(leave_itself, &handler));
    atomic_store(&own_number, handler);
    CHECK(ask(call_of(handler, 3, 4)) == 7);
    CHECK(ishmemx_unregister_handler(handler) == ISHMEMX_ERR_ARGUMENT);
    MUST(ishmemx_unregister_handler(other));
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
