/* SPDX-License-Identifier: BSD-3-Clause
 * The runtime of kernels on CPUs by itself: kernels in C that meet, exchange, wait for each other, fail and deadlock.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check_or_exit.h"
#include "fiber/block.h"
#include "fiber/gridsync.h"
#include "fiber/launch.h"
#include "fiber/schedule.h"
#include "fiber/warp.h"

enum { THREADS = 96, BLOCKS = 7, ROUNDS = 20 };

static ishmemx_cpu_launch_t launch_of(int blocks, int threads, int workers) {
    return (ishmemx_cpu_launch_t){
        .blocks = {blocks, 1, 1}, .threads = {threads, 1, 1}, .workers = workers, .shared_bytes = 64, .name = "test"};
}

static int32_t run(ishmemx_cpu_launch_t *launch, pysh_kernel_t kernel, void *arguments) {
    return pysh_cpu_run((int64_t)(uintptr_t)launch, kernel, arguments);
}

/* ---- barriers: a sum over the block, in turns ---- */

static int32_t sums(void *arguments, void **exception) {
    const ishmemx_cpu_thread_t *self = pysh_cpu_self();
    int64_t *shared = (int64_t *)(uintptr_t)pysh_cpu_shared(7, THREADS * 8), *results = arguments;

    (void)exception;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t sum = 0;
        shared[self->rank] = self->rank + round;
        pysh_cpu_sync();
        for (int i = 0; i < THREADS; i++)
            sum += shared[i];
        CHECK(sum == THREADS * (THREADS - 1) / 2 + THREADS * round);
        pysh_cpu_sync();
    }
    results[self->block_rank * THREADS + self->rank] = 1;
    return 0;
}

/* Threads that end early are not waited for. */
static int32_t leaves(void *arguments, void **exception) {
    const ishmemx_cpu_thread_t *self = pysh_cpu_self();
    int64_t counted;

    (void)arguments;
    (void)exception;
    if (self->rank % 3 == 0)
        return 0;
    counted = pysh_cpu_sync_count(self->rank % 3 == 1);
    CHECK((counted & 0xffffffff) == THREADS / 3 && counted >> 32 == THREADS / 3 * 2);
    return 0;
}

/* ---- lanes ---- */

static int32_t lanes(void *arguments, void **exception) {
    const ishmemx_cpu_thread_t *self = pysh_cpu_self();
    int lane = self->rank % 32;
    uint32_t half = lane < 16 ? 0xffffu : 0xffff0000u;
    uint64_t value;

    (void)arguments;
    (void)exception;
    CHECK(pysh_cpu_warp(PYSH_XOR, ~0u, (uint64_t)lane, 1) == (uint64_t)(lane ^ 1));
    CHECK(pysh_cpu_warp(PYSH_UP, ~0u, (uint64_t)lane, 3) == (uint64_t)(lane < 3 ? lane : lane - 3));
    CHECK(pysh_cpu_warp(PYSH_DOWN, ~0u, (uint64_t)lane, 3) == (uint64_t)(lane > 28 ? lane : lane + 3));
    /* halves meet apart, as often as they like */
    for (int k = 0; k < lane / 16 + 1; k++)
        CHECK(pysh_cpu_warp(PYSH_PICK, half, (uint64_t)lane, lane / 16 * 16 + 5) == (uint64_t)(lane / 16 * 16 + 5));
    value = pysh_cpu_warp(PYSH_BALLOT, ~0u, lane % 2, 0);
    CHECK((uint32_t)value == 0xaaaaaaaau && value >> 32 == 0xffffffffu);
    CHECK((uint32_t)pysh_cpu_warp(PYSH_MATCH, half, (uint64_t)(lane % 2), 0) ==
          (half & (lane % 2 ? 0xaaaaaaaau : 0x55555555u)));
    pysh_cpu_warp(PYSH_SYNC, ~0u, 0, 0);
    return 0;
}

/* ---- the grid, and blocks that wait for each other ---- */

static int32_t whole_grid(void *arguments, void **exception) {
    const ishmemx_cpu_thread_t *self = pysh_cpu_self();
    int64_t *count = arguments;

    (void)exception;
    for (int round = 1; round <= ROUNDS; round++) {
        __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
        pysh_cpu_grid_sync();
        CHECK(__atomic_load_n(count, __ATOMIC_RELAXED) == (int64_t)round * THREADS * self->n_blocks);
        pysh_cpu_grid_sync();
    }
    return 0;
}

/* Block k waits for block k + 1, which nobody has started when the wait begins. */
static int32_t backwards(void *arguments, void **exception) {
    const ishmemx_cpu_thread_t *self = pysh_cpu_self();
    int64_t *flags = arguments;

    (void)exception;
    while (self->block_rank + 1 < self->n_blocks && !__atomic_load_n(&flags[self->block_rank + 1], __ATOMIC_ACQUIRE))
        pysh_cpu_yield();
    pysh_cpu_sync();
    if (!self->rank)
        __atomic_store_n(&flags[self->block_rank], 1, __ATOMIC_RELEASE);
    return 0;
}

/* ---- what goes wrong ---- */

static int32_t fails(void *arguments, void **exception) {
    const ishmemx_cpu_thread_t *self = pysh_cpu_self();

    *exception = arguments;
    pysh_cpu_sync();
    return self->block_rank == 2 && self->rank == 5 ? 42 : 0;
}

static int32_t deadlocks(void *arguments, void **exception) {
    (void)arguments;
    (void)exception;
    if (pysh_cpu_self()->rank < 3)
        pysh_cpu_sync();
    else
        pysh_cpu_warp(PYSH_SYNC, ~0u, 0, 0);
    return 0;
}

/* What the threads of a block call together: of the first ones and of the others, and a number for each. */
typedef struct {
    const char *first, *other;
    int64_t step;
    bool by_warp;
} calls_t;

static int32_t calls(void *arguments, void **exception) {
    const calls_t *calls = arguments;
    ishmemx_cpu_thread_t *self = pysh_cpu_self();

    (void)exception;
    for (int round = 0; round < ROUNDS; round++) {
        self->call = (int64_t)(uintptr_t)(self->rank < 3 ? calls->first : calls->other);
        self->given[0] = self->rank % 4 == 3 ? INT64_MIN : self->rank * calls->step;
        if (calls->by_warp)
            pysh_cpu_warp_meet(PYSH_SYNC, 0, 0);
        else
            pysh_cpu_meet();
    }
    return 0;
}

static void check_calls(int workers) {
    static const char one[] = "one\0pe\0", again[] = "one\0pe\0", two[] = "two\0pe\0";

    for (int by_warp = 0; by_warp < 2; by_warp++) {
        ishmemx_cpu_launch_t launch = launch_of(BLOCKS, 32, workers);
        calls_t same = {one, again, 0, by_warp}, mixed = {one, two, 0, by_warp}, apart = {one, again, 2, by_warp};
        const char *text = launch.text;

        CHECK(!run(&launch, calls, &same) && launch.end == ISHMEMX_CPU_DONE);
        launch = launch_of(1, 32, workers);
        CHECK(!run(&launch, calls, &mixed) && launch.end == ISHMEMX_CPU_NOT_ALL);
        CHECK(strstr(text, by_warp ? "threads of warp 0 of block 0 meet" : "threads of block 0 meet") == text);
        CHECK(strstr(text,
                     "different calls, each of which is for all of them together: threads 0-2 in one; 3-31 in two"));
        launch = launch_of(1, 32, workers);
        CHECK(!run(&launch, calls, &apart) && launch.end == ISHMEMX_CPU_NOT_ALL);
        CHECK(strstr(text, " call one together with different arguments: pe is 0 in thread 0, 2 in thread 1"));
    }
}

static int32_t spins(void *arguments, void **exception) {
    (void)exception;
    while (!*(volatile int *)arguments)
        pysh_cpu_yield();
    return 0;
}

static volatile sig_atomic_t interrupted;

static void note(int signal) {
    (void)signal;
    interrupted = 1;
}

static void check_failures(int workers) {
    ishmemx_cpu_launch_t launch = launch_of(BLOCKS, THREADS, workers);
    int never = 0;

    CHECK(run(&launch, fails, &never) == 42 && launch.end == ISHMEMX_CPU_RAISED);
    CHECK(launch.exception == (int64_t)(uintptr_t)&never && launch.block[0] == 2 && launch.thread[0] == 5);

    launch = launch_of(1, 40, workers);
    CHECK(!run(&launch, deadlocks, NULL) && launch.end == ISHMEMX_CPU_FAILED);
    CHECK(!strcmp(launch.text, "block (0, 0, 0): threads 0-2 at syncthreads; threads 3-31 at a warp's meeting; "
                               "8 of its 40 have ended"));
}

/* Kernels here are code of a file, which is not left in the middle: they end where they yield. */
static void check_interrupt(int workers) {
    ishmemx_cpu_launch_t launch = launch_of(BLOCKS, THREADS, workers);
    struct sigaction action = {.sa_handler = note};
    int never = 0;

    launch.interruptible = 1;
    interrupted = 0;
    sigaction(SIGINT, &action, NULL);
    if (!fork()) {
        usleep(50000);
        kill(getppid(), SIGINT);
        _exit(0);
    }
    run(&launch, spins, &never);
    CHECK(interrupted && launch.end == ISHMEMX_CPU_INTERRUPTED);
}

int main(void) {
    for (int workers = 1; workers <= 3; workers++) {
        static int64_t done[BLOCKS * THREADS], count, flags[BLOCKS];
        ishmemx_cpu_launch_t launch = launch_of(BLOCKS, THREADS, workers);

        memset(done, 0, sizeof done);
        memset(flags, 0, sizeof flags);
        count = 0;
        CHECK(!run(&launch, sums, done) && launch.end == ISHMEMX_CPU_DONE);
        for (int i = 0; i < BLOCKS * THREADS; i++)
            CHECK(done[i]);
        CHECK(!run(&launch, leaves, NULL) && !run(&launch, lanes, NULL));
        CHECK(!run(&launch, whole_grid, &count) && count == ROUNDS * BLOCKS * THREADS);
        CHECK(!run(&launch, backwards, flags) && flags[0]);
        check_failures(workers);
        check_calls(workers);
    }
    check_interrupt(1);
    printf("ok\n");
    return 0;
}
