/* SPDX-License-Identifier: BSD-3-Clause
 * Messages are carried out. What they name is looked at first: a wrong one is let go, as if it had not come. */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/cpu_amo.h"
#include "base/elements.h"
#include "base/state.h"
#include "memory/place.h"
#include "node/control.h"
#include "node/node.h"
#include "node/sleep.h"
#include "transport/ucx/ucx.h"

void pysh_ucx_wake(void) {
    pysh_sleep_wake(&pysh_node.own->sleeping, PYSH_SLEEPS_FOR_MEMORY);
}

/* nbytes at the head's place, or NULL. Flags and messages of the library lie in system regions. */
static char *place(const pysh_ucx_head_t *head, uint64_t nbytes) {
    const pysh_arena_t *arena = pysh.arena;
    uint64_t all;

    if (head->heap >= PYSH_ARENA_COUNT)
        return NULL;
    arena += head->heap;
    all = pysh_place_bytes((int)head->heap);
    if (!arena->base || !arena->cpu_visible || head->offset > all || nbytes > all - head->offset)
        return NULL;
    return arena->base + head->offset;
}

/* Words whole, in order, each with a release: programs and the library's messages wait for one that changes. */
static void store(char *to, const void *data, size_t nbytes) {
    uint64_t word;

    if (((uintptr_t)to | nbytes) % sizeof word == 0 && nbytes <= PYSH_UCX_INSIDE) {
        for (size_t i = 0; i < nbytes; i += sizeof word) {
            memcpy(&word, (const char *)data + i, sizeof word);
            __atomic_store_n((uint64_t *)(void *)(to + i), word, __ATOMIC_RELEASE);
        }
        return;
    }
    if (nbytes == sizeof(uint32_t) && (uintptr_t)to % sizeof(uint32_t) == 0) {
        uint32_t half;
        memcpy(&half, data, sizeof half);
        __atomic_store_n((uint32_t *)(void *)to, half, __ATOMIC_RELEASE);
        return;
    }
    memcpy(to, data, nbytes);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void on_put(const pysh_ucx_head_t *head, const void *data) {
    char *to = place(head, head->nbytes);

    if (to && head->nbytes)
        store(to, data, head->nbytes);
    pysh_ucx_wake();
}

static void on_get(const pysh_ucx_head_t *head, const void *data) {
    char *from = place(head, head->value);
    pysh_ucx_head_t answer = {.kind = PYSH_UCX_DATA, .token = head->token};

    (void)data;
    if (from)
        pysh_ucx_answer(head->from, &answer, from, head->value);
}

static void on_amo(const pysh_ucx_head_t *head, const void *data) {
    pysh_ucx_head_t answer = {.kind = PYSH_UCX_DONE, .token = head->token};
    char *word;

    (void)data;
    if (!pysh_amo_takes(head->op, head->type))
        return;
    word = place(head, pysh_type_nbytes(head->type));
    if (!word || !pysh_type_is_aligned(head->type, word))
        return;
    answer.value = pysh_amo_apply(head->op, head->type, word, head->value, head->cond);
    if (head->op != ISHMEMX_ATOMIC_FETCH)
        pysh_ucx_wake();
    if (head->token)
        pysh_ucx_answer(head->from, &answer, NULL, 0);
}

static void on_raise(const pysh_ucx_head_t *head, const void *data) {
    char *word = place(head, sizeof(uint64_t));

    (void)data;
    if (!word || (uintptr_t)word % sizeof(uint64_t))
        return;
    /* release: pairs with the acquire of who looks at the flag, as a neighbour's store does in teams/sync.c */
    __atomic_store_n((uint64_t *)(void *)word, head->value, __ATOMIC_RELEASE);
    pysh_ucx_wake();
}

/* All that was sent before has been carried out, as messages are in order. */
static void on_flush(const pysh_ucx_head_t *head, const void *data) {
    pysh_ucx_head_t answer = {.kind = PYSH_UCX_DONE, .op = 1, .value = head->value};

    (void)data;
    pysh_ucx_answer(head->from, &answer, NULL, 0);
}

static void on_bye(const pysh_ucx_head_t *head, const void *data) {
    (void)data;
    atomic_store(&pysh_ucx.peer[head->from].left, true);
}

static pysh_ucx_handler_t *const handlers[PYSH_UCX_KINDS] = {
    [PYSH_UCX_PUT] = on_put,
    [PYSH_UCX_GET] = on_get,
    [PYSH_UCX_DATA] = pysh_ucx_on_data,
    [PYSH_UCX_AMO] = on_amo,
    [PYSH_UCX_RAISE] = on_raise,
    [PYSH_UCX_FLUSH] = on_flush,
    [PYSH_UCX_DONE] = pysh_ucx_on_done,
    [PYSH_UCX_SAID] = pysh_ucx_on_said,
    [PYSH_UCX_ARRIVE] = pysh_ucx_on_arrive,
    [PYSH_UCX_LEAVE] = pysh_ucx_on_leave,
    [PYSH_UCX_LEFT] = pysh_ucx_on_left,
    [PYSH_UCX_RELEASE] = pysh_ucx_on_release,
    [PYSH_UCX_ABORT] = pysh_ucx_on_abort,
    [PYSH_UCX_NEWS] = pysh_ucx_on_news,
    [PYSH_UCX_BYE] = on_bye,
};

void pysh_ucx_serve(const pysh_ucx_head_t *head, const void *data) {
    handlers[head->kind](head, data);
}
