/* SPDX-License-Identifier: BSD-3-Clause
 * Where messages lie, and how they travel: by stores where the owner's host arena is mapped, else by the transport. */
#include <stdlib.h>
#include <string.h>

#include "accel/engine/engine.h"
#include "agree/agree.h"
#include "am/am.h"
#include "am/channel.h"
#include "base/settings.h"
#include "base/state.h"
#include "base/status.h"
#include "transport/transport.h"

#define MOST_DATA  ((int64_t)PYSH_ENGINE_PIECE) /* of a message */
#define LEAST_DATA 1024

/* ---- the region: slots of the messages from each PE, of each PE's answers to ours; then the data of both ---- */

/* Of a message: what the setting leaves for each of all channels' slots, a power of two. */
static int64_t data_nbytes(int n_pes) {
    int64_t all, each = MOST_DATA;

    if (ishmemx_setting_number("STAGE_SIZE", &all))
        return 0;
    while (each > LEAST_DATA && each * 2 * PYSH_AM_SLOTS * n_pes > all)
        each /= 2;
    return each;
}

static int64_t slots_nbytes(int n_pes) {
    return 2LL * n_pes * PYSH_AM_SLOTS * (int64_t)sizeof(pysh_slot_t);
}

int64_t pysh_am_nbytes(int n_pes) {
    int64_t data = data_nbytes(n_pes);

    return data ? (slots_nbytes(n_pes) + 2LL * n_pes * PYSH_AM_SLOTS * data + 4095) & -4096 : 0;
}

static int64_t index_of(int which, int pe, uint64_t number) {
    return ((int64_t)which * pysh.n_pes + pe) * PYSH_AM_SLOTS + (int64_t)(number % PYSH_AM_SLOTS);
}

int64_t pysh_am_slot_at(int which, int pe, uint64_t number) {
    return index_of(which, pe, number) * (int64_t)sizeof(pysh_slot_t);
}

int64_t pysh_am_data_at(int which, int pe, uint64_t number) {
    return slots_nbytes(pysh.n_pes) + index_of(which, pe, number) * (int64_t)pysh_am.data_nbytes;
}

int pysh_am_open(char *region) {
    pysh_am.data_nbytes = (size_t)data_nbytes(pysh.n_pes);
    pysh_am.channel = calloc((size_t)pysh.n_pes, sizeof *pysh_am.channel);
    if (!pysh_am.channel)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for channels to %d PEs", pysh.n_pes);
    pysh_am.region = region;
    atomic_store(&pysh_am.under_way, 0);
    pysh_am.messages = pysh_am.sent_bytes = 0;
    memset(region, 0, (size_t)slots_nbytes(pysh.n_pes)); /* an earlier job may have left messages there */
    return ISHMEMX_OK;
}

int pysh_am_agree(void) {
    int64_t mine = 1, *all = calloc((size_t)pysh.n_pes, sizeof mine);
    int status;

    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    for (int pe = 0; pe < pysh.n_pes; pe++)
        mine = mine && (!pysh_near(pe) || pysh.arena[ISHMEMX_HEAP_DEVICE].peer[pe]);
    status = pysh.agree->exchange("init", &mine, all, sizeof mine);
    pysh_am.spreads = !status;
    for (int pe = 0; pe < pysh.n_pes; pe++)
        pysh_am.spreads = pysh_am.spreads && all[pe];
    free(all);
    return status;
}

bool pysh_am_spreads(void) {
    return pysh_am.spreads;
}

/* Messages that were given up: the transport may still read them. */
static bool unanswered(void) {
    for (int pe = 0; pysh_am.channel && pe < pysh.n_pes; pe++)
        if (pysh_am.channel[pe].answered < pysh_am.channel[pe].away)
            return true;
    return false;
}

void pysh_am_close(void) {
    pthread_mutex_lock(&pysh_am.mutex);
    if (!unanswered())
        free(pysh_am.channel);
    pysh_am.channel = NULL;
    pthread_mutex_unlock(&pysh_am.mutex);
}

bool pysh_am_is_open(void) {
    return pysh_am.channel != NULL;
}

/* ---- how messages travel ---- */

char *pysh_am_mapped(int pe, int64_t at) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_HOST];

    return arena->peer[pe] ? arena->peer[pe] + (pysh_am.region - arena->base) + at : NULL;
}

/* The same as an offset in the host arena, by which the transport knows it. */
static int64_t in_arena(int64_t at) {
    return pysh_am.region - pysh.arena[ISHMEMX_HEAP_HOST].base + at;
}

void pysh_am_post_data(int pe, int64_t at, const void *data, size_t nbytes) {
    char *place = pysh_am_mapped(pe, at);

    if (place)
        memcpy(place, data, nbytes);
    else
        pysh.transport->post(in_arena(at), data, nbytes, pe, false);
}

/* release: each word pairs with pysh_am_look(), and brings the data with it. The transport keeps the order of what is
 * posted to one PE. */
void pysh_am_post_slot(int pe, int64_t at, const pysh_slot_t *slot) {
    uint64_t *place = (uint64_t *)(void *)pysh_am_mapped(pe, at);

    if (!place)
        pysh.transport->post(in_arena(at), slot, sizeof *slot, pe, true);
    for (int i = 0; place && i < PYSH_SLOT_WORDS; i++)
        __atomic_store_n(&place[i], slot->word[i], __ATOMIC_RELEASE);
}

bool pysh_am_look(int64_t at, uint64_t number, uint64_t *word) {
    const uint64_t *place = (const uint64_t *)(const void *)(pysh_am.region + at);
    uint64_t phase = pysh_phase(number, PYSH_AM_LOG2_SLOTS);
    pysh_slot_t copy;

    for (int i = 0; i < PYSH_SLOT_WORDS; i++) {
        copy.word[i] = __atomic_load_n(&place[i], __ATOMIC_ACQUIRE);
        if (copy.word[i] >> 56 != phase)
            return false;
    }
    return pysh_words_unpack(&copy, phase, word);
}
