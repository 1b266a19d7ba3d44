/* SPDX-License-Identifier: BSD-3-Clause
 * The other PEs' side of the rendezvous: find PE 0, say hello, take the answer. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/memory_file.h"
#include "base/status.h"
#include "ishmemx.h"
#include "join/hello.h"
#include "join/rendezvous.h"
#include "join/variables.h"

#define SLICE_MS 10
#define RETRY_NS (1000 * 1000LL)

/* A job name too long for the address is replaced by its hash (FNV-1a). */
socklen_t pysh_rendezvous_address(const char *job, unsigned round, struct sockaddr_un *address_p) {
    char *name = address_p->sun_path + 1; /* the leading zero byte makes it abstract */
    size_t capacity = sizeof address_p->sun_path - 1;
    int nbytes;

    memset(address_p, 0, sizeof *address_p);
    address_p->sun_family = AF_UNIX;
    nbytes = snprintf(name, capacity, "pyshmem.%u.%u.%s", (unsigned)getuid(), round, job);
    if ((size_t)nbytes >= capacity) {
        uint64_t hash = 0xcbf29ce484222325ULL;
        for (; *job; job++)
            hash = (hash ^ (unsigned char)*job) * 0x100000001b3ULL;
        nbytes =
            snprintf(name, capacity, "pyshmem.%u.%u.#%016llx", (unsigned)getuid(), round, (unsigned long long)hash);
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)nbytes);
}

/* Our launcher starts all PEs on one host; others may not say that theirs are on several. */
void pysh_rendezvous_hint(const ishmemx_config_t *config, char *text, size_t capacity) {
    char host[128] = "";

    gethostname(host, sizeof host - 1);
    text[0] = 0;
    if (config->control_fd < 0)
        snprintf(
            text, capacity,
            "; the shm conduit looks for PEs on this host only (%s): start those of several hosts with `pyshmem run "
            "--hosts a,b`%s",
            host, pysh_launcher_by_rank() ? "; unset RANK and WORLD_SIZE if this is to be a job of one PE" : "");
}

/* One attempt; -1 with errno when nobody listens. */
static int try_connect(const struct sockaddr_un *address, socklen_t nbytes) {
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (made >= 0 && connect(made, (const struct sockaddr *)address, nbytes)) {
        int why = errno;
        close(made);
        errno = why;
        return -1;
    }
    return made;
}

static int find_host(const ishmemx_config_t *config, unsigned round, int64_t deadline, int *socket_p) {
    struct sockaddr_un address;
    socklen_t nbytes = pysh_rendezvous_address(config->job, round, &address);
    struct timespec retry = {.tv_nsec = RETRY_NS};
    struct ucred credentials;
    socklen_t n_credentials = sizeof credentials;
    char hint[320];
    int status;

    pysh_rendezvous_hint(config, hint, sizeof hint);
    while ((*socket_p = try_connect(&address, nbytes)) < 0) {
        if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
            return pysh_fail(ISHMEMX_ERR_SYSTEM, "rendezvous of job '%s' by a Unix socket: %s", config->job,
                             strerror(errno));
        if ((status = pysh_wait_interrupted("init")))
            return status;
        if (pysh_now_ns() > deadline)
            return pysh_fail(ISHMEMX_ERR_TIMEOUT,
                             "job '%s' cannot start: PE 0 did not show up within %.3g s (PYSHMEM_INIT_TIMEOUT)%s",
                             config->job, (double)config->init_timeout_ns * 1e-9, hint);
        nanosleep(&retry, NULL);
    }
    if (getsockopt(*socket_p, SOL_SOCKET, SO_PEERCRED, &credentials, &n_credentials) || credentials.uid != getuid()) {
        close(*socket_p);
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "the rendezvous of job '%s' is held by another user", config->job);
    }
    return ISHMEMX_OK;
}

/* Receives the reply and exactly `n_fds` descriptors when it says OK. */
static int take_answer(const ishmemx_config_t *config, int socket, int *fds, int n_fds) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(PYSH_MAX_DESCRIPTORS * sizeof(int))];
    } control;
    pysh_reply_t reply = {0};
    struct iovec bytes = {.iov_base = &reply, .iov_len = sizeof reply};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header;

    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0 || reply.magic != PYSH_HELLO_MAGIC)
        return pysh_fail(ISHMEMX_ERR_PEER,
                         "job '%s' cannot start: PE 0 went away during init, or has all its PEs already", config->job);
    if (reply.status)
        return pysh_fail(reply.status, "job '%s' cannot start: %.*s", config->job, (int)sizeof reply.text, reply.text);
    header = CMSG_FIRSTHDR(&message);
    if (n_fds && (!header || header->cmsg_len != CMSG_LEN((size_t)n_fds * sizeof(int))))
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "job '%s' cannot start: PE 0's descriptors did not all arrive: %s",
                         config->job, pysh_open_files_advice());
    if (n_fds)
        memcpy(fds, CMSG_DATA(header), (size_t)n_fds * sizeof(int));
    return ISHMEMX_OK;
}

int pysh_rendezvous_join(const ishmemx_config_t *config, unsigned round, int *fds, int n_fds) {
    int64_t timeout = config->init_timeout_ns, deadline = timeout > 0 ? pysh_now_ns() + timeout : INT64_MAX;
    struct pollfd watched = {.events = POLLIN};
    pysh_hello_t hello;
    int status = find_host(config, round, deadline, &watched.fd);

    if (status)
        return status;
    /* PE 0 may have begun up to one timeout after this PE, and answers within one of its own. */
    if (timeout > 0)
        deadline += timeout;
    pysh_hello_fill(config, &hello);
    (void)!send(watched.fd, &hello, sizeof hello, MSG_NOSIGNAL); /* a failure shows as a missing answer */
    while (!status && poll(&watched, 1, SLICE_MS) <= 0) {
        status = pysh_wait_interrupted("init");
        if (!status && pysh_now_ns() > deadline)
            status = pysh_fail(ISHMEMX_ERR_TIMEOUT, "job '%s' cannot start: PE 0 does not answer", config->job);
    }
    if (!status)
        status = take_answer(config, watched.fd, fds, n_fds);
    close(watched.fd);
    return status;
}
