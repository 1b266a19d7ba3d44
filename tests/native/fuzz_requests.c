/* SPDX-License-Identifier: BSD-3-Clause
 * Wrong requests of a kernel of PE 0's, among right ones: made from right ones by changing words, or random. Each is
 * answered; a wrong one with a status, and nothing of it has been done. Arguments: how many, and a seed. */
#include "fuzz.h"

enum { AHEAD = 64 }; /* wrong ones that wait for their replies at a time: they have no effects to be ordered */

enum verdict { RIGHT, WRONG, UNKNOWN }; /* UNKNOWN: right, and would change what the model does not know */

static struct {
    uint64_t ticket[AHEAD];
    pysh_request_t request[AHEAD];
    int n;
} away;

/* ---- what is right, by sums in 128 bits ---- */

typedef struct sides { /* of a request */
    uint64_t far, near;
    wide_t far_bytes, near_bytes;
    bool in_request; /* the near side is */
} sides_t;

static wide_t span(const pysh_request_t *request, int stride) {
    wide_t n = request->word[PYSH_WORD_VALUE], block = request->word[PYSH_WORD_PE] >> 32;
    wide_t elements = (n - 1) * request->word[stride] + block;

    return elements * (request->word[PYSH_WORD_KIND] >> 8 & 255);
}

static enum verdict near_side(uint64_t place, wide_t nbytes) {
    if (region_of(here, HERE_COUNT, place, nbytes))
        return RIGHT;
    if (place < 4096 || place + nbytes > (wide_t)1 << 57)
        return WRONG;
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++) {
        wide_t base = (uintptr_t)pysh.arena[heap].base, end = base + (wide_t)pysh.arena[heap].nbytes;
        bool inside = place >= base && place + nbytes <= end, apart = place + nbytes <= base || place >= end;
        if ((!inside && !apart) || (inside && is_kept(heap, place - base, nbytes)))
            return WRONG;
    }
    return UNKNOWN; /* anything of the process's, or nothing: who sends it has to know */
}

static enum verdict far_side(uint64_t place, wide_t nbytes) {
    if (!on_heap(place, nbytes))
        return WRONG;
    return region_of(there, THERE_COUNT, place, nbytes) ? RIGHT : UNKNOWN;
}

static enum verdict both(enum verdict one, enum verdict other) {
    return one == WRONG || other == WRONG ? WRONG : one == UNKNOWN || other == UNKNOWN ? UNKNOWN : RIGHT;
}

static enum verdict judge_blocks(const pysh_request_t *request, uint64_t far, uint64_t near, bool gets) {
    const uint64_t *word = request->word;
    int64_t dest = (int64_t)word[PYSH_WORD_EXTRA], source = (int64_t)word[PYSH_WORD_EXTRA2];
    int64_t block = (int64_t)(word[PYSH_WORD_PE] >> 32), width = (int64_t)(word[PYSH_WORD_KIND] >> 8 & 255);
    uint64_t n = word[PYSH_WORD_VALUE];

    if (width < 1 || width > 16)
        return WRONG;
    if (!block || !n)
        return RIGHT;
    if (dest < 1 || source < 1 || (n > 1 && (dest < block || source < block)))
        return WRONG;
    if ((wide_t)n * (wide_t)block > (wide_t)1 << 62)
        return WRONG; /* more than any heap; span() could wrap */
    return both(far_side(far, span(request, gets ? PYSH_WORD_EXTRA2 : PYSH_WORD_EXTRA)),
                near_side(near, span(request, gets ? PYSH_WORD_EXTRA : PYSH_WORD_EXTRA2)));
}

static enum verdict judge_signal(const pysh_request_t *request) {
    uint64_t place = request->word[PYSH_WORD_EXTRA], op = request->word[PYSH_WORD_PE] >> 32;

    if (place % 8 || (op != ISHMEMX_SIGNAL_SET && op != ISHMEMX_SIGNAL_ADD))
        return WRONG;
    return far_side(place, 8);
}

static enum verdict judge_amo(const pysh_request_t *request) {
    uint64_t place = request->word[PYSH_WORD_DEST], fetch = request->word[PYSH_WORD_SOURCE];
    int op = (int)(request->word[PYSH_WORD_PE] >> 32), type = (int)(request->word[PYSH_WORD_KIND] >> 8 & 255);
    bool real = type == ISHMEMX_TYPE_FLOAT || type == ISHMEMX_TYPE_DOUBLE;
    enum verdict verdict;

    if (!pysh_amo_takes(op, type) || place % pysh_type_nbytes(type))
        return WRONG;
    verdict = far_side(place, pysh_type_nbytes(type));
    if (fetch)
        verdict = both(verdict, near_side(fetch, pysh_type_nbytes(type)));
    return both(verdict, real ? UNKNOWN : RIGHT); /* the model adds integers */
}

static enum verdict judge(const pysh_request_t *request) {
    const uint64_t *word = request->word;
    int op = (int)(word[PYSH_WORD_KIND] & 255), width = (int)(word[PYSH_WORD_KIND] >> 8 & 255);
    int pe = (int)(uint32_t)word[PYSH_WORD_PE];
    uint64_t dest = word[PYSH_WORD_DEST], source = word[PYSH_WORD_SOURCE], nbytes = word[PYSH_WORD_VALUE];
    enum verdict verdict;

    if (op <= 0 || op >= PYSH_OP_COUNT)
        return WRONG;
    if (op == PYSH_OP_NULL || op == PYSH_OP_PRINT || op == PYSH_OP_ABORT || op == PYSH_OP_CALL ||
        op == PYSH_OP_WAITING || op == PYSH_OP_SPREAD)
        return UNKNOWN;
    if (pe < 0 || pe > 1)
        return WRONG;
    switch (op) {
    case PYSH_OP_PUT:
    case PYSH_OP_PUT_SIGNAL:
        verdict = nbytes ? both(far_side(dest, nbytes), near_side(source, nbytes)) : RIGHT;
        if (op == PYSH_OP_PUT_SIGNAL)
            verdict = both(verdict, judge_signal(request));
        break;
    case PYSH_OP_GET:
        verdict = nbytes ? both(far_side(source, nbytes), near_side(dest, nbytes)) : RIGHT;
        break;
    case PYSH_OP_IPUT:
        verdict = judge_blocks(request, dest, source, false);
        break;
    case PYSH_OP_IGET:
        verdict = judge_blocks(request, source, dest, true);
        break;
    case PYSH_OP_AMO:
        verdict = judge_amo(request);
        break;
    default: /* P, G */
        verdict = width < 1 || width > 8 ? WRONG : far_side(op == PYSH_OP_P ? dest : source, (wide_t)width);
    }
    return both(verdict, pe == 1 ? RIGHT : UNKNOWN);
}

/* ---- what right ones do ---- */

static void model_bytes(region_t *to, int n_to, uint64_t dest, region_t *from, int n_from, uint64_t source, size_t n) {
    region_t *d = region_of(to, n_to, dest, n), *s = region_of(from, n_from, source, n);

    if (n)
        memcpy(model_at(d, dest), model_at(s, source), n);
}

static void model_blocks(const pysh_request_t *request, bool gets) {
    const uint64_t *word = request->word;
    size_t width = word[PYSH_WORD_KIND] >> 8 & 255, block = word[PYSH_WORD_PE] >> 32;

    for (uint64_t i = 0; block && i < word[PYSH_WORD_VALUE]; i++) {
        uint64_t dest = word[PYSH_WORD_DEST] + i * word[PYSH_WORD_EXTRA] * width;
        uint64_t source = word[PYSH_WORD_SOURCE] + i * word[PYSH_WORD_EXTRA2] * width;
        if (gets)
            model_bytes(here, HERE_COUNT, dest, there, THERE_COUNT, source, block * width);
        else
            model_bytes(there, THERE_COUNT, dest, here, HERE_COUNT, source, block * width);
    }
}

/* The value that the reply has to bring, where it brings one. */
static uint64_t model(const pysh_request_t *request) {
    const uint64_t *word = request->word;
    int op = (int)(word[PYSH_WORD_KIND] & 255), type = (int)(word[PYSH_WORD_KIND] >> 8 & 255);
    int high = (int)(word[PYSH_WORD_PE] >> 32);
    uint64_t dest = word[PYSH_WORD_DEST], source = word[PYSH_WORD_SOURCE], value = word[PYSH_WORD_VALUE], old = 0;
    region_t *region;

    switch (op) {
    case PYSH_OP_PUT_SIGNAL:
    case PYSH_OP_PUT:
        model_bytes(there, THERE_COUNT, dest, here, HERE_COUNT, source, value);
        if (op == PYSH_OP_PUT)
            break;
        region = region_of(there, THERE_COUNT, word[PYSH_WORD_EXTRA], 8);
        model_amo(model_at(region, word[PYSH_WORD_EXTRA]),
                  high == ISHMEMX_SIGNAL_ADD ? ISHMEMX_ATOMIC_ADD : ISHMEMX_ATOMIC_SET, 8, word[PYSH_WORD_EXTRA2], 0);
        break;
    case PYSH_OP_GET:
        model_bytes(here, HERE_COUNT, dest, there, THERE_COUNT, source, value);
        break;
    case PYSH_OP_IPUT:
    case PYSH_OP_IGET:
        model_blocks(request, op == PYSH_OP_IGET);
        break;
    case PYSH_OP_P:
        memcpy(model_at(region_of(there, THERE_COUNT, dest, 1), dest), &value, (size_t)type);
        break;
    case PYSH_OP_G:
        memcpy(&old, model_at(region_of(there, THERE_COUNT, source, 1), source), (size_t)type);
        break;
    default:
        old = model_amo(model_at(region_of(there, THERE_COUNT, dest, 1), dest), high, pysh_type_nbytes(type), value,
                        word[PYSH_WORD_EXTRA]);
        if (source)
            memcpy(model_at(region_of(here, HERE_COUNT, source, 1), source), &old, pysh_type_nbytes(type));
    }
    return old;
}

/* ---- making them ---- */

static uint64_t place_in(const region_t *region, uint64_t nbytes, uint64_t align) {
    return (uintptr_t)region->base + below((REGION_BYTES - nbytes) / align + 1) * align;
}

static pysh_request_t right_one(void) {
    static const int ops[] = {PYSH_OP_PUT, PYSH_OP_GET, PYSH_OP_IPUT, PYSH_OP_IGET,
                              PYSH_OP_P,   PYSH_OP_G,   PYSH_OP_AMO,  PYSH_OP_PUT_SIGNAL};
    static const int types[] = {ISHMEMX_TYPE_UINT64, ISHMEMX_TYPE_INT32, ISHMEMX_TYPE_UINT32, ISHMEMX_TYPE_INT64};
    int op = ops[below(sizeof ops / sizeof *ops)], type = types[below(4)];
    const region_t *far = &there[below(THERE_COUNT)], *near = &here[below(HERE_COUNT)];
    bool gets = op == PYSH_OP_GET || op == PYSH_OP_IGET || op == PYSH_OP_G;
    uint64_t n = below(512), block = 1 + below(8), stride[2] = {block + below(4), block + below(4)};
    pysh_request_t request = request_of(op, 0, PYSH_REQUEST_REPLY, 1, 0);
    uint64_t *word = request.word, far_bytes = n, near_bytes = n, align = 1;

    if (op == PYSH_OP_IPUT || op == PYSH_OP_IGET) {
        uint64_t width = 1 + below(16), most = REGION_BYTES / width / (block + 4);
        n = below(most + 1);
        far_bytes = near_bytes = n * (block + 4) * width;
        word[PYSH_WORD_KIND] |= width << 8;
        word[PYSH_WORD_PE] |= block << 32;
        word[PYSH_WORD_EXTRA] = stride[0];
        word[PYSH_WORD_EXTRA2] = stride[1];
    } else if (op == PYSH_OP_P || op == PYSH_OP_G) {
        word[PYSH_WORD_KIND] |= (1 + below(8)) << 8;
        far_bytes = near_bytes = 8;
        n = draw();
    } else if (op == PYSH_OP_AMO) {
        word[PYSH_WORD_KIND] |= (uint64_t)type << 8;
        word[PYSH_WORD_PE] |= below(ISHMEMX_ATOMIC_COUNT) << 32;
        far_bytes = near_bytes = align = 8;
        n = draw();
        word[PYSH_WORD_EXTRA] = draw();
    } else if (op == PYSH_OP_PUT_SIGNAL) {
        word[PYSH_WORD_PE] |= (uint64_t)(below(2) ? ISHMEMX_SIGNAL_SET : ISHMEMX_SIGNAL_ADD) << 32;
        word[PYSH_WORD_EXTRA] = place_in(&there[below(THERE_COUNT)], 8, 8);
        word[PYSH_WORD_EXTRA2] = draw();
    }
    word[PYSH_WORD_VALUE] = n;
    word[gets ? PYSH_WORD_SOURCE : PYSH_WORD_DEST] = place_in(far, far_bytes, align);
    word[gets ? PYSH_WORD_DEST : PYSH_WORD_SOURCE] = place_in(near, near_bytes, align);
    if (op == PYSH_OP_AMO && below(2))
        word[PYSH_WORD_SOURCE] = 0;
    return request;
}

static pysh_request_t changed(pysh_request_t request) {
    uint64_t *word = request.word, random = below(16) == 0;

    for (uint64_t n = random ? PYSH_WORD_COUNT : 1 + below(2); n; n--) {
        uint64_t which = random ? n - 1 : below(PYSH_WORD_COUNT), at = below(4);
        if (which == PYSH_WORD_KIND && at)
            word[which] = (word[which] & ~0xff00ULL) | below(256) << 8;
        else if (which == PYSH_WORD_KIND)
            word[which] = (word[which] & ~0xffULL) | (at ? below(PYSH_OP_COUNT) : below(256));
        else if (which == PYSH_WORD_PE && at > 1)
            word[which] = (word[which] & 0xffffffff) | edge(word[which] >> 32) << 32;
        else if (which == PYSH_WORD_PE && at)
            word[which] = (word[which] & ~0xffffffffULL) | (uint32_t)edge(1);
        else
            word[which] = edge(word[which]);
    }
    return request;
}

/* ---- sending them ---- */

static void show(const pysh_request_t *request, const char *what, int status) {
    for (int i = 0; i < PYSH_WORD_COUNT; i++)
        fprintf(stderr, "word %d: %#llx\n", i, (unsigned long long)request->word[i]);
    fail("%s: status %d; host heap at %p, device heap at %p", what, status, (void *)pysh.arena[0].base,
         (void *)pysh.arena[1].base);
}

static bool by_engine(const pysh_request_t *request) {
    return request->word[PYSH_WORD_KIND] >> 16 & PYSH_REQUEST_DONE;
}

static void await_wrong(void) {
    for (int i = 0; i < away.n; i++) {
        int status = 0;
        await_reply(away.ticket[i], by_engine(&away.request[i]), &status);
        if (status <= 0)
            show(&away.request[i], "it is wrong", status);
    }
    away.n = 0;
}

static void send_wrong(const pysh_request_t *request) {
    away.request[away.n] = *request;
    away.ticket[away.n++] = send_request(request);
    if (away.n == AHEAD)
        await_wrong();
}

static void send_right(const pysh_request_t *request) {
    uint64_t seen, wanted;
    int status, op = (int)(request->word[PYSH_WORD_KIND] & 255);

    await_wrong();
    seen = await_reply(send_request(request), by_engine(request), &status);
    if (status)
        show(request, "it is right", status);
    wanted = model(request);
    if ((op == PYSH_OP_G || op == PYSH_OP_AMO) && seen != wanted)
        show(request, "it brought another value", status);
}

/* A copy engine answers near the kernel alone, and its stream can set words of the device heap, and nothing else. */
static bool fit_for_engine(pysh_request_t *request) {
    int op = (int)(request->word[PYSH_WORD_KIND] & 255);
    bool to_device = in_region(&there[THERE_DEVICE], request->word[PYSH_WORD_DEST], request->word[PYSH_WORD_VALUE]);

    if (op == PYSH_OP_PUT || op == PYSH_OP_GET || op == PYSH_OP_PUT_SIGNAL)
        request->word[PYSH_WORD_KIND] |= PYSH_REQUEST_DONE << 16;
    return op != PYSH_OP_PUT_SIGNAL || !to_device ||
           (request->word[PYSH_WORD_PE] >> 32 == ISHMEMX_SIGNAL_SET &&
            in_region(&there[THERE_DEVICE], request->word[PYSH_WORD_EXTRA], 8));
}

int main(int argc, char **argv) {
    uint64_t n, wrong = 0, right = 0;

    begin(argc, argv, &n);
    while (!pysh.pe && wrong < n) {
        pysh_request_t request = right_one();
        enum verdict verdict;
        if (below(4))
            request = changed(request);
        verdict = judge(&request);
        if (verdict == RIGHT && pysh.p2p && pysh.arena[ISHMEMX_HEAP_DEVICE].peer[1] && !fit_for_engine(&request))
            continue;
        if (verdict == WRONG)
            send_wrong(&request);
        else if (verdict == RIGHT)
            send_right(&request);
        wrong += verdict == WRONG;
        right += verdict == RIGHT;
        if (verdict == RIGHT && right % 256 == 0)
            regions_check("requests");
    }
    if (!pysh.pe) {
        await_wrong();
        regions_check("at the end");
        CHECK(right > n / 10);
    }
    return end(wrong, right);
}
