/* SPDX-License-Identifier: BSD-3-Clause
 * PEs that meet over TCP with a secret, among strangers: as many broken messages as the first argument says, by the
 * seed that is the second. All are refused, nobody waits for them, and the port is closed behind the last PE. */
#include "join/tcp.c"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

enum { N_PES = 4, CARD_BYTES = 100 };

static int failures;

#define CHECK(_holds)                                                    \
    do {                                                                 \
        if (!(_holds)) {                                                 \
            failures++;                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #_holds); \
        }                                                                \
    } while (0)

static char port[8];

/* A port that nobody has; it may be taken before it is used, but hardly is. */
static void find_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t nbytes = sizeof address;
    int made = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(bind(made, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getsockname(made, (struct sockaddr *)&address, &nbytes) == 0);
    snprintf(port, sizeof port, "%d", ntohs(address.sin_port));
    close(made);
}

static pysh_tcp_meeting_t meeting_of(int pe, unsigned char secret, int64_t timeout_ns) {
    pysh_tcp_meeting_t meeting = {"127.0.0.1", port, {secret}, pe, N_PES, CARD_BYTES, timeout_ns, 0};

    return meeting;
}

typedef struct pe {
    pysh_tcp_meeting_t meeting;
    char mine[CARD_BYTES], all[N_PES * CARD_BYTES];
    int status, refused;
    pthread_t thread;
} pe_t;

static void *exchange_of(void *argument) {
    pe_t *pe = argument;

    pe->status = pysh_tcp_exchange(&pe->meeting, pe->mine, pe->all, &pe->refused);
    return NULL;
}

static void start(pe_t *pe, int number, unsigned char secret, int64_t timeout_ns) {
    memset(pe, 0, sizeof *pe);
    pe->meeting = meeting_of(number, secret, timeout_ns);
    memset(pe->mine, 'a' + number, CARD_BYTES - 20 - (size_t)number); /* zeros behind are not sent, and are there */
    memset(pe->all, 'z', sizeof pe->all);
    pthread_create(&pe->thread, NULL, exchange_of, pe);
}

/* ---- strangers ---- */

static uint64_t state;

static uint32_t any(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static int to_host(void) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 10};
    int made = socket(AF_INET, SOCK_STREAM, 0);

    setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(made, (struct sockaddr *)&address, sizeof address) == 0)
        return made;
    close(made);
    return -1;
}

static void scramble(void *data, size_t nbytes) {
    for (size_t i = 0; i < nbytes; i++)
        ((unsigned char *)data)[i] = (unsigned char)any(256);
}

/* What it hears is no proof of the host's, as it has proved nothing. */
static void say(int socket, const void *data, size_t nbytes) {
    (void)send(socket, data, nbytes, MSG_NOSIGNAL);
}

static void break_hello(hello_t *hello) {
    switch (any(5)) {
    case 0:
        hello->magic ^= 1u << any(32);
        break;
    case 1:
        hello->pe = any(2) ? (int32_t)any(1u << 31) + N_PES : -(int32_t)any(1u << 31);
        break;
    case 2:
        hello->n_pes += 1 + (int32_t)any(100);
        break;
    case 3:
        hello->nbytes = any(2) ? UINT32_MAX - any(100) : hello->nbytes + 1 + any(5000);
        break;
    default:
        scramble(hello, sizeof *hello - NONCE);
    }
}

/* Closed by the host, without a proof of its own: all that may come is its hello. */
static void hear_the_end(int socket, bool may_greet) {
    char heard[sizeof(hello_t) + 1];
    size_t n = 0;

    for (ssize_t got; n < sizeof heard && (got = recv(socket, heard + n, sizeof heard - n, 0)) > 0;)
        n += (size_t)got;
    CHECK(n == 0 || (may_greet && n == sizeof(hello_t)));
    close(socket);
}

static void without_the_secret(void) {
    pysh_tcp_meeting_t meeting = meeting_of(1 + (int)any(N_PES - 1), 1, 0);
    unsigned char rubbish[300];
    int socket = to_host();
    hello_t hello;

    if (socket < 0 || fill_hello(&meeting, &hello)) {
        CHECK(!"the host is gone");
        return;
    }
    scramble(rubbish, sizeof rubbish);
    switch (any(4)) {
    case 0: /* rubbish, and its end */
        say(socket, rubbish, any(sizeof rubbish));
        shutdown(socket, SHUT_WR);
        hear_the_end(socket, false);
        break;
    case 1: /* a hello that is not of the job */
        break_hello(&hello);
        say(socket, &hello, sizeof hello);
        hear_the_end(socket, false);
        break;
    case 2: /* a right hello, and a proof that is none */
        say(socket, &hello, sizeof hello);
        say(socket, rubbish, PROOF);
        hear_the_end(socket, true);
        break;
    default: /* gone in the middle */
        say(socket, &hello, any(sizeof hello));
        close(socket);
    }
}

/* One of the job whose card was changed on its way, or who comes a second time. */
static void with_the_secret(bool again) {
    pysh_tcp_meeting_t meeting = meeting_of(again ? 1 : 3, 7, 0);
    unsigned char proof[PROOF], card[CARD_BYTES + PROOF];
    hello_t ours, theirs;
    int socket = to_host();

    CHECK(socket >= 0 && !fill_hello(&meeting, &ours));
    say(socket, &ours, sizeof ours);
    CHECK(recv(socket, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs);
    proof_of(&meeting, "guest", &ours, &theirs, NULL, 0, proof);
    say(socket, proof, sizeof proof);
    if (!again) {
        CHECK(recv(socket, proof, sizeof proof, MSG_WAITALL) == sizeof proof);
        scramble(card, sizeof card);
        say(socket, card, sizeof card);
    }
    hear_the_end(socket, false);
}

static void among_strangers(int n_broken) {
    pe_t pe[N_PES];
    int silent[3];

    find_port();
    for (int i = 0; i < N_PES - 1; i++)
        start(&pe[i], i, 7, 0);
    while ((silent[0] = to_host()) < 0)
        usleep(1000);
    silent[1] = to_host();
    silent[2] = to_host();
    for (int i = 0; i < n_broken; i++)
        without_the_secret();
    usleep(300 * 1000); /* the others are in by then */
    with_the_secret(true);
    with_the_secret(false);
    start(&pe[3], 3, 7, 0);
    for (int i = 0; i < N_PES; i++) {
        pthread_join(pe[i].thread, NULL);
        CHECK(pe[i].status == ISHMEMX_OK);
        for (int other = 0; other < N_PES; other++)
            CHECK(memcmp(pe[i].all + other * CARD_BYTES, pe[other].mine, CARD_BYTES) == 0);
    }
    CHECK(pe[0].refused >= n_broken + 2);
    CHECK(to_host() < 0);
    for (int i = 0; i < 3; i++)
        hear_the_end(silent[i], false);
}

static void another_secret(void) {
    pe_t host, guest;

    find_port();
    start(&host, 0, 7, 1500 * 1000 * 1000LL);
    start(&guest, 2, 8, 0);
    pthread_join(guest.thread, NULL);
    CHECK(guest.status == ISHMEMX_ERR_PEER);
    pthread_join(host.thread, NULL);
    CHECK(host.status == ISHMEMX_ERR_TIMEOUT && host.refused == 1);
    CHECK(to_host() < 0);
}

static void nobody_there(void) {
    pe_t guest;

    find_port();
    start(&guest, 2, 7, 200 * 1000 * 1000LL);
    pthread_join(guest.thread, NULL);
    CHECK(guest.status == ISHMEMX_ERR_TIMEOUT);
}

int main(int argc, char **argv) {
    state = argc > 2 ? strtoull(argv[2], NULL, 10) * 2 + 1 : 1;
    among_strangers(argc > 1 ? atoi(argv[1]) : 100);
    another_secret();
    nobody_there();
    if (!failures)
        printf("ok\n");
    return failures != 0;
}
