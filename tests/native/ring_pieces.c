/* SPDX-License-Identifier: BSD-3-Clause
 * What takes the proxy long is done in pieces: others are served between them, and quiet, replies and signals wait for
 * the last. Run with PYSHMEM_P2P=0, on 1 PE; argument "cuda": with the fake driver. */
#include <unistd.h>

#include "fake_cuda.h"

enum { BIG = 4 << 20, WORDS = 4096 };

static char *big, *local;
static uint64_t *sig;
static int witness;

/* On the proxy's thread: is the big copy over? */
static int64_t is_over(int64_t a, int64_t b, int64_t c, int64_t d) {
    (void)a, (void)b, (void)c, (void)d;
    return big[BIG - 1] == local[BIG - 1];
}

static pysh_request_t big_put(int op, unsigned flags) {
    pysh_request_t request = put_of(big, local, BIG, flags);

    request.word[PYSH_WORD_KIND] += (uint64_t)(op - PYSH_OP_PUT);
    request.word[PYSH_WORD_PE] |= (uint64_t)ISHMEMX_SIGNAL_ADD << 32;
    request.word[PYSH_WORD_EXTRA] = (uintptr_t)sig;
    request.word[PYSH_WORD_EXTRA2] = 5;
    memset(local, local[0] + 1, BIG);
    return request;
}

static void others_are_served_meanwhile(void) {
    pysh_request_t request = big_put(PYSH_OP_PUT, PYSH_REQUEST_REPLY);
    uint64_t ticket = send_request(&request);
    int status;

    CHECK(ask(call_of(witness, 0, 0)) == 0);
    await_reply(ticket, false, &status);
    CHECK(status == ISHMEMX_OK && !memcmp(big, local, BIG));
}

static void quiet_and_signals_wait(void) {
    pysh_request_t request = big_put(PYSH_OP_PUT, 0);
    uint64_t before = *sig;

    tell(&request);
    quiet();
    CHECK(!memcmp(big, local, BIG));
    request = big_put(PYSH_OP_PUT_SIGNAL, 0);
    tell(&request);
    while (__atomic_load_n(sig, __ATOMIC_ACQUIRE) != before + 5)
        sched_yield();
    CHECK(!memcmp(big, local, BIG));
    request = big_put(PYSH_OP_PUT, 0);
    tell(&request);
    MUST(ishmemx_quiet(&ishmemx_ctx_default)); /* that of the host too */
    CHECK(!memcmp(big, local, BIG));
}

static void gets_and_strides(void) {
    pysh_request_t request = request_of(PYSH_OP_GET, 0, 0, 0, 0);

    memset(big, 77, BIG);
    request.word[PYSH_WORD_DEST] = (uintptr_t)local;
    request.word[PYSH_WORD_SOURCE] = (uintptr_t)big;
    request.word[PYSH_WORD_VALUE] = BIG;
    ask(request);
    CHECK(!memcmp(big, local, BIG));
    memset(big, 0, BIG);
    request = request_of(PYSH_OP_IPUT, 8, 0, 0, 1);
    request.word[PYSH_WORD_DEST] = (uintptr_t)big;
    request.word[PYSH_WORD_SOURCE] = (uintptr_t)local;
    request.word[PYSH_WORD_VALUE] = WORDS;
    request.word[PYSH_WORD_EXTRA] = 2;
    request.word[PYSH_WORD_EXTRA2] = 1;
    ask(request);
    for (size_t i = 0; i < WORDS; i++)
        CHECK(((uint64_t *)(void *)big)[2 * i] == 0x4d4d4d4d4d4d4d4d && ((uint64_t *)(void *)big)[2 * i + 1] == 0);
}

static void wrong_ones_move_nothing(void) {
    pysh_request_t request = put_of(big, local, (uint64_t)1 << 40, PYSH_REQUEST_REPLY);
    int status;

    memset(local, 1, BIG);
    await_reply(send_request(&request), false, &status);
    CHECK(status == ISHMEMX_ERR_ARGUMENT && big[0] != 1);
}

/* A GPU full of kernels, one of which waits for an atomic operation on its own memory: the proxy does not wait with
 * it, and those to one word keep their order. */
static void atomics_wait_for_room_by_themselves(void) {
    uint64_t *word, ticket[3];
    pysh_request_t request;
    int status;

    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8, 0, 1, (void **)&word));
    fake_cuda("fake_cuda_fill", 1);
    request = add_of(word, 3);
    request.word[PYSH_WORD_KIND] |= PYSH_REQUEST_REPLY << 16;
    for (int i = 0; i < 3; i++)
        ticket[i] = send_request(&request);
    for (int i = 0; i < 100; i++)
        ask(request_of(PYSH_OP_NULL, 0, 0, 0, 0));
    CHECK(*word == 0);
    fake_cuda("fake_cuda_fill", 0);
    for (uint64_t i = 0; i < 3; i++)
        CHECK(await_reply(ticket[i], false, &status) == 3 * i && status == ISHMEMX_OK);
    for (int i = 0; i < 100; i++) { /* more than are begun at a time */
        request = add_of(word, 1);
        tell(&request);
    }
    quiet();
    CHECK(*word == 109);
    request = big_put(PYSH_OP_PUT_SIGNAL, 0);
    request.word[PYSH_WORD_VALUE] = 8; /* with a signal on the GPU */
    request.word[PYSH_WORD_EXTRA] = (uintptr_t)word;
    tell(&request);
    quiet();
    CHECK(*word == 114);
}

static pysh_request_t amo_of(uint64_t *word, int op, uint64_t value) {
    pysh_request_t request = request_of(PYSH_OP_AMO, ISHMEMX_TYPE_UINT64, 0, 0, op);

    request.word[PYSH_WORD_DEST] = (uintptr_t)word;
    request.word[PYSH_WORD_VALUE] = value;
    return request;
}

/* The kernel for these stays a while, and goes when it pleases; sets and fetches go without it where there is none.
 * None is lost, done twice or overtaken, and on a GPU without room for the kernel words are set all the same. */
static void atomics_by_both_roads(void) {
    enum { WORDS_OF_ALL = 3, OPERATIONS = 1000 };
    static const int ops[] = {ISHMEMX_ATOMIC_SET, ISHMEMX_ATOMIC_FETCH, ISHMEMX_ATOMIC_ADD, ISHMEMX_ATOMIC_XOR};
    uint64_t *word, expected[WORDS_OF_ALL] = {0};
    unsigned seed = 7;

    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8 * WORDS_OF_ALL, 0, 1, (void **)&word));
    for (int i = 0; i < OPERATIONS; i++) {
        int k = rand_r(&seed) % WORDS_OF_ALL, op = ops[rand_r(&seed) % (i % 500 < 250 ? 2 : 4)];
        uint64_t value = (uint64_t)rand_r(&seed) << 40 | (uint64_t)i, old = expected[k];
        pysh_request_t request = amo_of(&word[k], op, value);
        expected[k] = op == ISHMEMX_ATOMIC_SET   ? value
                      : op == ISHMEMX_ATOMIC_ADD ? old + value
                      : op == ISHMEMX_ATOMIC_XOR ? old ^ value
                                                 : old;
        if (i % 3)
            tell(&request);
        else
            CHECK(ask(request) == old || op == ISHMEMX_ATOMIC_SET);
        if (i % 64 == 0)
            usleep((useconds_t)(rand_r(&seed) % 1000));
    }
    quiet();
    CHECK(!memcmp(word, expected, sizeof expected));
    usleep(50000); /* the kernel goes */
    fake_cuda("fake_cuda_fill", 1);
    for (uint64_t i = 1; i < 40; i++) {
        ask(amo_of(word, ISHMEMX_ATOMIC_SET, i));
        CHECK(ask(amo_of(word, ISHMEMX_ATOMIC_FETCH, 0)) == i);
    }
    fake_cuda("fake_cuda_fill", 0);
    CHECK(ask(amo_of(word, ISHMEMX_ATOMIC_ADD, 1)) == 39);
}

/* Single elements of GPU memory, and old values that a fetch wants there, while a slow copy is in the driver. */
static void elements_wait_by_themselves(void) {
    uint64_t *word, *fetched;
    pysh_request_t request[3] = {request_of(PYSH_OP_P, 8, 0, 0, 0), request_of(PYSH_OP_G, 4, 0, 0, 0)};
    uint64_t ticket;
    int status;

    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 64, 0, 1, (void **)&word));
    fetched = word + 4;
    fake_cuda("fake_cuda_slow", 100000);
    request[0].word[PYSH_WORD_DEST] = (uintptr_t)word;
    request[0].word[PYSH_WORD_VALUE] = 0x1234567890;
    tell(&request[0]);
    request[1].word[PYSH_WORD_SOURCE] = (uintptr_t)word;
    request[1].word[PYSH_WORD_KIND] |= PYSH_REQUEST_REPLY << 16;
    request[2] = add_of(sig, 1); /* on the host heap */
    request[2].word[PYSH_WORD_SOURCE] = (uintptr_t)fetched;
    __atomic_store_n(sig, 41, __ATOMIC_RELEASE);
    tell(&request[2]);
    ask(request_of(PYSH_OP_NULL, 0, 0, 0, 0));
    CHECK(look(word) == 0 && look(fetched) == 0 && look(sig) == 42);
    quiet();
    CHECK(look(word) == 0x1234567890 && look(fetched) == 41);
    ticket = send_request(&request[1]);
    ask(request_of(PYSH_OP_NULL, 0, 0, 0, 0));
    CHECK(await_reply(ticket, false, &status) == 0x34567890 && status == ISHMEMX_OK);
    fake_cuda("fake_cuda_slow", 0);
}

static void all(void) {
    others_are_served_meanwhile();
    quiet_and_signals_wait();
    gets_and_strides();
    wrong_ones_move_nothing();
}

int main(int argc, char **argv) {
    bool cuda = argc > 1 && !strcmp(argv[1], "cuda");
    char *host, *device;

    kernel_begin_on(cuda ? ISHMEMX_DEVICE_CUDA : ISHMEMX_DEVICE_SIM);
    MUST(ishmemx_register_handler(is_over, &witness));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_HOST, BIG, 0, 1, (void **)&host));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, BIG, 0, 1, (void **)&device));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_HOST, 8, 0, 1, (void **)&sig));
    CHECK((local = malloc(BIG)));
    big = host;
    all();
    free(local);
    if (cuda) { /* both ways through the pinned piece, then along the GPU */
        fake_cuda("fake_cuda_slow", 500);
        local = device;
        all();
        big = device;
        local = host;
        all();
        atomics_wait_for_room_by_themselves();
        atomics_by_both_roads();
        elements_wait_by_themselves();
    }
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
