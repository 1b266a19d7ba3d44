/* SPDX-License-Identifier: BSD-3-Clause
 * The copy engine in a process of its own, on 1 PE or more, with the simulator or the fake driver (argument "cuda").
 * Every PE copies to its right neighbour. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "engine_pid.h"
#include "fake_cuda.h"

enum { WORDS = 512, SENDERS = 4, TURNS = 200, MANY = 1000 };

static uint64_t *dest, *source, *sig;
static int right;

static pysh_request_t put_to(int pe, void *to, const void *from, size_t nbytes, unsigned flags) {
    pysh_request_t request = put_of(to, from, nbytes, flags);

    request.word[PYSH_WORD_PE] = (uint32_t)pe;
    return request;
}

static uint64_t *peer_of(uint64_t *address, int pe) {
    void *peer;

    MUST(ishmemx_ptr(address, pe, &peer));
    CHECK(peer);
    return peer;
}

/* Blocks of their own, each checked at the neighbour as soon as the engine's stream has answered. */
static void *sender(void *argument) {
    size_t first = (size_t)(intptr_t)argument * WORDS;
    const uint64_t *there = peer_of(&dest[first], right);
    uint64_t here[4];

    for (int turn = 0; turn < TURNS; turn++) {
        pysh_request_t request = put_to(right, &dest[first], &source[first], WORDS * 8, PYSH_REQUEST_DONE);
        for (int i = 0; i < WORDS; i++)
            source[first + (size_t)i] = (uint64_t)turn * WORDS + (uint64_t)i;
        ask(request);
        CHECK(!memcmp(there, &source[first], WORDS * 8));
        if (turn % 10)
            continue;
        for (int i = 0; i < 4; i++) /* not on a heap: by the thread */
            here[i] = (uint64_t)turn + 7;
        ask(put_to(right, &dest[first], here, sizeof here, PYSH_REQUEST_DONE));
        CHECK(there[3] == (uint64_t)turn + 7);
        request = request_of(PYSH_OP_GET, 0, PYSH_REQUEST_DONE, right, 0);
        request.word[PYSH_WORD_DEST] = (uintptr_t)&source[first];
        request.word[PYSH_WORD_SOURCE] = (uintptr_t)&dest[first];
        request.word[PYSH_WORD_VALUE] = 32;
        ask(request);
        CHECK(source[first + 3] == (uint64_t)turn + 7);
    }
    return NULL;
}

static void signals_come_after_data(void) {
    const uint64_t *there = peer_of(dest, right), *flag = peer_of(sig, right);

    for (uint64_t turn = 1; turn <= 50; turn++) {
        pysh_request_t request = put_to(right, dest, source, WORDS * 8, 0);
        request.word[PYSH_WORD_KIND] += PYSH_OP_PUT_SIGNAL - PYSH_OP_PUT;
        request.word[PYSH_WORD_PE] |= (uint64_t)ISHMEMX_SIGNAL_SET << 32;
        request.word[PYSH_WORD_EXTRA] = (uintptr_t)sig;
        request.word[PYSH_WORD_EXTRA2] = turn;
        source[WORDS - 1] = turn;
        tell(&request);
        while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != turn)
            sched_yield();
        CHECK(there[WORDS - 1] == turn);
    }
    quiet();
}

/* More than the queue holds. */
static void quiet_completes_them_all(void) {
    const uint64_t *there = peer_of(dest, right);

    for (uint64_t i = 0; i < MANY; i++)
        source[i] = ~i;
    for (uint64_t i = 0; i < MANY; i++) {
        pysh_request_t request = put_to(right, &dest[i], &source[i], 8, 0);
        tell(&request);
    }
    quiet();
    CHECK(!memcmp(there, source, MANY * 8));
}

static void finds_no_lock_in_the_way(void) {
    fake_cuda("fake_cuda_free", 1);
    ask(put_to(right, dest, source, 64, PYSH_REQUEST_DONE));
    signals_come_after_data();
    fake_cuda("fake_cuda_free", 0);
}

/* The copy that was asked of a dead process fails, with the reason; later ones go by the thread. */
static void says_when_it_dies(void) {
    int pid = engine_pid(), status;
    char why[512];

    CHECK(pid > 0 && !kill(pid, SIGKILL));
    nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
    {
        pysh_request_t request = put_to(right, dest, source, 64, PYSH_REQUEST_DONE | PYSH_REQUEST_REPLY);
        await_reply(send_request(&request), true, &status);
    }
    MUST(ishmemx_proxy_error(why, sizeof why));
    CHECK(status == ISHMEMX_ERR_SYSTEM && strstr(why, "the copy engine's process (pid "));
    source[0] = 99;
    ask(put_to(right, dest, source, 64, PYSH_REQUEST_DONE));
    CHECK(*peer_of(dest, right) == 99);
}

int main(int argc, char **argv) {
    bool cuda = argc > 1 && !strcmp(argv[1], "cuda");
    ishmemx_config_t config;

    MUST(ishmemx_config_from_environment(&config));
    right = (config.pe + 1) % config.n_pes;
    kernel_begin_on(cuda ? ISHMEMX_DEVICE_CUDA : ISHMEMX_DEVICE_SIM);
    if (argc > 2 && !strcmp(argv[2], "killed")) { /* its engine must not outlive it */
        printf("%d\n", engine_pid());
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    CHECK(engine_pid() > 0);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, SENDERS * WORDS * 8, 0, 1, (void **)&dest));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, SENDERS * WORDS * 8, 0, 1, (void **)&source));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8, 0, 1, (void **)&sig));
    on_threads(SENDERS, sender);
    MUST(ishmemx_barrier_all());
    signals_come_after_data();
    quiet_completes_them_all();
    if (cuda)
        finds_no_lock_in_the_way();
    MUST(ishmemx_barrier_all());
    says_when_it_dies();
    MUST(ishmemx_quiet(&ishmemx_ctx_default));
    MUST(ishmemx_finalize());
    CHECK(engine_pid() == 0);
    if (config.pe == 0)
        puts("ok");
    return 0;
}
