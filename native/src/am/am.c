/* SPDX-License-Identifier: BSD-3-Clause
 * Operations on memory out of reach: where messages lie, how they travel, and how the host waits for them. */
#include "am/am.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/copy.h"
#include "accel/engine/engine.h"
#include "am/channel.h"
#include "base/clock.h"
#include "base/elements.h"
#include "base/settings.h"
#include "base/status.h"
#include "node/conduit.h"
#include "node/wait.h"

#define MOST_DATA  ((int64_t)PYSH_ENGINE_PIECE) /* of a message */
#define LEAST_DATA 1024
#define LOOK_EVERY 64 /* turns in which something moved */

pysh_far_t pysh_far = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- the region: slots of the messages from each PE, of each PE's answers to ours; then the data of both ---- */

/* Of a message: what the setting leaves for each of all channels' slots, a power of two. */
static int64_t data_nbytes(int n_pes) {
    int64_t all, each = MOST_DATA;

    if (ishmemx_setting_number("STAGE_SIZE", &all))
        return 0;
    while (each > LEAST_DATA && each * 2 * PYSH_FAR_SLOTS * n_pes > all)
        each /= 2;
    return each;
}

static int64_t slots_nbytes(int n_pes) {
    return 2LL * n_pes * PYSH_FAR_SLOTS * (int64_t)sizeof(pysh_slot_t);
}

int64_t pysh_far_nbytes(int n_pes) {
    int64_t data = data_nbytes(n_pes);

    return data ? (slots_nbytes(n_pes) + 2LL * n_pes * PYSH_FAR_SLOTS * data + 4095) & -4096 : 0;
}

static int64_t index_of(int which, int pe, uint64_t number) {
    return ((int64_t)which * pysh.n_pes + pe) * PYSH_FAR_SLOTS + (int64_t)(number % PYSH_FAR_SLOTS);
}

int64_t pysh_far_slot_at(int which, int pe, uint64_t number) {
    return index_of(which, pe, number) * (int64_t)sizeof(pysh_slot_t);
}

int64_t pysh_far_data_at(int which, int pe, uint64_t number) {
    return slots_nbytes(pysh.n_pes) + index_of(which, pe, number) * (int64_t)pysh_far.data_nbytes;
}

int pysh_far_open(char *region) {
    pysh_far.data_nbytes = (size_t)data_nbytes(pysh.n_pes);
    pysh_far.channel = calloc((size_t)pysh.n_pes, sizeof *pysh_far.channel);
    if (!pysh_far.channel)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for channels to %d PEs", pysh.n_pes);
    pysh_far.region = region;
    atomic_store(&pysh_far.under_way, 0);
    pysh_far.messages = pysh_far.sent_bytes = 0;
    memset(region, 0, (size_t)slots_nbytes(pysh.n_pes)); /* an earlier job may have left messages there */
    return ISHMEMX_OK;
}

int pysh_far_agree(void) {
    int64_t mine = 1, *all = calloc((size_t)pysh.n_pes, sizeof mine);
    int status;

    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    for (int pe = 0; pe < pysh.n_pes; pe++)
        mine = mine && (!pysh_near(pe) || pysh.arena[ISHMEMX_HEAP_DEVICE].peer[pe]);
    status = pysh.conduit->exchange("init", &mine, all, sizeof mine);
    pysh_far.spreads = !status;
    for (int pe = 0; pe < pysh.n_pes; pe++)
        pysh_far.spreads = pysh_far.spreads && all[pe];
    free(all);
    return status;
}

bool pysh_far_spreads(void) {
    return pysh_far.spreads;
}

/* Messages that were given up: the conduit may still read them. */
static bool unanswered(void) {
    for (int pe = 0; pysh_far.channel && pe < pysh.n_pes; pe++)
        if (pysh_far.channel[pe].answered < pysh_far.channel[pe].away)
            return true;
    return false;
}

void pysh_far_close(void) {
    pthread_mutex_lock(&pysh_far.mutex);
    if (!unanswered())
        free(pysh_far.channel);
    pysh_far.channel = NULL;
    pthread_mutex_unlock(&pysh_far.mutex);
}

bool pysh_far_is_open(void) {
    return pysh_far.channel != NULL;
}

/* ---- how messages travel ---- */

/* Where the region of `pe` is mapped; NULL: the conduit takes messages there. */
static char *mapped(int pe, int64_t at) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_HOST];

    return arena->peer[pe] ? arena->peer[pe] + (pysh_far.region - arena->base) + at : NULL;
}

/* The same as an offset in the host arena, by which the conduit knows it. */
static int64_t in_arena(int64_t at) {
    return pysh_far.region - pysh.arena[ISHMEMX_HEAP_HOST].base + at;
}

void pysh_far_post_data(int pe, int64_t at, const void *data, size_t nbytes) {
    char *place = mapped(pe, at);

    if (place)
        memcpy(place, data, nbytes);
    else
        pysh.conduit->post(in_arena(at), data, nbytes, pe, false);
}

/* release: each word pairs with pysh_far_look(), and brings the data with it. The conduit keeps the order of what is
 * posted to one PE. */
void pysh_far_post_slot(int pe, int64_t at, const pysh_slot_t *slot) {
    uint64_t *place = (uint64_t *)(void *)mapped(pe, at);

    if (!place)
        pysh.conduit->post(in_arena(at), slot, sizeof *slot, pe, true);
    for (int i = 0; place && i < PYSH_SLOT_WORDS; i++)
        __atomic_store_n(&place[i], slot->word[i], __ATOMIC_RELEASE);
}

bool pysh_far_look(int64_t at, uint64_t number, uint64_t *word) {
    const uint64_t *place = (const uint64_t *)(const void *)(pysh_far.region + at);
    uint64_t phase = pysh_phase(number, PYSH_FAR_LOG2_SLOTS);
    pysh_slot_t copy;

    for (int i = 0; i < PYSH_SLOT_WORDS; i++) {
        copy.word[i] = __atomic_load_n(&place[i], __ATOMIC_ACQUIRE);
        if (copy.word[i] >> 56 != phase)
            return false;
    }
    return pysh_words_unpack(&copy, phase, word);
}

/* ---- copies with a GPU on one side ---- */

static int start_copy(pysh_far_copy_t *copy, void *dest, const void *source, size_t nbytes) {
    int status = pysh_engine_copy(pysh.pe, dest, source, nbytes, NULL, 0, PYSH_ENGINE_CALLER, &copy->token);

    copy->started = !status;
    return status;
}

static int await_copy(pysh_far_copy_t *copy) {
    bool done = false;
    int status = pysh_engine_look(copy->token, &done);

    if (!status && !done)
        return PYSH_ENGINE_FULL;
    copy->started = false;
    return status;
}

int pysh_far_from_gpu(pysh_far_copy_t *copy, int pe, char *place, const void *source, size_t nbytes,
                      const char **data_p) {
    int status;

    if (!copy->started) {
        if (!copy->piece && pysh_engine_reaches(source, nbytes) && !(copy->piece = pysh_engine_piece()))
            return PYSH_ENGINE_FULL;
        if ((status = start_copy(copy, copy->piece ? copy->piece : place, source, nbytes)))
            return status;
    }
    status = await_copy(copy);
    *data_p = copy->piece && !status && mapped(pe, 0) ? copy->piece : place;
    if (copy->piece && !status && *data_p == place) /* the conduit takes it from where it stays */
        memcpy(place, copy->piece, nbytes);
    return status;
}

int pysh_far_begin_to_gpu(pysh_far_copy_t *copy, const void *dest, const char **data_p, size_t nbytes) {
    if (!copy->piece && pysh_engine_reaches(dest, nbytes)) {
        if (!(copy->piece = pysh_engine_piece()))
            return PYSH_ENGINE_FULL;
        memcpy(copy->piece, *data_p, nbytes);
    }
    if (copy->piece)
        *data_p = copy->piece;
    return ISHMEMX_OK;
}

int pysh_far_to_gpu(pysh_far_copy_t *copy, void *dest, const char *data, size_t nbytes) {
    int status;

    if (!copy->started && ((status = pysh_far_begin_to_gpu(copy, dest, &data, nbytes)) ||
                           (status = start_copy(copy, dest, data, nbytes))))
        return status;
    return await_copy(copy);
}

void pysh_far_copy_end(pysh_far_copy_t *copy) {
    if (copy->piece)
        pysh_engine_piece_back(copy->piece);
    *copy = (pysh_far_copy_t){.piece = NULL};
}

/* ---- progress ---- */

bool pysh_far_progress(void) {
    bool moved = false;

    if (!pysh_far.channel || pthread_mutex_trylock(&pysh_far.mutex))
        return false;
    for (int pe = 0; pysh_far.channel && pe < pysh.n_pes; pe++) {
        pysh_far_channel_t *channel = &pysh_far.channel[pe];
        if (pe == pysh.pe || pysh.arena[ISHMEMX_HEAP_DEVICE].peer[pe])
            continue;
        if (channel->head || channel->answered < channel->next)
            moved = pysh_far_send(channel, pe) || moved;
        moved = pysh_far_serve(channel, pe) || moved;
    }
    pthread_mutex_unlock(&pysh_far.mutex);
    if (pysh.conduit->progress)
        pysh.conduit->progress();
    return moved;
}

bool pysh_far_busy(void) {
    return atomic_load_explicit(&pysh_far.under_way, memory_order_relaxed) > 0;
}

void pysh_far_figures(int64_t *messages_p, int64_t *bytes_p) {
    *messages_p = __atomic_load_n(&pysh_far.messages, __ATOMIC_RELAXED);
    *bytes_p = __atomic_load_n(&pysh_far.sent_bytes, __ATOMIC_RELAXED);
}

void pysh_far_start(pysh_far_op_t *op) {
    pysh_far_channel_t *channel = &pysh_far.channel[op->pe];

    op->next = NULL;
    op->sent_blocks = op->sent_inside = op->under_way = 0;
    op->all_sent = false;
    atomic_store_explicit(&op->done, false, memory_order_relaxed);
    atomic_fetch_add(&pysh_far.under_way, 1);
    pthread_mutex_lock(&pysh_far.mutex);
    if (channel->head)
        channel->tail->next = op;
    else
        channel->head = op;
    channel->tail = op;
    pysh_far_send(channel, op->pe);
    pthread_mutex_unlock(&pysh_far.mutex);
}

void pysh_far_describe(char *text, size_t capacity) {
    int64_t now = pysh_now_ns();
    size_t used = 0;

    text[0] = 0;
    if (!pysh_far.channel || pthread_mutex_trylock(&pysh_far.mutex))
        return;
    for (int pe = 0; pe < pysh.n_pes && used < capacity; pe++) {
        const pysh_far_channel_t *channel = &pysh_far.channel[pe];
        if (channel->answered < channel->away)
            used +=
                (size_t)snprintf(text + used, capacity - used, "; PE %d has not answered %d messages for %.1f s", pe,
                                 (int)(channel->away - channel->answered), (double)(now - channel->since_ns) / 1e9);
    }
    pthread_mutex_unlock(&pysh_far.mutex);
}

/* ---- the host's operations ---- */

/* A wait that was given up: the operation's memory goes, its messages under way are nobody's. What `local` points to
 * may be in use for a while: the conduit reads what it was given, and a copy to or from a GPU that has begun ends. */
static void abandon(pysh_far_op_t *op) {
    pysh_far_channel_t *channel = &pysh_far.channel[op->pe];
    pysh_far_op_t **at, *before = NULL;

    pthread_mutex_lock(&pysh_far.mutex);
    for (at = &channel->head; *at && *at != op; at = &(*at)->next)
        before = *at;
    if (*at) {
        *at = op->next;
        if (channel->tail == op)
            channel->tail = before;
    }
    for (int i = 0; i < PYSH_FAR_SLOTS; i++)
        if (channel->sent[i].op == op)
            channel->sent[i].op = NULL;
    if (!pysh_far_done(op))
        atomic_fetch_sub(&pysh_far.under_way, 1);
    pthread_mutex_unlock(&pysh_far.mutex);
}

int pysh_far_fail(const pysh_far_op_t *op, const char *what) {
    if (op->wrong)
        return pysh_fail(op->status,
                         "%s: PE %d refused what PE %d asked of its memory: %s (offset %lld, %zu x %zu bytes)", what,
                         op->pe, pysh.pe, pysh_wrong_text(op->wrong), (long long)op->offset,
                         op->kind == PYSH_FAR_AMO ? (size_t)1 : op->n_blocks,
                         op->kind == PYSH_FAR_AMO ? pysh_type_width(op->type) : op->block);
    return pysh_fail(
        op->status,
        "%s: PE %d could not do what PE %d asked of its memory, or the copy on this side failed (status %d)", what,
        op->pe, pysh.pe, op->status);
}

int pysh_far_wait(pysh_far_op_t *op, const char *what) {
    pysh_wait_t wait;
    int status = ISHMEMX_OK;

    pysh_far_start(op);
    pysh_wait_begin(&wait, what);
    for (unsigned moves = 0; !status && !pysh_far_done(op);)
        if (!pysh_far_progress())
            status = pysh_wait_pause(&wait);
        else if (++moves % LOOK_EVERY == 0) /* what has moved may be others': they must not keep this one for ever */
            status = pysh_wait_look(&wait);
    pysh_wait_end(&wait);
    if (status)
        abandon(op);
    return status ? status : op->status ? pysh_far_fail(op, what) : ISHMEMX_OK;
}

int pysh_far_put(int heap, int64_t offset, const void *source, size_t nbytes, int pe) {
    pysh_far_op_t op = {.kind = PYSH_FAR_PUT,
                        .pe = pe,
                        .heap = heap,
                        .offset = offset,
                        .local = (char *)source,
                        .block = nbytes,
                        .n_blocks = 1,
                        .local_gpu = pysh_on_gpu(source)};

    return nbytes ? pysh_far_wait(&op, "put") : ISHMEMX_OK;
}

int pysh_far_get(int heap, void *dest, int64_t offset, size_t nbytes, int pe) {
    pysh_far_op_t op = {.kind = PYSH_FAR_GET,
                        .pe = pe,
                        .heap = heap,
                        .offset = offset,
                        .local = dest,
                        .block = nbytes,
                        .n_blocks = 1,
                        .local_gpu = pysh_on_gpu(dest)};

    return nbytes ? pysh_far_wait(&op, "get") : ISHMEMX_OK;
}

int pysh_far_amo(int heap, int amo, int type, int64_t offset, uint64_t value, uint64_t cond, int pe,
                 uint64_t *fetched_p) {
    pysh_far_op_t op = {.kind = PYSH_FAR_AMO,
                        .pe = pe,
                        .heap = heap,
                        .offset = offset,
                        .amo = amo,
                        .type = type,
                        .value = value,
                        .cond = cond};
    int status = pysh_far_wait(&op, "atomic");

    if (!status && fetched_p)
        *fetched_p = op.fetched;
    return status;
}
