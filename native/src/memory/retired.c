/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory/retired.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct retired {
    struct retired *next;
    void *base;
    size_t nbytes;
    int64_t blocks; /* still in use */
    pysh_unmap_func_t unmap;
} retired_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* a finalizer may come in any thread */
static retired_t *first;
static _Atomic(int) count; /* of the list, for those without the mutex */

void pysh_retire(void *base, size_t nbytes, int64_t blocks, pysh_unmap_func_t unmap) {
    retired_t *retired;

    if (blocks <= 0) {
        unmap(base, nbytes);
        return;
    }
    retired = malloc(sizeof *retired);
    if (!retired)
        return; /* it stays until exit */
    pthread_mutex_lock(&mutex);
    *retired = (retired_t){.next = first, .base = base, .nbytes = nbytes, .blocks = blocks, .unmap = unmap};
    first = retired;
    atomic_fetch_add(&count, 1);
    pthread_mutex_unlock(&mutex);
}

bool pysh_retired_release(const void *block) {
    retired_t **link, *found;
    bool last;

    if (!atomic_load_explicit(&count, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&mutex);
    for (link = &first; (found = *link); link = &found->next)
        if ((uintptr_t)block - (uintptr_t)found->base < found->nbytes)
            break;
    last = found && --found->blocks == 0;
    if (last) {
        *link = found->next;
        atomic_fetch_sub(&count, 1);
    }
    pthread_mutex_unlock(&mutex);
    if (last) {
        found->unmap(found->base, found->nbytes);
        free(found);
    }
    return found;
}
