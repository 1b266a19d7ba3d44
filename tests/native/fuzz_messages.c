/* SPDX-License-Identifier: BSD-3-Clause
 * Wrong messages of PE 0's to the owner of memory out of reach, among right ones: those of host calls and kernels,
 * changed on their way out. Each is answered; a wrong one with a status and words that name the PE, and nothing of it
 * has been done. Arguments: how many, and a seed. Link with --wrap=pysh_am_post_slot. */
#include "am/channel.h"
#include "base/phased.h"
#include "fuzz.h"

static _Atomic bool armed, was_wrong; /* the next message is to be changed; and has been */

/* ---- what is right, by sums in 128 bits ---- */

static bool stretch(uint64_t heap, wide_t offset, wide_t nbytes) {
    return heap < PYSH_ARENA_COUNT && pysh.arena[heap].base && offset < (wide_t)pysh.arena[heap].nbytes &&
           offset + nbytes <= (wide_t)pysh.arena[heap].nbytes && !is_kept((int)heap, offset, nbytes);
}

static bool amo_is_right(uint64_t op, uint64_t type, uint64_t heap, uint64_t offset) {
    return type < ISHMEMX_TYPE_COUNT && pysh_amo_takes((int)op, (int)type) &&
           offset % pysh_type_nbytes((int)type) == 0 && stretch(heap, offset, pysh_type_nbytes((int)type));
}

static bool blocks_are_right(const uint64_t *word, bool one) {
    wide_t block = word[PYSH_AM_SIZE] & UINT32_MAX, n = word[PYSH_AM_SIZE] >> 32;
    uint64_t heap = word[PYSH_AM_HEAD] >> 8 & 15;

    if (!block || !n || block * n > pysh_am.data_nbytes || (one && n > 1))
        return false;
    if (word[PYSH_AM_HEAD] & PYSH_AM_INSIDE && (n > 1 || block > PYSH_AM_SMALL))
        return false;
    if (n > 1 && ((int64_t)word[PYSH_AM_STRIDE] < 0 || word[PYSH_AM_STRIDE] < block))
        return false;
    return stretch(heap, word[PYSH_AM_OFFSET], (n > 1 ? (n - 1) * word[PYSH_AM_STRIDE] : 0) + block);
}

static bool message_is_right(const uint64_t *word) {
    uint64_t head = word[PYSH_AM_HEAD], op = head >> 16 & 255, type = head >> 24 & 255;
    bool signals = head & PYSH_AM_SIGNALS, spreads = head & PYSH_AM_SPREADS, inside = head & PYSH_AM_INSIDE;

    switch (head & PYSH_AM_KINDS) {
    case 0:
        return true;
    case PYSH_AM_AMO:
        return !signals && !spreads && !inside && amo_is_right(op, type, head >> 8 & 15, word[PYSH_AM_OFFSET]);
    case PYSH_AM_GET:
        return !signals && !spreads && blocks_are_right(word, false);
    case PYSH_AM_PUT:
        if (spreads) /* with one PE a node, to the receiver alone */
            return !signals && blocks_are_right(word, true) &&
                   (word[PYSH_AM_PLACES] & ~(1ULL << pysh_near_place(1))) == 0 && word[PYSH_AM_PLACES + 1] == 0;
        if (signals)
            return blocks_are_right(word, true) && type == ISHMEMX_TYPE_UINT64 &&
                   (op == ISHMEMX_ATOMIC_SET || op == ISHMEMX_ATOMIC_ADD) &&
                   amo_is_right(op, type, head >> 12 & 15, word[PYSH_AM_SIGNAL_OFFSET]);
        return blocks_are_right(word, false);
    default:
        return false;
    }
}

/* ---- on the way out ---- */

static void change(uint64_t *word) {
    uint64_t random = below(16) == 0;

    for (uint64_t n = random ? PYSH_MESSAGE_WORDS : 1 + below(2); n; n--) {
        uint64_t which = random ? n - 1 : below(PYSH_AM_STRIDE + 1), low = below(2);
        if (which == PYSH_AM_HEAD)
            word[which] ^= random ? draw() : 1ULL << below(32);
        else if (which == PYSH_AM_SIZE && !random)
            word[which] = low ? (word[which] & ~(uint64_t)UINT32_MAX) | (uint32_t)edge(word[which] & UINT32_MAX)
                              : (word[which] & UINT32_MAX) | edge(word[which] >> 32) << 32;
        else
            word[which] = below(2) ? edge(word[which]) : (uint64_t)pysh.arena[below(2)].nbytes - below(4096);
    }
}

void __real_pysh_am_post_slot(int pe, int64_t at, const pysh_slot_t *slot);
void __wrap_pysh_am_post_slot(int pe, int64_t at, const pysh_slot_t *slot);

void __wrap_pysh_am_post_slot(int pe, int64_t at, const pysh_slot_t *slot) {
    uint64_t word[PYSH_MESSAGE_WORDS], phase = slot->word[0] >> 56;
    pysh_slot_t other;

    if (at < pysh_am_slot_at(PYSH_AM_ANSWERS, 0, 0) && atomic_exchange(&armed, false)) {
        CHECK(pysh_words_unpack(slot, phase, word) && message_is_right(word));
        change(word);
        if (!message_is_right(word)) {
            pysh_words_pack(word, phase, &other);
            slot = &other;
            atomic_store(&was_wrong, true);
        }
    }
    __real_pysh_am_post_slot(pe, at, slot);
}

/* ---- calls ---- */

static int put_or_get(bool puts) {
    size_t nbytes = 1 + (below(2) ? below(8) : below(REGION_BYTES - 64)), to = below(REGION_BYTES - nbytes);
    region_t *near = &here[below(HERE_COUNT)];
    size_t from = below(REGION_BYTES - nbytes);
    char *far = there[THERE_DEVICE].base + to;
    int status = puts ? ishmemx_put(&ishmemx_ctx_default, far, near->base + from, nbytes, 1)
                      : ishmemx_get(&ishmemx_ctx_default, near->base + from, far, nbytes, 1);

    if (!status && puts)
        memcpy(there[THERE_DEVICE].model + to, near->model + from, nbytes);
    else if (!status)
        memcpy(near->model + from, there[THERE_DEVICE].model + to, nbytes);
    return status;
}

static int strided(bool puts) {
    enum { WIDTH = 4, N = 20 };
    ptrdiff_t dest = 2 + (ptrdiff_t)below(8), source = 2 + (ptrdiff_t)below(8);
    region_t *near = &here[below(HERE_COUNT)], *far = &there[THERE_DEVICE];
    int status = puts ? ishmemx_iput(&ishmemx_ctx_default, far->base, near->base, dest, source, 2, N, WIDTH, 1)
                      : ishmemx_iget(&ishmemx_ctx_default, near->base, far->base, dest, source, 2, N, WIDTH, 1);

    for (int i = 0; !status && i < N; i++)
        memcpy((puts ? far : near)->model + i * dest * WIDTH, (puts ? near : far)->model + i * source * WIDTH,
               2 * WIDTH);
    return status;
}

static int atomic(void) {
    size_t at = below(REGION_BYTES / 8) * 8;
    uint64_t value = draw(), cond = draw(), seen = 0, old;
    int op = (int)below(ISHMEMX_ATOMIC_COUNT);
    int status = ishmemx_atomic(&ishmemx_ctx_default, op, ISHMEMX_TYPE_UINT64, there[THERE_DEVICE].base + at, value,
                                cond, 1, &seen);

    if (!status) {
        old = model_amo(there[THERE_DEVICE].model + at, op, 8, value, cond);
        CHECK(seen == old);
    }
    return status;
}

/* A kernel's, for a put and its signal in one message are asked for by kernels alone. */
static int put_signal(void) {
    pysh_request_t request = request_of(PYSH_OP_PUT_SIGNAL, 0, PYSH_REQUEST_REPLY, 1, ISHMEMX_SIGNAL_ADD);
    size_t nbytes = 1 + below(500), to = below(1000), from = below(1000), signal = 1536 + below(64) * 8;
    uint64_t more = draw(), ticket;
    int status;

    request.word[PYSH_WORD_DEST] = (uintptr_t)there[THERE_DEVICE].base + to;
    request.word[PYSH_WORD_SOURCE] = (uintptr_t)here[HERE_PRIVATE].base + from;
    request.word[PYSH_WORD_VALUE] = nbytes;
    request.word[PYSH_WORD_EXTRA] = (uintptr_t)there[THERE_DEVICE].base + signal;
    request.word[PYSH_WORD_EXTRA2] = more;
    ticket = send_request(&request);
    await_reply(ticket, false, &status);
    if (!status) {
        memcpy(there[THERE_DEVICE].model + to, here[HERE_PRIVATE].model + from, nbytes);
        model_amo(there[THERE_DEVICE].model + signal, ISHMEMX_ATOMIC_ADD, 8, more, 0);
    }
    return status;
}

/* True: its message was wrong. */
static bool call(void) {
    uint64_t kind = below(6);
    bool asked_by_kernel = kind == 5;
    char why[512];
    int status;

    atomic_store(&was_wrong, false);
    atomic_store(&armed, below(4) != 0);
    status = kind < 2 ? put_or_get(kind == 0) : kind < 4 ? strided(kind == 2) : kind == 4 ? atomic() : put_signal();
    if (asked_by_kernel && status)
        MUST(ishmemx_proxy_error(why, sizeof why));
    else
        snprintf(why, sizeof why, "%s", ishmemx_error());
    CHECK(!atomic_load(&armed));
    if (atomic_load(&was_wrong) ? status != ISHMEMX_ERR_ARGUMENT || !strstr(why, "PE 1 refused") : status != ISHMEMX_OK)
        fail("kind %d, %s: status %d, %s", (int)kind, atomic_load(&was_wrong) ? "wrong" : "right", status, why);
    return atomic_load(&was_wrong);
}

int main(int argc, char **argv) {
    uint64_t n, wrong = 0, right = 0;

    begin(argc, argv, &n);
    while (!pysh.pe && wrong < n) {
        bool was = call();
        wrong += was;
        right += !was;
        if (!was && right % 256 == 0)
            regions_check("messages");
    }
    if (!pysh.pe) {
        regions_check("at the end");
        CHECK(right > n / 10);
    }
    return end(wrong, right);
}
