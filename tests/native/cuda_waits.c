/* SPDX-License-Identifier: BSD-3-Clause
 * A wait for words of a GPU's memory, which no copy gets to while the program waits in the driver, with the fake
 * driver, on 1 PE: it keeps no other thread's wait from ending. */
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "fake_cuda.h"

/* Most of the copies that the wait makes are for what others are shown of it. */
enum { TURNS = 8, WORDS = 90, LONG_S = 20 };

static uint64_t *device, *host;

static void *wait_for_the_gpu(void *argument) {
    uint64_t one = 1;

    (void)argument;
    MUST(ishmemx_wait_until_all(ISHMEMX_TYPE_UINT64, device, WORDS, NULL, ISHMEMX_CMP_EQ, &one, 0));
    return NULL;
}

static void *wait_for_the_host(void *argument) {
    MUST(ishmemx_wait_until(ISHMEMX_TYPE_UINT64, host, ISHMEMX_CMP_EQ, (uint64_t)(intptr_t)argument, NULL));
    return NULL;
}

static void turn(int number) {
    struct timespec until;
    pthread_t thread;

    fake_cuda("fake_cuda_free", 1);
    CHECK(!pthread_create(&thread, NULL, wait_for_the_host, (void *)(intptr_t)number));
    usleep(30 * 1000); /* it is a slow wait by then, or it is not put to the test */
    __atomic_store_n(host, (uint64_t)number, __ATOMIC_RELEASE);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LONG_S;
    if (pthread_timedjoin_np(thread, NULL, &until))
        fail("turn %d: a wait for a word of the host heap has not ended", number);
    fake_cuda("fake_cuda_free", 0);
    usleep(1000 * (10 + 7 * number)); /* elsewhere in what the other one does */
}

int main(void) {
    pthread_t thread;

    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, WORDS * 8, 0, 1, (void **)&device));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_HOST, 8, 0, 1, (void **)&host));
    memset(device, 0, WORDS * 8);
    *host = 0;
    CHECK(!pthread_create(&thread, NULL, wait_for_the_gpu, NULL));
    for (int number = 1; number <= TURNS; number++)
        turn(number);
    for (int i = 0; i < WORDS; i++)
        __atomic_store_n(&device[i], 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
