/* SPDX-License-Identifier: BSD-3-Clause
 * See descriptors.h. Only what names this job's number of the receiver is taken, and only from a process of the same
 * user: any process of the host may write to a socket without a file. */
#define _GNU_SOURCE
#include "memory/descriptors.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agree/agree.h"
#include "base/descriptor.h"
#include "base/state.h"
#include "base/status.h"
#include "node/wait.h"

typedef struct door { /* where a PE takes descriptors */
    uint64_t secret;  /* what a message to it begins with */
    char name[32];
} door_t;

typedef struct letter {
    uint64_t secret, number;
    int64_t pe;
} letter_t;

enum { NONE = -1, REFUSED = -2 }; /* in a descriptor's place: it has not come; it came without */

static struct {
    int socket;
    door_t *door;    /* [n_pes] */
    bool *sent;      /* [n_pes] in the round `number` */
    uint64_t number; /* 0: none yet */
} descriptors = {.socket = -1};

static socklen_t address_of(const door_t *door, struct sockaddr_un *address_p) {
    *address_p = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address_p->sun_path + 1, door->name, sizeof door->name); /* the leading zero byte makes it abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strnlen(door->name, sizeof door->name));
}

static int open_own(door_t *own) {
    struct sockaddr_un address;
    socklen_t nbytes;
    uint64_t words[2];
    int on = 1;

    if (getrandom(words, sizeof words, 0) != sizeof words)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "random numbers for a socket: %s", strerror(errno));
    own->secret = words[0];
    snprintf(own->name, sizeof own->name, "pyshmem.heap.%016llx", (unsigned long long)words[1]);
    nbytes = address_of(own, &address);
    descriptors.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptors.socket < 0 || bind(descriptors.socket, (const struct sockaddr *)&address, nbytes) ||
        setsockopt(descriptors.socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on))
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "a socket through which PEs give each other memory: %s", strerror(errno));
    return ISHMEMX_OK;
}

static bool is_partner(int pe) {
    return pe != pysh.pe && pysh.p2p && pysh_near(pe);
}

/* False: its queue is full, try again. A PE that has gone is found by the wait. */
static bool send_to(int pe, int fd) {
    letter_t letter = {.secret = descriptors.door[pe].secret, .number = descriptors.number, .pe = pysh.pe};
    struct sockaddr_un address;
    socklen_t nbytes = address_of(&descriptors.door[pe], &address);

    return pysh_send_descriptor(descriptors.socket, (const struct sockaddr *)&address, nbytes, &letter, sizeof letter,
                                fd) == sizeof letter;
}

/* A letter of no round, which is dropped, to each: what the host forbids is known before anybody waits for it. */
static int try_doors(void) {
    for (int pe = pysh_near_begin(); pe < pysh_near_end(); pe++)
        if (is_partner(pe) && !send_to(pe, descriptors.socket) && errno != EAGAIN && errno != EINTR &&
            errno != ENOBUFS && errno != ETOOMANYREFS)
            return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "PE %d cannot give PE %d a descriptor by a Unix socket: %s",
                             pysh.pe, pe, strerror(errno));
    return ISHMEMX_OK;
}

int pysh_descriptors_open(void) {
    door_t own = {.secret = 0};
    int status, outcome;

    descriptors.number = 0;
    descriptors.door = calloc((size_t)pysh.n_pes, sizeof *descriptors.door);
    descriptors.sent = calloc((size_t)pysh.n_pes, sizeof *descriptors.sent);
    if (!descriptors.door || !descriptors.sent)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    status = open_own(&own);
    if (status) /* its name says so to the others */
        own.name[0] = 0;
    outcome = pysh.agree->exchange("init", &own, descriptors.door, sizeof own);
    for (int pe = 0; !status && !outcome && pe < pysh.n_pes; pe++)
        if (!descriptors.door[pe].name[0])
            outcome = pysh_fail(ISHMEMX_ERR_SYSTEM, "PE %d has no socket through which PEs give each other memory", pe);
    status = status ? status : outcome;
    return status ? status : try_doors();
}

void pysh_descriptors_close(void) {
    if (descriptors.socket >= 0)
        close(descriptors.socket);
    free(descriptors.door);
    free(descriptors.sent);
    descriptors.door = NULL;
    descriptors.sent = NULL;
    descriptors.socket = -1;
}

/* False: there is nothing. What is not for this round is dropped: a stranger's. */
static bool receive(int *theirs) {
    letter_t letter = {.secret = 0};
    bool ours;
    int fd;
    ssize_t nbytes = pysh_receive_descriptor(descriptors.socket, &letter, sizeof letter, &fd, &ours);

    if (nbytes < 0)
        return false;
    if (ours && nbytes == sizeof letter && letter.secret == descriptors.door[pysh.pe].secret &&
        letter.number == descriptors.number && letter.pe >= 0 && letter.pe < pysh.n_pes && theirs[letter.pe] == NONE)
        theirs[letter.pe] = fd >= 0 ? fd : REFUSED;
    else if (fd >= 0)
        close(fd);
    return true;
}

static bool has_all(const int *theirs) {
    for (int pe = pysh_near_begin(); pe < pysh_near_end(); pe++)
        if (is_partner(pe) && (!descriptors.sent[pe] || theirs[pe] == NONE))
            return false;
    return true;
}

int pysh_descriptors_pass(const char *what, uint64_t number, int mine, int *theirs) {
    pysh_wait_t wait;
    int status = ISHMEMX_OK;

    if (descriptors.number != number) {
        memset(descriptors.sent, 0, (size_t)pysh.n_pes * sizeof *descriptors.sent);
        descriptors.number = number;
    }
    pysh_wait_begin(&wait, what);
    while (!status) {
        for (int pe = pysh_near_begin(); pe < pysh_near_end(); pe++)
            if (is_partner(pe) && !descriptors.sent[pe])
                descriptors.sent[pe] = send_to(pe, mine);
        while (receive(theirs))
            continue;
        if (has_all(theirs))
            break;
        status = pysh_wait_pause(&wait);
    }
    pysh_wait_end(&wait);
    for (int pe = pysh_near_begin(); !status && pe < pysh_near_end(); pe++)
        if (theirs[pe] == REFUSED)
            status = pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "the host has kept back a descriptor that PE %d sent", pe);
    return status;
}
