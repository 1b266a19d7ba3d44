/* SPDX-License-Identifier: BSD-3-Clause
 * Requests that failed: the text for the kernel's fault record, or a record of the proxy's own. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "base/state.h"
#include "host_proxy/rings.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for `why` */
static char why[512];

void pysh_ring_explain(void) {
    pthread_mutex_lock(&mutex);
    if (!__atomic_load_n(&pysh.fault[1].kind, __ATOMIC_RELAXED)) /* else the text is that record's, until it is taken */
        snprintf(why, sizeof why, "%s", ishmemx_error());
    pthread_mutex_unlock(&mutex);
}

void pysh_ring_complain(int op, int pe, int status) {
    ishmemx_fault_t *fault = &pysh.fault[1];

    pthread_mutex_lock(&mutex);
    if (!__atomic_load_n(&fault->kind, __ATOMIC_ACQUIRE)) { /* pairs with the release that frees the record there */
        snprintf(why, sizeof why, "%s", ishmemx_error());
        fault->op = (uint64_t)op;
        fault->pe = pe;
        fault->module = -1;
        fault->block = fault->thread = fault->b = 0;
        fault->a = status;
        __atomic_store_n(&fault->kind, ISHMEMX_FAULT_PROXY, __ATOMIC_RELEASE); /* pairs with ishmemx_fault_take() */
    }
    pthread_mutex_unlock(&mutex);
}

int ishmemx_proxy_error(char *text, size_t capacity) {
    pthread_mutex_lock(&mutex);
    snprintf(text, capacity, "%s", why);
    pthread_mutex_unlock(&mutex);
    return ISHMEMX_OK;
}
