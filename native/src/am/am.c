/* SPDX-License-Identifier: BSD-3-Clause
 * Operations on memory out of reach: progress, and how the host waits for them. */
#include "am/am.h"

#include <stdio.h>

#include "accel/accel.h"
#include "accel/copy.h"
#include "am/channel.h"
#include "base/clock.h"
#include "base/elements.h"
#include "base/status.h"
#include "node/node.h"
#include "node/wait.h"

#define LOOK_EVERY 64 /* turns in which something moved */

pysh_am_t pysh_am = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- progress ---- */

bool pysh_am_progress(void) {
    bool moved = false;

    if (!pysh_am.channel || pthread_mutex_trylock(&pysh_am.mutex))
        return false;
    for (int pe = 0; pysh_am.channel && pe < pysh.n_pes; pe++) {
        pysh_am_channel_t *channel = &pysh_am.channel[pe];
        if (pe == pysh.pe || pysh.arena[ISHMEMX_HEAP_DEVICE].peer[pe])
            continue;
        if (channel->head || channel->answered < channel->next)
            moved = pysh_am_send(channel, pe) || moved;
        moved = pysh_am_serve(channel, pe) || moved;
    }
    pthread_mutex_unlock(&pysh_am.mutex);
    if (pysh_node.progress)
        pysh_node.progress();
    return moved;
}

bool pysh_am_busy(void) {
    return atomic_load_explicit(&pysh_am.under_way, memory_order_relaxed) > 0;
}

void pysh_am_figures(int64_t *messages_p, int64_t *bytes_p) {
    *messages_p = __atomic_load_n(&pysh_am.messages, __ATOMIC_RELAXED);
    *bytes_p = __atomic_load_n(&pysh_am.sent_bytes, __ATOMIC_RELAXED);
}

void pysh_am_start(pysh_am_op_t *op) {
    pysh_am_channel_t *channel = &pysh_am.channel[op->pe];

    op->next = NULL;
    op->sent_blocks = op->sent_inside = op->under_way = 0;
    op->all_sent = false;
    atomic_store_explicit(&op->done, false, memory_order_relaxed);
    atomic_fetch_add(&pysh_am.under_way, 1);
    pthread_mutex_lock(&pysh_am.mutex);
    if (channel->head)
        channel->tail->next = op;
    else
        channel->head = op;
    channel->tail = op;
    pysh_am_send(channel, op->pe);
    pthread_mutex_unlock(&pysh_am.mutex);
}

void pysh_am_describe(char *text, size_t capacity) {
    int64_t now = pysh_now_ns();
    size_t used = 0;

    text[0] = 0;
    if (!pysh_am.channel || pthread_mutex_trylock(&pysh_am.mutex))
        return;
    for (int pe = 0; pe < pysh.n_pes && used < capacity; pe++) {
        const pysh_am_channel_t *channel = &pysh_am.channel[pe];
        if (channel->answered < channel->away)
            used +=
                (size_t)snprintf(text + used, capacity - used, "; PE %d has not answered %d messages for %.1f s", pe,
                                 (int)(channel->away - channel->answered), (double)(now - channel->since_ns) / 1e9);
    }
    pthread_mutex_unlock(&pysh_am.mutex);
}

/* ---- the host's operations ---- */

/* A wait that was given up: the operation's memory goes, its messages under way are nobody's. What `local` points to
 * may be in use for a while: the transport reads what it was given, and a copy to or from a GPU that has begun ends. */
static void abandon(pysh_am_op_t *op) {
    pysh_am_channel_t *channel = &pysh_am.channel[op->pe];
    pysh_am_op_t **at, *before = NULL;

    pthread_mutex_lock(&pysh_am.mutex);
    for (at = &channel->head; *at && *at != op; at = &(*at)->next)
        before = *at;
    if (*at) {
        *at = op->next;
        if (channel->tail == op)
            channel->tail = before;
    }
    for (int i = 0; i < PYSH_AM_SLOTS; i++)
        if (channel->sent[i].op == op)
            channel->sent[i].op = NULL;
    if (!pysh_am_done(op))
        atomic_fetch_sub(&pysh_am.under_way, 1);
    pthread_mutex_unlock(&pysh_am.mutex);
}

int pysh_am_fail(const pysh_am_op_t *op, const char *what) {
    if (op->wrong)
        return pysh_fail(op->status,
                         "%s: PE %d refused what PE %d asked of its memory: %s (offset %lld, %zu x %zu bytes)", what,
                         op->pe, pysh.pe, pysh_wrong_text(op->wrong), (long long)op->offset,
                         op->kind == PYSH_AM_AMO ? (size_t)1 : op->n_blocks,
                         op->kind == PYSH_AM_AMO ? pysh_type_width(op->type) : op->block);
    return pysh_fail(
        op->status,
        "%s: PE %d could not do what PE %d asked of its memory, or the copy on this side failed (status %d)", what,
        op->pe, pysh.pe, op->status);
}

int pysh_am_wait(pysh_am_op_t *op, const char *what) {
    pysh_wait_t wait;
    int status = ISHMEMX_OK;

    pysh_am_start(op);
    pysh_wait_begin(&wait, what);
    for (unsigned moves = 0; !status && !pysh_am_done(op);)
        if (!pysh_am_progress())
            status = pysh_wait_pause(&wait);
        else if (++moves % LOOK_EVERY == 0) /* what has moved may be others': they must not keep this one for ever */
            status = pysh_wait_look(&wait);
    pysh_wait_end(&wait);
    if (status)
        abandon(op);
    return status ? status : op->status ? pysh_am_fail(op, what) : ISHMEMX_OK;
}

int pysh_am_put(int heap, int64_t offset, const void *source, size_t nbytes, int pe) {
    pysh_am_op_t op = {.kind = PYSH_AM_PUT,
                       .pe = pe,
                       .heap = heap,
                       .offset = offset,
                       .local = (char *)source,
                       .block = nbytes,
                       .n_blocks = 1,
                       .local_gpu = pysh_on_gpu(source)};

    return nbytes ? pysh_am_wait(&op, "put") : ISHMEMX_OK;
}

int pysh_am_get(int heap, void *dest, int64_t offset, size_t nbytes, int pe) {
    pysh_am_op_t op = {.kind = PYSH_AM_GET,
                       .pe = pe,
                       .heap = heap,
                       .offset = offset,
                       .local = dest,
                       .block = nbytes,
                       .n_blocks = 1,
                       .local_gpu = pysh_on_gpu(dest)};

    return nbytes ? pysh_am_wait(&op, "get") : ISHMEMX_OK;
}

int pysh_am_amo(int heap, int amo, int type, int64_t offset, uint64_t value, uint64_t cond, int pe,
                uint64_t *fetched_p) {
    pysh_am_op_t op = {.kind = PYSH_AM_AMO,
                       .pe = pe,
                       .heap = heap,
                       .offset = offset,
                       .amo = amo,
                       .type = type,
                       .value = value,
                       .cond = cond};
    int status = pysh_am_wait(&op, "atomic");

    if (!status && fetched_p)
        *fetched_p = op.fetched;
    return status;
}
