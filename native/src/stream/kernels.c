/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels that are loaded, and how one is launched. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/state.h"
#include "base/status.h"
#include "node/enter.h"
#include "node/kernel_waits.h"
#include "stream/stream.h"

#define TABLE_SIZE 4096 /* a power of two, more than there are keys */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for adding */
static _Atomic(pysh_kernel_t *) table[TABLE_SIZE];        /* open addressing; entries stay for the process */
static __thread int64_t missing;

int64_t pysh_kernel_key(int kind, int op, int type) {
    return kind | (int64_t)op << ISHMEMX_KEY_OP_SHIFT | (int64_t)type << ISHMEMX_KEY_TYPE_SHIFT;
}

static int kernel_kind_of(int64_t key) {
    return (int)(key & ((1 << ISHMEMX_KEY_OP_SHIFT) - 1));
}

static uint32_t home_of(int64_t key) {
    return (uint32_t)(((uint64_t)key * 0x9E3779B97F4A7C15ULL) >> 52) & (TABLE_SIZE - 1);
}

static pysh_kernel_t *kernel_find(int64_t key) {
    uint32_t at = home_of(key);
    pysh_kernel_t *kernel;

    /* acquire: pairs with the release of ishmemx_kernel_load() */
    while ((kernel = atomic_load_explicit(&table[at], memory_order_acquire)) && kernel->key != key)
        at = (at + 1) & (TABLE_SIZE - 1);
    return kernel;
}

/* ---- loading ---- */

int64_t ishmemx_kernel_missing(void) {
    return missing;
}

int ishmemx_kernel_loaded(int64_t key) {
    return kernel_find(key) != NULL;
}

int ishmemx_kernel_waits(char *text, size_t capacity) {
    return pysh_board_own(text, capacity);
}

static int kernel_load(pysh_kernel_t *kernel, const void *image, const char *name, size_t stack) {
    int64_t state[ISHMEMX_STATE_WORDS];
    int status = ishmemx_device_state(state);

    if (status)
        return status;
    state[ISHMEMX_STATE_MODULE] = ISHMEMX_KEY_MODULE | kernel->key;
    return pysh.accel->streams->load(image, name, state, stack, kernel);
}

static int add(int64_t key, const void *image, const char *name, size_t stack) {
    uint32_t at = home_of(key);
    pysh_kernel_t *kernel;
    int status;

    if (kernel_find(key))
        return ISHMEMX_OK;
    if (!(kernel = calloc(1, sizeof *kernel)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a kernel");
    kernel->key = key;
    kernel->cooperative = (key & ISHMEMX_KEY_WIDE) != 0 && pysh_kernel_syncs_grid(kernel_kind_of(key));
    if ((status = kernel_load(kernel, image, name, stack))) {
        free(kernel);
        return status;
    }
    while (table[at])
        at = (at + 1) & (TABLE_SIZE - 1);
    atomic_store_explicit(&table[at], kernel, memory_order_release);
    return ISHMEMX_OK;
}

int ishmemx_kernel_load(int64_t key, const void *image, const char *name, size_t stack) {
    int status;

    PYSH_ENTER();
    if ((status = pysh_stream_check(NULL)))
        return status;
    pthread_mutex_lock(&mutex);
    status = add(key, image, name, stack);
    pthread_mutex_unlock(&mutex);
    return status;
}

static int kernel_refill(int64_t *state) {
    int status = ISHMEMX_OK;

    for (int i = 0; !status && pysh.accel && i < TABLE_SIZE; i++) {
        pysh_kernel_t *kernel = table[i];
        if (!kernel)
            continue;
        state[ISHMEMX_STATE_MODULE] = ISHMEMX_KEY_MODULE | kernel->key;
        status = pysh.accel->streams->refill(kernel, state);
    }
    return status;
}

int ishmemx_kernels_refill(void) {
    int64_t state[ISHMEMX_STATE_WORDS];
    int status = ishmemx_device_state(state);

    return status ? status : kernel_refill(state);
}

void pysh_kernels_forget(void) {
    int64_t nothing[ISHMEMX_STATE_WORDS] = {0};

    kernel_refill(nothing);
}

/* ---- launching ---- */

void pysh_words_int(pysh_launch_t *launch, int64_t value) {
    launch->words[launch->n_words++] = value;
}

/* As Numba passes an array of one dimension. */
void pysh_words_array(pysh_launch_t *launch, const void *address, size_t nelems, size_t width) {
    const int64_t words[7] = {
        0, 0, (int64_t)nelems, (int64_t)width, (int64_t)(intptr_t)address, (int64_t)nelems, (int64_t)width};

    for (int i = 0; i < 7; i++)
        pysh_words_int(launch, words[i]);
}

int pysh_kernel_launch(pysh_launch_t *launch, int64_t key, size_t nbytes, void *stream) {
    int64_t wanted = key | pysh_launch_shape(launch, kernel_kind_of(key), (key & ISHMEMX_KEY_FAR) != 0, nbytes);

    if (!(launch->kernel = kernel_find(wanted))) {
        missing = wanted;
        return pysh_fail(ISHMEMX_ERR_UNPREPARED, "kernel %#llx for streams is not loaded", (unsigned long long)wanted);
    }
    if (wanted & ISHMEMX_KEY_LEAN) {
        pysh_words_int(launch, launch->half);
        pysh_words_int(launch, launch->first);
        launch->early = true;
    }
    return pysh.accel->streams->launch(launch, stream);
}
