/* SPDX-License-Identifier: BSD-3-Clause
 * The sender's end of a channel: operations become messages, answers complete them. */
#include <string.h>

#include "accel/accel.h"
#include "am/channel.h"
#include "base/clock.h"
#include "base/state.h"

static pysh_am_sent_t *sent_of(pysh_am_channel_t *channel, uint64_t number) {
    return &channel->sent[number % PYSH_AM_SLOTS];
}

static char *staging(int pe, uint64_t number) {
    return pysh_am.region + pysh_am_data_at(PYSH_AM_ANSWERS, pe, number);
}

static bool inside(const pysh_am_sent_t *sent) {
    return sent->word[PYSH_AM_HEAD] & PYSH_AM_INSIDE;
}

/* ---- from an operation to its next message ---- */

static bool all_by_cpu(const pysh_am_op_t *op) {
    return !op->local_gpu && (op->heap == ISHMEMX_HEAP_HOST || pysh.accel->cpu_visible);
}

/* Blocks that fit are sent together where the CPU does all of it, a block in parts where it is larger. */
static void take_part(pysh_am_op_t *op, pysh_am_sent_t *sent, int64_t *remote_offset_p) {
    size_t left = op->block - op->sent_inside, room = pysh_am.data_nbytes;
    size_t fit = all_by_cpu(op) ? room / op->block : 1;

    *remote_offset_p = op->offset + (int64_t)op->sent_blocks * op->remote_stride + (int64_t)op->sent_inside;
    sent->local = op->local + (int64_t)op->sent_blocks * op->local_stride + (int64_t)op->sent_inside;
    sent->stride = op->local_stride;
    sent->n_blocks = 1;
    sent->block = left < room ? left : room;
    if (!op->sent_inside && fit > 1 && sent->block == op->block)
        sent->n_blocks = op->n_blocks - op->sent_blocks < fit ? op->n_blocks - op->sent_blocks : fit;
    op->sent_inside += sent->block;
    if (op->sent_inside == op->block) {
        op->sent_inside = 0;
        op->sent_blocks += sent->n_blocks;
    }
    op->all_sent = op->sent_blocks == op->n_blocks;
}

static void send_describe(const pysh_am_op_t *op, pysh_am_sent_t *sent, int64_t remote_offset) {
    uint64_t *word = sent->word, amo = (uint64_t)op->amo << 16 | (uint64_t)op->type << 24;
    bool signals = op->signals && op->all_sent;

    memset(word, 0, sizeof sent->word);
    word[PYSH_AM_HEAD] = (uint64_t)op->kind | (uint64_t)op->heap << 8;
    if (op->kind != PYSH_AM_AMO && all_by_cpu(op) && sent->n_blocks == 1 && sent->block <= PYSH_AM_SMALL)
        word[PYSH_AM_HEAD] |= PYSH_AM_INSIDE;
    word[PYSH_AM_SIZE] = sent->block | (uint64_t)sent->n_blocks << 32;
    word[PYSH_AM_OFFSET] = (uint64_t)remote_offset;
    word[PYSH_AM_STRIDE] = (uint64_t)op->remote_stride;
    if (signals || op->kind == PYSH_AM_AMO) {
        word[PYSH_AM_HEAD] |= amo;
        word[PYSH_AM_VALUE] = op->value;
        word[PYSH_AM_COND] = op->cond;
    }
    if (op->spreads) {
        word[PYSH_AM_HEAD] |= PYSH_AM_SPREADS;
        memcpy(&word[PYSH_AM_PLACES], op->places, sizeof op->places);
    }
    if (signals) {
        word[PYSH_AM_HEAD] |= PYSH_AM_SIGNALS | (uint64_t)op->signal_heap << 12;
        word[PYSH_AM_SIGNAL_OFFSET] = (uint64_t)op->signal_offset;
    }
}

static void send_take(pysh_am_channel_t *channel, pysh_am_op_t *op) {
    pysh_am_sent_t *sent = sent_of(channel, channel->next++);
    int64_t remote_offset = op->offset;

    *sent = (pysh_am_sent_t){.op = op, .kind = op->kind, .gpu = op->local_gpu, .state = PYSH_SENT_READY};
    if (op->kind == PYSH_AM_AMO)
        op->all_sent = true;
    else
        take_part(op, sent, &remote_offset);
    send_describe(op, sent, remote_offset);
    if (op->kind == PYSH_AM_PUT && !op->local_gpu && sent->n_blocks == 1 && sent->block <= PYSH_AM_SMALL)
        /* Copied also where it does not travel inside the message: it may be a variable of a caller who gives up. */
        sent->local = memcpy(&sent->word[PYSH_AM_DATA], sent->local, sent->block);
    else if (op->kind == PYSH_AM_PUT && (op->local_gpu || sent->n_blocks > 1))
        sent->state = PYSH_SENT_FILLING;
    op->under_way++;
}

/* ---- from here to there ---- */

/* Into the staging memory: what a GPU has, or blocks, side by side. PYSH_ENGINE_FULL: not yet. */
static int send_fill(pysh_am_sent_t *sent, int pe, char *place, const char **data_p) {
    if (sent->gpu)
        return pysh_am_from_gpu(&sent->copy, pe, place, sent->local, sent->block, data_p);
    for (size_t i = 0; i < sent->n_blocks; i++)
        memcpy(place + i * sent->block, sent->local + (int64_t)i * sent->stride, sent->block);
    *data_p = place;
    return ISHMEMX_OK;
}

/* A message that was given up counts until its copy has ended, for until then the memory on this side is in use. */
static bool concerns(const pysh_am_sent_t *sent) {
    return sent->op || sent->copy.started;
}

static void conclude(pysh_am_sent_t *sent, int status) {
    pysh_am_op_t *op = sent->op;

    sent->state = PYSH_SENT_FREE;
    sent->op = NULL;
    if (!op)
        return;
    if (status && !op->status) {
        op->status = status;
        op->wrong = sent->wrong;
    }
    if (--op->under_way || !op->all_sent)
        return;
    atomic_fetch_sub(&pysh_am.under_way, 1);
    /* release: pairs with pysh_am_done(); who sees it may free the operation */
    atomic_store_explicit(&op->done, true, memory_order_release);
}

/* In order; false: the first that is left is not ready. */
static bool send_next(pysh_am_channel_t *channel, int pe) {
    uint64_t number = channel->away;
    pysh_am_sent_t *sent = sent_of(channel, number);
    const char *data = sent->local;
    int status = ISHMEMX_OK;

    if (sent->state == PYSH_SENT_FILLING) {
        if (concerns(sent) && (status = send_fill(sent, pe, staging(pe, number), &data)) == PYSH_ENGINE_FULL)
            return false;
    }
    if (sent->kind == PYSH_AM_PUT && sent->op && !status) {
        size_t nbytes = sent->block * sent->n_blocks;
        if (!inside(sent))
            pysh_am_post_data(pe, pysh_am_data_at(PYSH_AM_MESSAGES, pysh.pe, number), data, nbytes);
        pysh_am_count(&pysh_am.sent_bytes, (int64_t)nbytes);
    }
    pysh_am_count(&pysh_am.messages, 1);
    pysh_am_copy_end(&sent->copy);
    if (status && sent->op)
        sent->op->status = status;
    if (status || !sent->op) /* the number has to be used up: a message that asks for nothing */
        sent->word[PYSH_AM_HEAD] = 0;
    pysh_words_pack(sent->word, pysh_phase(number, PYSH_AM_LOG2_SLOTS), &sent->slot);
    sent->state = PYSH_SENT_AWAY;
    channel->away++;
    pysh_am_post_slot(pe, pysh_am_slot_at(PYSH_AM_MESSAGES, pysh.pe, number), &sent->slot);
    if (channel->answered == number) /* the clock is read once the message is on its way */
        channel->since_ns = pysh_now_ns();
    return true;
}

/* ---- answers ---- */

/* What a get brought goes to its place. PYSH_ENGINE_FULL: not yet. */
static int send_drain(pysh_am_sent_t *sent, const char *data) {
    if (sent->gpu)
        return pysh_am_to_gpu(&sent->copy, sent->local, data, sent->block);
    for (size_t i = 0; i < sent->n_blocks; i++)
        memcpy(sent->local + (int64_t)i * sent->stride, data + i * sent->block, sent->block);
    return ISHMEMX_OK;
}

static bool take_answer(pysh_am_channel_t *channel, int pe, uint64_t number) {
    pysh_am_sent_t *sent = sent_of(channel, number);
    uint64_t word[PYSH_MESSAGE_WORDS];
    int status = ISHMEMX_OK;

    if (sent->state == PYSH_SENT_AWAY) {
        if (!pysh_am_look(pysh_am_slot_at(PYSH_AM_ANSWERS, pe, number), number, word))
            return false;
        sent->state = PYSH_SENT_DRAINING;
        sent->status = pysh_status_told((uint32_t)word[PYSH_AM_STATUS]);
        sent->wrong = (int)(word[PYSH_AM_STATUS] >> 32);
        sent->word[PYSH_AM_DATA] = word[PYSH_AM_DATA];
        if (sent->op && sent->kind == PYSH_AM_AMO)
            sent->op->fetched = word[PYSH_AM_FETCHED];
    }
    if (sent->state != PYSH_SENT_DRAINING)
        return false;
    status = sent->status;
    if (concerns(sent) && !status && sent->kind == PYSH_AM_GET) {
        const char *data = inside(sent) ? (const char *)&sent->word[PYSH_AM_DATA] : staging(pe, number);
        if ((status = send_drain(sent, data)) == PYSH_ENGINE_FULL)
            return false;
    }
    pysh_am_copy_end(&sent->copy); /* of one that was given up before its copy began, too */
    conclude(sent, status);
    return true;
}

bool pysh_am_send(pysh_am_channel_t *channel, int pe) {
    bool moved = false;

    for (uint64_t number = channel->answered; number < channel->away; number++)
        moved = take_answer(channel, pe, number) || moved;
    while (channel->answered < channel->away && sent_of(channel, channel->answered)->state == PYSH_SENT_FREE) {
        channel->answered++;
        channel->since_ns = pysh_now_ns();
    }
    for (;;) {
        while (channel->head && channel->next < channel->answered + PYSH_AM_SLOTS) {
            pysh_am_op_t *op = channel->head;
            send_take(channel, op);
            if (op->all_sent)
                channel->head = op->next;
        }
        if (channel->away == channel->next || !send_next(channel, pe))
            return moved;
        moved = true;
    }
}
