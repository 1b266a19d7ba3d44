/* SPDX-License-Identifier: BSD-3-Clause
 * See tcp.h. PE 0 serves all that come at a time, each to its own deadline: one that is silent keeps nobody waiting. */
#define _GNU_SOURCE
#include "join/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/sha256.h"
#include "base/status.h"
#include "ishmemx.h"

#define MAGIC      0x50594a33u                /* "PYJ3": raised when what is said changes */
#define GUEST_NS   (2 * 1000 * 1000 * 1000LL) /* for one that has come to say what it has to */
#define SLICE_MS   10
#define RETRY_NS   (20 * 1000 * 1000LL)
#define SPARE      64 /* guests beyond the job's PEs at a time; then the longest there that has proved nothing goes */
#define NONCE      16
#define PROOF      PYSH_SHA256_BYTES
#define MOST_BYTES (PYSH_TCP_MOST_CARD + PROOF)

typedef struct hello { /* of both sides */
    uint32_t magic;
    int32_t pe, n_pes;
    uint32_t nbytes;
    unsigned char nonce[NONCE];
} hello_t;

enum stage { HELLO, PROVE, CARD, IN };

typedef struct guest {
    int socket;
    enum stage stage;
    hello_t theirs, ours;
    int64_t deadline_ns;
    size_t n_read;
    unsigned char bytes[MOST_BYTES];
} guest_t;

typedef struct member { /* a PE that is in */
    int socket;         /* -1: it is not */
    hello_t theirs, ours;
} member_t;

typedef struct row { /* bytes of a card that are said of all PEs' */
    uint32_t nbytes;
} row_t;

typedef struct host {
    const pysh_tcp_meeting_t *meeting;
    int listener, n_guests, n_in, refused;
    guest_t *guest; /* [n_pes + SPARE] */
    member_t *in;   /* [n_pes] */
    char *all;
    char *rows; /* what all are told: cards without the zeros that end all of them */
    row_t row;
    unsigned char digest[PROOF]; /* of both, made once: each PE's proof is of it */
} host_t;

/* ---- both sides ---- */

/* `side`: whose proof. Its card, or the digest of all cards, may be what is proved besides. */
static void proof_of(const pysh_tcp_meeting_t *meeting, const char *side, const hello_t *guest, const hello_t *host,
                     const void *data, size_t nbytes, unsigned char proof[PROOF]) {
    pysh_hmac_t hmac;

    pysh_hmac_begin(&hmac, meeting->secret, sizeof meeting->secret);
    pysh_hmac_add(&hmac, side, strlen(side) + 1);
    pysh_hmac_add(&hmac, guest, sizeof *guest);
    pysh_hmac_add(&hmac, host, sizeof *host);
    pysh_hmac_add(&hmac, data, nbytes);
    pysh_hmac_end(&hmac, proof);
}

static void digest_of(const row_t *row, const void *rows, int n, unsigned char digest[PROOF]) {
    pysh_sha256_t hash;

    pysh_sha256_begin(&hash);
    pysh_sha256_add(&hash, row, sizeof *row);
    pysh_sha256_add(&hash, rows, (size_t)n * row->nbytes);
    pysh_sha256_end(&hash, digest);
}

static int fill_hello(const pysh_tcp_meeting_t *meeting, hello_t *hello_p) {
    *hello_p =
        (hello_t){.magic = MAGIC, .pe = meeting->pe, .n_pes = meeting->n_pes, .nbytes = (uint32_t)meeting->nbytes};
    if (getrandom(hello_p->nonce, NONCE, 0) != NONCE)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "no random numbers: %s", strerror(errno));
    return ISHMEMX_OK;
}

static bool is_hello(const pysh_tcp_meeting_t *meeting, const hello_t *hello) {
    return hello->magic == MAGIC && hello->n_pes == meeting->n_pes && hello->nbytes == meeting->nbytes;
}

static int find_address(const pysh_tcp_meeting_t *meeting, int flags, struct addrinfo **found_p) {
    struct addrinfo hint = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    int why = getaddrinfo(meeting->host, meeting->port, &hint, found_p);

    if (why)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "%s:%s, where PE 0 is to be met: %s", meeting->host, meeting->port,
                         why == EAI_SYSTEM ? strerror(errno) : gai_strerror(why));
    return ISHMEMX_OK;
}

static bool is_late(int64_t deadline_ns) {
    return deadline_ns && pysh_now_ns() > deadline_ns;
}

/* All of it, or not OK with the error told; `deadline_ns` 0: none. */
static int move_all(int socket, void *data, size_t nbytes, bool out, int64_t deadline_ns, const char *with) {
    for (size_t done = 0; done < nbytes;) {
        struct pollfd ready = {.fd = socket, .events = out ? POLLOUT : POLLIN};
        ssize_t n;
        int status = pysh_wait_interrupted("init");

        if (status)
            return status;
        if (is_late(deadline_ns))
            return pysh_fail(ISHMEMX_ERR_TIMEOUT, "%s said nothing more in time", with);
        if (poll(&ready, 1, SLICE_MS) <= 0)
            continue;
        n = out ? send(socket, (char *)data + done, nbytes - done, MSG_NOSIGNAL | MSG_DONTWAIT)
                : recv(socket, (char *)data + done, nbytes - done, MSG_DONTWAIT);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return pysh_fail(ISHMEMX_ERR_PEER, "%s closed the connection%s%s", with, n ? ": " : "",
                             n ? strerror(errno) : "");
    }
    return ISHMEMX_OK;
}

/* ---- PE 0 ---- */

static int listen_there(const pysh_tcp_meeting_t *meeting, int *listener_p) {
    struct addrinfo *found;
    int status, made, one = 1;

    if (meeting->listener) {
        fcntl(meeting->listener, F_SETFL, O_NONBLOCK);
        *listener_p = meeting->listener;
        return ISHMEMX_OK;
    }
    if ((status = find_address(meeting, AI_PASSIVE, &found)))
        return status;
    made = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0 || setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        bind(made, found->ai_addr, found->ai_addrlen) || listen(made, SOMAXCONN)) {
        status = pysh_fail(ISHMEMX_ERR_SYSTEM, "PE 0 cannot listen at %s:%s: %s", meeting->host, meeting->port,
                           strerror(errno));
        if (made >= 0)
            close(made);
    }
    freeaddrinfo(found);
    *listener_p = made;
    return status;
}

static size_t wanted(const host_t *host, const guest_t *guest) {
    return guest->stage == HELLO ? sizeof(hello_t) : guest->stage == PROVE ? PROOF : host->meeting->nbytes + PROOF;
}

static void dismiss(host_t *host, int i, bool refused) {
    if (refused) {
        close(host->guest[i].socket);
        host->refused++;
    }
    host->guest[i] = host->guest[--host->n_guests];
}

/* What has come whole. False: it is not of this job. */
static bool hear(host_t *host, guest_t *guest) {
    const pysh_tcp_meeting_t *meeting = host->meeting;
    unsigned char proof[PROOF];
    int pe;

    guest->n_read = 0;
    switch (guest->stage) {
    case HELLO:
        memcpy(&guest->theirs, guest->bytes, sizeof guest->theirs);
        pe = guest->theirs.pe;
        if (!is_hello(meeting, &guest->theirs) || pe < 1 || pe >= meeting->n_pes || fill_hello(meeting, &guest->ours))
            return false;
        guest->stage = PROVE;
        return send(guest->socket, &guest->ours, sizeof guest->ours, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof guest->ours;
    case PROVE:
        proof_of(meeting, "guest", &guest->theirs, &guest->ours, NULL, 0, proof);
        if (!pysh_digests_equal(proof, guest->bytes) || host->in[guest->theirs.pe].socket >= 0)
            return false;
        guest->stage = CARD;
        proof_of(meeting, "host", &guest->theirs, &guest->ours, NULL, 0, proof);
        return send(guest->socket, proof, sizeof proof, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof proof;
    default:
        pe = guest->theirs.pe;
        proof_of(meeting, "card", &guest->theirs, &guest->ours, guest->bytes, meeting->nbytes, proof);
        if (!pysh_digests_equal(proof, guest->bytes + meeting->nbytes) || host->in[pe].socket >= 0)
            return false;
        memcpy(host->all + (size_t)pe * meeting->nbytes, guest->bytes, meeting->nbytes);
        guest->stage = IN;
        host->in[pe] = (member_t){guest->socket, guest->theirs, guest->ours};
        host->n_in++;
        return true;
    }
}

/* False: the guest goes. */
static bool read_guest(host_t *host, guest_t *guest) {
    ssize_t n = recv(guest->socket, guest->bytes + guest->n_read, wanted(host, guest) - guest->n_read, MSG_DONTWAIT);

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    guest->n_read += (size_t)n;
    return guest->n_read < wanted(host, guest) || hear(host, guest);
}

static void welcome(host_t *host) {
    int made = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), oldest = 0;

    if (made < 0)
        return;
    if (host->n_guests == host->meeting->n_pes + SPARE) {
        for (int i = 1; i < host->n_guests; i++)
            if (host->guest[i].stage < CARD &&
                (host->guest[oldest].stage >= CARD || host->guest[i].deadline_ns < host->guest[oldest].deadline_ns))
                oldest = i;
        dismiss(host, oldest, true);
    }
    host->guest[host->n_guests++] = (guest_t){.socket = made, .deadline_ns = pysh_now_ns() + GUEST_NS};
}

static void serve_guests(host_t *host, struct pollfd *ready) {
    int n = host->n_guests;

    ready[0] = (struct pollfd){.fd = host->listener, .events = POLLIN};
    for (int i = 0; i < n; i++)
        ready[i + 1] = (struct pollfd){.fd = host->guest[i].socket, .events = POLLIN};
    if (poll(ready, (nfds_t)n + 1, SLICE_MS) < 0)
        return;
    for (int i = n - 1; i >= 0; i--) { /* from behind: who goes is replaced by one that was looked at */
        guest_t *guest = &host->guest[i];
        bool stays = !(ready[i + 1].revents) || read_guest(host, guest);
        if (!stays || (guest->stage != IN && is_late(guest->deadline_ns)))
            dismiss(host, i, true);
        else if (guest->stage == IN)
            dismiss(host, i, false);
    }
    if (ready[0].revents)
        welcome(host);
}

static int missing(const host_t *host) {
    char who[200] = "";
    size_t used = 0;

    for (int pe = 1; pe < host->meeting->n_pes && used < sizeof who; pe++)
        if (host->in[pe].socket < 0)
            used += (size_t)snprintf(who + used, sizeof who - used, "%s%d", used ? ", " : "", pe);
    return pysh_fail(ISHMEMX_ERR_TIMEOUT,
                     "PE %s did not come to PE 0 at %s:%s in time; %d that came were not of the job", who,
                     host->meeting->host, host->meeting->port, host->refused);
}

static int gather(host_t *host, int64_t deadline_ns) {
    struct pollfd *ready = calloc((size_t)host->meeting->n_pes + SPARE + 1, sizeof *ready);
    int status = ready ? listen_there(host->meeting, &host->listener)
                       : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", host->meeting->n_pes);

    while (!status && host->n_in < host->meeting->n_pes - 1) {
        serve_guests(host, ready);
        if (!(status = pysh_wait_interrupted("init")) && is_late(deadline_ns))
            status = missing(host);
    }
    if (host->listener >= 0)
        close(host->listener);
    while (host->n_guests)
        dismiss(host, 0, true);
    free(ready);
    return status;
}

/* A card has room for more than most have to say: on 1,000 PEs the rest of it would be most of what is sent. */
static int pack(host_t *host) {
    size_t n = (size_t)host->meeting->n_pes, room = host->meeting->nbytes, used = 0;

    for (size_t pe = 0; pe < n; pe++)
        for (size_t at = room; at > used; at--)
            if (host->all[pe * room + at - 1]) {
                used = at;
                break;
            }
    host->row.nbytes = (uint32_t)used;
    if (!(host->rows = malloc(n * used + 1)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %zu PEs", n);
    for (size_t pe = 0; pe < n; pe++)
        memcpy(host->rows + pe * used, host->all + pe * room, used);
    digest_of(&host->row, host->rows, host->meeting->n_pes, host->digest);
    return ISHMEMX_OK;
}

static int tell(host_t *host, const member_t *member, int64_t deadline_ns) {
    size_t nbytes = (size_t)host->meeting->n_pes * host->row.nbytes;
    unsigned char proof[PROOF];
    int status;

    proof_of(host->meeting, "all", &member->theirs, &member->ours, host->digest, sizeof host->digest, proof);
    if ((status = move_all(member->socket, &host->row, sizeof host->row, true, deadline_ns, "a PE")) ||
        (status = move_all(member->socket, host->rows, nbytes, true, deadline_ns, "a PE")))
        return status;
    return move_all(member->socket, proof, sizeof proof, true, deadline_ns, "a PE");
}

static int be_host(const pysh_tcp_meeting_t *meeting, char *all, int64_t deadline_ns, int *refused_p) {
    host_t host = {.meeting = meeting, .listener = -1, .all = all};
    int status = ISHMEMX_OK;

    host.guest = calloc((size_t)meeting->n_pes + SPARE, sizeof *host.guest);
    host.in = malloc((size_t)meeting->n_pes * sizeof *host.in);
    if (!host.guest || !host.in)
        status = pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", meeting->n_pes);
    for (int pe = 0; host.in && pe < meeting->n_pes; pe++)
        host.in[pe].socket = -1;
    if (!status)
        status = gather(&host, deadline_ns);
    if (!status)
        status = pack(&host);
    for (int pe = 1; host.in && pe < meeting->n_pes; pe++) {
        if (!status)
            status = tell(&host, &host.in[pe], deadline_ns);
        if (host.in[pe].socket >= 0)
            close(host.in[pe].socket);
    }
    if (refused_p)
        *refused_p = host.refused;
    free(host.guest);
    free(host.rows);
    free(host.in);
    return status;
}

/* ---- the others ---- */

static int connect_there(const pysh_tcp_meeting_t *meeting, int64_t deadline_ns, int *socket_p) {
    const struct timespec moment = {.tv_nsec = RETRY_NS};
    int status, why = 0;

    for (;;) {
        struct addrinfo *found;
        int made;
        if ((status = find_address(meeting, 0, &found)) || (status = pysh_wait_interrupted("init")))
            return status;
        made = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (made >= 0 && connect(made, found->ai_addr, found->ai_addrlen) == 0) {
            freeaddrinfo(found);
            *socket_p = made;
            return ISHMEMX_OK;
        }
        why = errno;
        freeaddrinfo(found);
        if (made >= 0)
            close(made);
        if (is_late(deadline_ns))
            return pysh_fail(ISHMEMX_ERR_TIMEOUT, "PE %d does not reach PE 0 at %s:%s: %s", meeting->pe, meeting->host,
                             meeting->port, strerror(why));
        nanosleep(&moment, NULL);
    }
}

static int introduce(const pysh_tcp_meeting_t *meeting, int socket, const void *mine, hello_t *ours, hello_t *theirs,
                     int64_t deadline_ns) {
    unsigned char proof[PROOF], theirs_proof[PROOF];
    int status = fill_hello(meeting, ours);

    if (status || (status = move_all(socket, ours, sizeof *ours, true, deadline_ns, "PE 0")) ||
        (status = move_all(socket, theirs, sizeof *theirs, false, deadline_ns, "PE 0")))
        return status;
    if (!is_hello(meeting, theirs))
        return pysh_fail(ISHMEMX_ERR_PEER, "what listens at %s:%s is no PE 0 of this job", meeting->host,
                         meeting->port);
    proof_of(meeting, "guest", ours, theirs, NULL, 0, proof);
    if ((status = move_all(socket, proof, sizeof proof, true, deadline_ns, "PE 0")) ||
        (status = move_all(socket, theirs_proof, sizeof theirs_proof, false, deadline_ns, "PE 0")))
        return status;
    proof_of(meeting, "host", ours, theirs, NULL, 0, proof);
    if (!pysh_digests_equal(proof, theirs_proof))
        return pysh_fail(ISHMEMX_ERR_PEER, "what listens at %s:%s does not know the job's secret", meeting->host,
                         meeting->port);
    proof_of(meeting, "card", ours, theirs, mine, meeting->nbytes, proof);
    status = move_all(socket, (void *)mine, meeting->nbytes, true, deadline_ns, "PE 0");
    return status ? status : move_all(socket, proof, sizeof proof, true, deadline_ns, "PE 0");
}

/* They have come one behind the other. */
static void unpack(char *all, size_t n, size_t row, size_t room) {
    for (size_t pe = n; pe-- > 0;) { /* the last first: each has its place behind where those before it lie yet */
        memmove(all + pe * room, all + pe * row, row);
        memset(all + pe * room + row, 0, room - row);
    }
}

static int hear_all(const pysh_tcp_meeting_t *meeting, int socket, const hello_t *ours, const hello_t *theirs,
                    char *all, int64_t deadline_ns) {
    unsigned char proof[PROOF], theirs_proof[PROOF], digest[PROOF];
    size_t n = (size_t)meeting->n_pes;
    row_t row;
    int status = move_all(socket, &row, sizeof row, false, deadline_ns, "PE 0");

    if (!status && row.nbytes > meeting->nbytes)
        return pysh_fail(ISHMEMX_ERR_PEER, "PE 0 says more of each PE than there is");
    if (status || (status = move_all(socket, all, n * row.nbytes, false, deadline_ns, "PE 0")) ||
        (status = move_all(socket, theirs_proof, sizeof theirs_proof, false, deadline_ns, "PE 0")))
        return status;
    digest_of(&row, all, meeting->n_pes, digest);
    proof_of(meeting, "all", ours, theirs, digest, sizeof digest, proof);
    if (!pysh_digests_equal(proof, theirs_proof))
        return pysh_fail(ISHMEMX_ERR_PEER, "what PE 0 said of all PEs was changed on its way");
    unpack(all, n, row.nbytes, meeting->nbytes);
    return ISHMEMX_OK;
}

int pysh_tcp_exchange(const pysh_tcp_meeting_t *meeting, const void *mine, void *all, int *refused_p) {
    int64_t deadline_ns = meeting->timeout_ns > 0 ? pysh_now_ns() + meeting->timeout_ns : 0;
    int socket = -1, status;
    hello_t ours, theirs;

    if (meeting->nbytes > PYSH_TCP_MOST_CARD || meeting->pe < 0 || meeting->pe >= meeting->n_pes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "PE %d of %d with a card of %zu bytes", meeting->pe, meeting->n_pes,
                         meeting->nbytes);
    memcpy((char *)all + (size_t)meeting->pe * meeting->nbytes, mine, meeting->nbytes);
    if (meeting->pe == 0)
        return be_host(meeting, all, deadline_ns, refused_p);
    if (!(status = connect_there(meeting, deadline_ns, &socket)) &&
        !(status = introduce(meeting, socket, mine, &ours, &theirs, deadline_ns)))
        status = hear_all(meeting, socket, &ours, &theirs, all, deadline_ns);
    if (socket >= 0)
        close(socket);
    return status;
}
