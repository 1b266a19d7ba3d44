/* SPDX-License-Identifier: BSD-3-Clause
 * The owner's end of a channel: what others ask of this PE's memory is done, in the order in which it came, and
 * answered. Several copies of a GPU are under way at once; a signal or an atomic waits until all that the same PE sent
 * before is done. */
#include <string.h>

#include "accel/accel.h"
#include "accel/engine/engine.h"
#include "am/channel.h"
#include "base/cpu_amo.h"
#include "base/state.h"
#include "base/status.h"
#include "node/wait.h"

static bool inside(const pysh_am_served_t *served) {
    return served->word[PYSH_AM_HEAD] & PYSH_AM_INSIDE;
}

static bool spreads(const pysh_am_served_t *served) {
    return served->word[PYSH_AM_HEAD] & PYSH_AM_SPREADS;
}

/* ---- bytes ---- */

/* Where a message's bytes go, or come from, at a PE whose heap is mapped here: that they are on it has been checked. */
static char *place_at(const pysh_am_served_t *served, int pe) {
    const pysh_arena_t *arena = &pysh.arena[pysh_am_heap(served->word)];

    return (pe == pysh.pe ? arena->base : arena->peer[pe]) + served->word[PYSH_AM_OFFSET];
}

/* Between the heap and the message's data. */
static int serve_copy(pysh_am_served_t *served, int pe, char *data) {
    const pysh_arena_t *arena = &pysh.arena[pysh_am_heap(served->word)];
    bool gets = pysh_am_kind(served->word) == PYSH_AM_GET;
    size_t block = pysh_am_block(served->word);
    char *place = place_at(served, pysh.pe);

    served->data = data;
    if (!arena->cpu_visible)
        return gets ? pysh_am_from_gpu(&served->copy, pe, data, place, block, &served->data)
                    : pysh_am_to_gpu(&served->copy, place, data, block);
    for (size_t i = 0; i < pysh_am_blocks(served->word);
         i++, data += block, place += (int64_t)served->word[PYSH_AM_STRIDE])
        memcpy(gets ? data : place, gets ? place : data, block);
    return ISHMEMX_OK;
}

/* A word is stored as one: a kernel or the host may be waiting for it. Only where the CPU reaches the heap. */
static void copy_word(pysh_am_served_t *served, char *place) {
    size_t nbytes = pysh_am_block(served->word);

    if (pysh_am_kind(served->word) == PYSH_AM_GET) {
        memcpy(&served->word[PYSH_AM_DATA], place, nbytes);
        return;
    }
    if (nbytes == 8 && (uintptr_t)place % 8 == 0)
        __atomic_store_n((uint64_t *)(void *)place, served->word[PYSH_AM_DATA], __ATOMIC_RELEASE);
    else if (nbytes == 4 && (uintptr_t)place % 4 == 0)
        __atomic_store_n((uint32_t *)(void *)place, (uint32_t)served->word[PYSH_AM_DATA], __ATOMIC_RELEASE);
    else
        memcpy(place, &served->word[PYSH_AM_DATA], nbytes);
}

/* The first PE from `pe` on that a put spreads to; -1: there is none. */
static int next_of(const pysh_am_served_t *served, int pe) {
    for (; pe < pysh_near_end(); pe++)
        if (pysh_am_names(served->word, pe))
            return pe;
    return -1;
}

static void spread_by_cpu(pysh_am_served_t *served, const char *data) {
    for (int pe = pysh_near_begin(); (pe = next_of(served, pe)) >= 0; pe++) {
        if (inside(served))
            copy_word(served, place_at(served, pe));
        else
            memcpy(place_at(served, pe), data, pysh_am_block(served->word));
        pysh_wake(pe);
    }
}

/* Those that have ended make room for others; what one failed of is what the message fails of. */
static void end_copies(pysh_am_served_t *served) {
    for (int i = 0; i < served->n_copies;) {
        bool done = false;
        int status = pysh_engine_look(served->token[i], &done);
        if (status && !served->status)
            served->status = status;
        if (status || done)
            served->token[i] = served->token[--served->n_copies];
        else
            i++;
    }
}

/* Several copies at a time, all of the same data. FULL until all have ended. */
static int spread_to_gpus(pysh_am_served_t *served, const char *data) {
    int status = pysh_am_begin_to_gpu(&served->copy, place_at(served, pysh.pe), &data, pysh_am_block(served->word)), pe;

    if (status)
        return status;
    end_copies(served);
    while (!served->status && served->n_copies < PYSH_AM_COPIES && (pe = next_of(served, served->next)) >= 0) {
        status = pysh_engine_copy(pe, place_at(served, pe), data, pysh_am_block(served->word), NULL, 0,
                                  PYSH_ENGINE_CALLER, &served->token[served->n_copies]);
        if (status == PYSH_ENGINE_FULL)
            return status;
        if (status) {
            served->status = status;
            break;
        }
        served->n_copies++;
        served->next = pe + 1;
    }
    return served->n_copies ? PYSH_ENGINE_FULL : served->status;
}

static int step_spread(pysh_am_served_t *served, const char *data) {
    if (!pysh.arena[pysh_am_heap(served->word)].cpu_visible)
        return spread_to_gpus(served, data);
    spread_by_cpu(served, data);
    return ISHMEMX_OK;
}

static int step_bytes(pysh_am_served_t *served, int pe, uint64_t number) {
    char *data = pysh_am.region + pysh_am_data_at(PYSH_AM_MESSAGES, pe, number);

    if (spreads(served))
        return step_spread(served, data);
    if (!inside(served))
        return serve_copy(served, pe, data);
    copy_word(served, place_at(served, pysh.pe));
    return ISHMEMX_OK;
}

/* ---- atomic operations and signals ---- */

static int step_amo(pysh_am_served_t *served) {
    pysh_am_amo_t amo = pysh_am_amo_of(served->word);
    char *place = pysh.arena[amo.heap].base + amo.offset;
    int status = ISHMEMX_OK;
    bool done = false;

    if (pysh.arena[amo.heap].cpu_visible) {
        served->fetched = pysh_amo_apply(amo.op, amo.type, place, amo.value, amo.cond);
        return ISHMEMX_OK;
    }
    if (served->state != PYSH_SERVED_AMO)
        status = pysh.accel->amo_begin(amo.op, amo.type, place, amo.value, amo.cond, &served->amo_slot);
    if (status)
        return status; /* FULL: it has not begun */
    served->state = PYSH_SERVED_AMO;
    status = pysh.accel->amo_poll(served->amo_slot, &done, &served->fetched);
    return status || done ? status : PYSH_ENGINE_FULL;
}

/* ---- a message ---- */

static void serve_answer(pysh_am_served_t *served, int pe, uint64_t number) {
    uint64_t word[PYSH_MESSAGE_WORDS] = {0};

    if (!served->status && pysh_am_kind(served->word) == PYSH_AM_GET) {
        size_t nbytes = pysh_am_block(served->word) * pysh_am_blocks(served->word);
        if (!inside(served))
            pysh_am_post_data(pe, pysh_am_data_at(PYSH_AM_ANSWERS, pysh.pe, number), served->data, nbytes);
        pysh_am_count(&pysh_am.sent_bytes, (int64_t)nbytes);
    }
    pysh_am_copy_end(&served->copy);
    word[PYSH_AM_STATUS] = (uint64_t)(unsigned)served->status | (uint64_t)served->wrong << 32;
    word[PYSH_AM_FETCHED] = served->fetched;
    word[PYSH_AM_DATA] = served->word[PYSH_AM_DATA];
    pysh_words_pack(word, pysh_phase(number, PYSH_AM_LOG2_SLOTS), &served->slot);
    pysh_am_post_slot(pe, pysh_am_slot_at(PYSH_AM_ANSWERS, pysh.pe, number), &served->slot);
    served->state = PYSH_SERVED_DONE;
}

/* `first`: all that the same PE sent before has been done. OK: it can be answered; PYSH_ENGINE_FULL: not yet. */
static int serve_step(pysh_am_served_t *served, int pe, uint64_t number, bool first) {
    int kind = pysh_am_kind(served->word), status;

    if (served->state == PYSH_SERVED_WRONG)
        return ISHMEMX_ERR_ARGUMENT;
    if (!kind)
        return ISHMEMX_OK;
    if (kind == PYSH_AM_AMO)
        return first ? step_amo(served) : PYSH_ENGINE_FULL;
    if (served->state == PYSH_SERVED_NEW) {
        status = step_bytes(served, pe, number);
        if (status)
            return status;
        served->state = PYSH_SERVED_COPIED;
        if (kind == PYSH_AM_PUT) /* its signal may wait for messages before it that wait for a piece */
            pysh_am_copy_end(&served->copy);
    }
    if (!(served->word[PYSH_AM_HEAD] & PYSH_AM_SIGNALS))
        return ISHMEMX_OK;
    return first ? step_amo(served) : PYSH_ENGINE_FULL;
}

bool pysh_am_serve(pysh_am_channel_t *channel, int pe) {
    bool moved = false, first = true;
    uint64_t number = channel->received;

    while (number < channel->finished + PYSH_AM_SLOTS) {
        pysh_am_served_t *served = &channel->served[number % PYSH_AM_SLOTS];
        if (!pysh_am_look(pysh_am_slot_at(PYSH_AM_MESSAGES, pe, number), number, served->word))
            break;
        served->wrong = pysh_am_wrong(served->word);
        served->state = served->wrong ? PYSH_SERVED_WRONG : PYSH_SERVED_NEW;
        served->status = ISHMEMX_OK;
        served->fetched = 0;
        served->copy = (pysh_am_copy_t){.piece = NULL};
        served->n_copies = 0;
        served->next = pysh_near_begin();
        channel->received = ++number;
    }
    for (number = channel->finished; number < channel->received; number++) {
        pysh_am_served_t *served = &channel->served[number % PYSH_AM_SLOTS];
        int status;
        if (served->state == PYSH_SERVED_DONE)
            continue;
        status = serve_step(served, pe, number, first);
        if (status == PYSH_ENGINE_FULL) {
            first = false;
            continue;
        }
        served->status = status;
        serve_answer(served, pe, number);
        moved = true;
    }
    while (channel->finished < channel->received &&
           channel->served[channel->finished % PYSH_AM_SLOTS].state == PYSH_SERVED_DONE)
        channel->finished++;
    if (moved)
        pysh_wake(pysh.pe); /* a thread of the host may sleep until a word changes */
    return moved;
}
