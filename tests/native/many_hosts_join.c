/* SPDX-License-Identifier: BSD-3-Clause
 * Of many_hosts.c: joining at PE 0 over TCP. Connections are two queues of bytes; what is written to one at a time is a
 * message, but for what has no room in it. */
#define _GNU_SOURCE
#include "many_hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1 << 17, LISTENER = 1 };

/* One end of a connection, by the number that stands for a socket, less 2. */
typedef struct end {
    int pe, other; /* its owner; the end that hears what is said here */
    char *bytes;   /* that have come, in use from `begin` to `end` */
    size_t begin, end;
    int step;
    bool closed, is_known; /* to who listens */
} end_t;

static end_t *ends;
static int n_ends, n_waiting, *waiting; /* ends whose connection nobody has accepted */

static end_t *of(int socket) {
    return &ends[socket - 2];
}

static int made(int pe) {
    ends[n_ends] = (end_t){.pe = pe, .other = -1};
    return 2 + n_ends++;
}

static int any_socket(int domain, int type, int protocol) {
    (void)domain, (void)type, (void)protocol;
    return running == 0 ? LISTENER : made(running);
}

static int no_matter(void) {
    return 0;
}

static int any_connect(int socket) {
    int theirs = made(0);

    of(socket)->other = theirs;
    of(theirs)->other = socket;
    waiting[n_waiting++] = theirs;
    count.connections++;
    return 0;
}

static int any_accept(void) {
    int found;

    if (!n_waiting)
        return -1;
    found = waiting[--n_waiting];
    of(found)->is_known = true;
    return found;
}

static ssize_t any_send(int socket, const void *data, size_t nbytes) {
    end_t *to = of(of(socket)->other);
    size_t n = nbytes < ROOM - to->end ? nbytes : ROOM - to->end;

    if (!n) {
        errno = EAGAIN;
        return -1;
    }
    to->bytes = realloc(to->bytes, to->end + n);
    memcpy(to->bytes + to->end, data, n);
    to->end += n;
    to->step = step_of[running] + 1;
    count_message(running, n);
    return (ssize_t)n;
}

static ssize_t any_recv(int socket, void *data, size_t nbytes) {
    end_t *here = of(socket);
    size_t n = nbytes < here->end - here->begin ? nbytes : here->end - here->begin;

    if (!n) {
        errno = EAGAIN;
        return here->closed ? 0 : -1;
    }
    memcpy(data, here->bytes + here->begin, n);
    here->begin += n;
    if (here->begin < here->end)
        return (ssize_t)n;
    count_arrival(running, here->step);
    here->begin = here->end = 0;
    free(here->bytes);
    here->bytes = NULL;
    return (ssize_t)n;
}

static int any_close(int socket) {
    if (socket != LISTENER)
        of(of(socket)->other)->closed = true;
    return 0;
}

static short ready_for(const struct pollfd *asked) {
    end_t *here;

    if (asked->fd == LISTENER)
        return n_waiting ? POLLIN : 0;
    here = of(asked->fd);
    if (asked->events == POLLOUT)
        return of(here->other)->end < ROOM ? POLLOUT : 0;
    return here->end > here->begin || here->closed ? POLLIN : 0;
}

static const struct pollfd **asked_by; /* [n_pes] of who waits for one; NULL: for several, or not at all */

static int any_poll(struct pollfd *asked, nfds_t n) {
    int found = 0;

    for (int turn = 0; turn < 2 && !found; turn++) {
        for (nfds_t i = 0; i < n; i++)
            found += (asked[i].revents = ready_for(&asked[i])) != 0;
        if (!found && turn == 0) {
            asked_by[running] = n == 1 ? asked : NULL;
            give_way();
            asked_by[running] = NULL;
        }
    }
    return found;
}

static bool has_what_it_asked_for(int pe) {
    return !asked_by[pe] || ready_for(asked_by[pe]);
}

static struct addrinfo nowhere;

static int any_address(struct addrinfo **found_p) {
    *found_p = &nowhere;
    return 0;
}

#define socket(_domain, _type, _protocol)          any_socket(_domain, _type, _protocol)
#define setsockopt(_s, _level, _name, _value, _n)  ((void)(_value), no_matter())
#define bind(_s, _address, _nbytes)                no_matter()
#define listen(_s, _n)                             no_matter()
#define connect(_s, _address, _nbytes)             any_connect(_s)
#define accept4(_s, _address, _nbytes_p, _flags)   any_accept()
#define poll(_asked, _n, _ms)                      any_poll(_asked, _n)
#define send(_s, _data, _nbytes, _flags)           any_send(_s, _data, _nbytes)
#define recv(_s, _data, _nbytes, _flags)           any_recv(_s, _data, _nbytes)
#define close(_s)                                  any_close(_s)
#define getaddrinfo(_host, _port, _hint, _found_p) ((void)(_hint), any_address(_found_p))
#define freeaddrinfo(_found)                       ((void)(_found))

#include "join/tcp.c"

static size_t nbytes_card;
static char *every; /* what all hear is the same, and each its own would take more memory than machines have */

static void join(int pe) {
    pysh_tcp_meeting_t meeting = {.host = "a", .port = "1", .pe = pe, .n_pes = n_pes, .nbytes = nbytes_card};
    char *mine = malloc(nbytes_card);
    int refused = 0;

    memset(mine, pe % 251, nbytes_card);
    CHECK(pysh_tcp_exchange(&meeting, mine, every, &refused) == ISHMEMX_OK);
    CHECK(refused == 0);
    for (int other = 0; other < n_pes; other++)
        CHECK((unsigned char)every[(size_t)other * nbytes_card] == other % 251);
    free(mine);
}

static bool nothing(void) {
    return false;
}

size_t join_all(size_t card_bytes) {
    size_t cards = (size_t)n_pes * card_bytes;

    nbytes_card = card_bytes;
    ends = calloc(2 * (size_t)n_pes, sizeof *ends);
    waiting = calloc((size_t)n_pes, sizeof *waiting);
    asked_by = calloc((size_t)n_pes, sizeof *asked_by);
    every = malloc(cards);
    run_all(join, has_what_it_asked_for, nothing);
    free(ends);
    free(waiting);
    free(asked_by);
    free(every);
    return cards + (size_t)n_pes * (sizeof(guest_t) + sizeof(member_t) + sizeof(struct pollfd));
}
