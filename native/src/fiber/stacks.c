/* SPDX-License-Identifier: BSD-3-Clause
 * Stacks of fibers, kept for the next launch. Their pages are the system's until somebody touches them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fiber/stacks.h"

#define STACK_BYTES (256 * 1024)
#define AT_ONCE     32
/* Stacks at equal distances would have their tops in the same lines of the cache. */
#define COLOURS      16
#define COLOUR_BYTES 320

static struct {
    pthread_mutex_t mutex;
    fiber_t *free;
    int64_t made;
} stacks = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Each stack and its guard are two ranges of addresses, of which a process has 65,530 by the system's default. */
int64_t ishmemx_cpu_most_threads(void) {
    return 24 * 1024;
}

/* With the mutex held. */
static bool stack_make(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, (size_t)AT_ONCE * STACK_BYTES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    if (memory == MAP_FAILED)
        return false;
    for (int i = 0; i < AT_ONCE; i++) {
        char *low = memory + (size_t)i * STACK_BYTES + page, *top = memory + (size_t)(i + 1) * STACK_BYTES;
        fiber_t *fiber;

        if (mprotect(low, STACK_BYTES - page, PROT_READ | PROT_WRITE))
            return i > 0; /* the rest stays as it is: nobody uses it */
        fiber = (fiber_t *)((uintptr_t)(top - sizeof *fiber - stacks.made % COLOURS * COLOUR_BYTES) & ~(uintptr_t)63);
        *fiber = (fiber_t){.low = low, .nbytes = (size_t)((char *)fiber - low), .next = stacks.free};
        stacks.free = fiber;
        stacks.made++;
    }
    return true;
}

fiber_t *pysh_fiber_take(worker_t *worker) {
    fiber_t *fiber = worker->free;

    if (!fiber) { /* as many as one makes at once, so that the mutex is taken seldom */
        pthread_mutex_lock(&stacks.mutex);
        for (int i = 0; i < AT_ONCE && (stacks.free || stack_make()); i++) {
            fiber = stacks.free;
            stacks.free = fiber->next;
            fiber->next = worker->free;
            worker->free = fiber;
        }
        pthread_mutex_unlock(&stacks.mutex);
        fiber = worker->free;
    }
    if (fiber)
        worker->free = fiber->next;
    return fiber;
}

void pysh_fibers_return(worker_t *worker) {
    fiber_t *last = worker->free;

    if (!last)
        return;
    while (last->next)
        last = last->next;
    pthread_mutex_lock(&stacks.mutex);
    last->next = stacks.free;
    stacks.free = worker->free;
    pthread_mutex_unlock(&stacks.mutex);
    worker->free = NULL;
}
