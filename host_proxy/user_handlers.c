/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of the program that kernels call, on the thread of a ring. One that is unregistered may go with the memory
 * that it is in, so who does that waits until no thread is in it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"
#include "base/status.h"
#include "host_proxy/ring.h"
#include "host_proxy/rings.h"
#include "node/wait.h"

static struct {
    pthread_mutex_t mutex; /* over the rest; no function is called under it */
    ishmemx_handler_t function[ISHMEMX_MAX_HANDLERS];
    int n_inside[ISHMEMX_MAX_HANDLERS]; /* threads; the number is not given away before it is 0 */
} user = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool inside; /* this thread is in one */

static bool known(int number) {
    return number >= 0 && number < ISHMEMX_MAX_HANDLERS;
}

static ishmemx_handler_t enter(int number) {
    ishmemx_handler_t function = NULL;

    pthread_mutex_lock(&user.mutex);
    if (known(number) && (function = user.function[number]))
        user.n_inside[number]++;
    pthread_mutex_unlock(&user.mutex);
    inside = function != NULL;
    return function;
}

static void user_leave(int number) {
    inside = false;
    pthread_mutex_lock(&user.mutex);
    user.n_inside[number]--;
    pthread_mutex_unlock(&user.mutex);
}

pysh_outcome_t pysh_handle_call(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    int number = pysh_request_high(request);
    const int64_t *argument = (const int64_t *)(const void *)request->word;
    ishmemx_handler_t function = enter(number);
    pysh_outcome_t result = {.status = ISHMEMX_OK};

    (void)ticket;
    if (!function)
        return pysh_outcome(
            pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel called handler %d, which is not registered", number));
    atomic_store(&ring->calls, PYSH_RING_CALLS);
    result.value = (uint64_t)function(argument[0], argument[1], argument[2], argument[3]);
    user_leave(number);
    if (!atomic_compare_exchange_strong(&ring->calls, &(int){PYSH_RING_CALLS}, PYSH_RING_FREE))
        pthread_exit(NULL);
    return result;
}

int ishmemx_register_handler(ishmemx_handler_t function, int *number) {
    int status = ISHMEMX_ERR_MEMORY;

    if (!function)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the handler is a null pointer");
    pthread_mutex_lock(&user.mutex);
    for (int i = 0; status && i < ISHMEMX_MAX_HANDLERS; i++)
        if (!user.function[i] && !user.n_inside[i]) {
            user.function[i] = function;
            *number = i;
            status = ISHMEMX_OK;
        }
    pthread_mutex_unlock(&user.mutex);
    return status ? pysh_fail(status, "there are %d handlers already", ISHMEMX_MAX_HANDLERS) : status;
}

static bool is_in_use(int number) {
    bool used;

    pthread_mutex_lock(&user.mutex);
    used = user.n_inside[number] > 0;
    pthread_mutex_unlock(&user.mutex);
    return used;
}

/* Outside a job nobody enters it; a thread that finalize has left behind may still be in it, for ever. */
static int await_leavers(int number) {
    pysh_wait_t wait;
    int status = ISHMEMX_OK;

    if (!is_in_use(number))
        return ISHMEMX_OK;
    if (!pysh.ready)
        return pysh_fail(ISHMEMX_ERR_STATE,
                         "handler %d has not returned on a thread that finalize left behind; keep its memory, and "
                         "unregister it again once it has",
                         number);
    pysh_wait_begin(&wait, "unregister_handler, for a call that has not returned");
    while (!status && is_in_use(number))
        status = pysh_wait_pause(&wait);
    pysh_wait_end(&wait);
    return status;
}

int ishmemx_unregister_handler(int number) {
    bool was = false;

    if (known(number)) {
        pthread_mutex_lock(&user.mutex);
        was = user.function[number] || user.n_inside[number]; /* again, after a wait that was given up */
        user.function[number] = NULL;
        pthread_mutex_unlock(&user.mutex);
    }
    if (!was)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "handler %d is not registered", number);
    return inside ? ISHMEMX_OK : await_leavers(number); /* a handler would wait for itself, or two for each other */
}
