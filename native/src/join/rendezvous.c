/* SPDX-License-Identifier: BSD-3-Clause
 * PE 0's side of the rendezvous: it gathers the hellos, compares them and answers all alike. */
#define _GNU_SOURCE
#include "join/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/memory_file.h"
#include "base/status.h"
#include "ishmemx.h"
#include "join/hello.h"

#define SLICE_MS 10
#define GRACE_NS (5 * 1000000000LL) /* for PEs that come after the job was refused: they are told too */

__attribute__((format(printf, 3, 4))) static void refuse(pysh_rendezvous_t *r, int status, const char *format, ...) {
    va_list arguments;

    if (r->refusal.status)
        return;
    r->refusal.status = status;
    va_start(arguments, format);
    vsnprintf(r->refusal.text, sizeof r->refusal.text, format, arguments);
    va_end(arguments);
}

static void guests_close(pysh_rendezvous_t *r) {
    for (int i = 0; i < r->n_guests; i++)
        close(r->guest[i].socket);
    r->n_guests = 0;
}

static void rendezvous_close(pysh_rendezvous_t *r) {
    guests_close(r);
    if (r->listener >= 0)
        close(r->listener);
    free(r->guest);
    free(r->hello);
    r->guest = NULL;
    r->hello = NULL;
    r->listener = -1;
}

/* 0, or what the host has against it. A guest that died meanwhile is found by the barrier that follows. */
static int rendezvous_answer(const pysh_guest_t *guest, const pysh_reply_t *reply, const int *fds, int n_fds) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(PYSH_MAX_DESCRIPTORS * sizeof(int))];
    } control = {0};
    struct iovec bytes = {.iov_base = (void *)reply, .iov_len = sizeof *reply};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};

    if (n_fds) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int))};
        memcpy(CMSG_DATA(&control.header), fds, (size_t)n_fds * sizeof(int));
    }
    /* Words alone go by another call: they arrive where a host forbids descriptors by refusing sendmsg. */
    if ((n_fds ? sendmsg(guest->socket, &message, MSG_NOSIGNAL)
               : send(guest->socket, reply, sizeof *reply, MSG_NOSIGNAL)) >= 0)
        return 0;
    return errno == EPIPE || errno == ECONNRESET ? 0 : errno;
}

/* Those for whom there was no descriptor: one at a time, after the others' are free. */
static void answer_waiting(const pysh_rendezvous_t *r, const pysh_reply_t *reply) {
    pysh_guest_t guest;

    while ((guest.socket = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        (void)rendezvous_answer(&guest, reply, NULL, 0);
        close(guest.socket);
    }
}

static int refuse_all(pysh_rendezvous_t *r, const char *job) {
    int status = r->refusal.status;
    pysh_reply_t reply = r->refusal;

    reply.magic = PYSH_HELLO_MAGIC;
    if (status == ISHMEMX_ERR_INTERRUPTED)
        reply.status = ISHMEMX_ERR_PEER;
    for (int i = 0; i < r->n_guests; i++)
        (void)rendezvous_answer(&r->guest[i], &reply, NULL, 0);
    guests_close(r);
    answer_waiting(r, &reply);
    pysh_fail(status, "job '%s' cannot start: %s", job, r->refusal.text);
    rendezvous_close(r);
    return status;
}

/* Refuses the job when `hello` does not fit PE 0's own. */
static void rendezvous_compare(pysh_rendezvous_t *r, const pysh_hello_t *hello) {
    const pysh_hello_t *own = &r->hello[0];
    int status;

    if (strncmp(hello->version, own->version, sizeof own->version) != 0)
        refuse(r, pysh_hello_mismatch(hello, own), "%s", ishmemx_error());
    else if (hello->n_pes != own->n_pes)
        refuse(r, ISHMEMX_ERR_MISMATCH, "PE %d was started as one of %d PEs, PE 0 as one of %d", hello->pe,
               hello->n_pes, own->n_pes);
    else if (hello->pe < 0 || hello->pe >= own->n_pes)
        refuse(r, ISHMEMX_ERR_MISMATCH, "a process claims to be PE %d of %d", hello->pe, own->n_pes);
    else if (r->hello[hello->pe].magic)
        refuse(r, ISHMEMX_ERR_MISMATCH, "two processes claim to be PE %d (pids %d and %d)", hello->pe,
               r->hello[hello->pe].process.pid, hello->process.pid);
    else if ((status = pysh_hello_heaps(hello, own)))
        refuse(r, status, "%s", ishmemx_error());
    else
        r->hello[hello->pe] = *hello;
}

static void guest_drop(pysh_rendezvous_t *r, int i) {
    close(r->guest[i].socket);
    r->guest[i] = r->guest[--r->n_guests];
}

/* Reads what a guest sent: its hello, or its end. */
static void guest_read(pysh_rendezvous_t *r, int i) {
    pysh_guest_t *guest = &r->guest[i];
    pysh_hello_t hello = {0};
    ssize_t nbytes = recv(guest->socket, &hello, sizeof hello, MSG_DONTWAIT);

    if (nbytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (guest->pe >= 0) {
        if (nbytes <= 0) {
            refuse(r, ISHMEMX_ERR_PEER, "PE %d died during init", guest->pe);
            guest_drop(r, i);
        }
        return;
    }
    if (nbytes < (ssize_t)offsetof(pysh_hello_t, pe) || hello.magic != PYSH_HELLO_MAGIC) {
        guest_drop(r, i); /* not one of us */
        return;
    }
    guest->pe = hello.pe < 0 ? 0 : hello.pe;
    r->n_hellos++;
    /* After a disagreement on n_pes the larger number of PEs is told. */
    if (hello.n_pes - 1 > r->wanted && hello.n_pes <= PYSH_MAX_PES)
        r->wanted = hello.n_pes - 1;
    rendezvous_compare(r, &hello);
}

static void guest_accept(pysh_rendezvous_t *r) {
    struct ucred credentials;
    socklen_t nbytes = sizeof credentials;
    pysh_guest_t *grown;
    int guest = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);

    if (guest < 0) {
        if (errno == EMFILE || errno == ENFILE)
            refuse(r, ISHMEMX_ERR_SYSTEM, "PE 0 can take no more PEs than %d: %s; each takes a file: %s",
                   r->n_guests + 1, strerror(errno), pysh_open_files_advice());
        return;
    }
    if (getsockopt(guest, SOL_SOCKET, SO_PEERCRED, &credentials, &nbytes) || credentials.uid != getuid() ||
        !(grown = realloc(r->guest, (size_t)(r->n_guests + 1) * sizeof *grown))) {
        close(guest);
        return;
    }
    r->guest = grown;
    r->guest[r->n_guests++] = (pysh_guest_t){.socket = guest, .pe = -1};
}

/* One round of waiting for news; returns false when memory or poll fails. */
static bool rendezvous_serve(pysh_rendezvous_t *r) {
    int n_guests = r->n_guests;
    struct pollfd *watched = calloc((size_t)n_guests + 1, sizeof *watched);

    if (!watched)
        return false;
    for (int i = 0; i < n_guests; i++)
        watched[i] = (struct pollfd){.fd = r->guest[i].socket, .events = POLLIN};
    watched[n_guests] = (struct pollfd){.fd = r->listener, .events = POLLIN};
    if (poll(watched, (nfds_t)n_guests + 1, SLICE_MS) > 0) {
        for (int i = n_guests - 1; i >= 0; i--) /* downward: a dropped guest is replaced by a later one */
            if (watched[i].revents)
                guest_read(r, i);
        if (watched[n_guests].revents)
            guest_accept(r);
    }
    free(watched);
    return true;
}

static void refuse_missing(pysh_rendezvous_t *r, const ishmemx_config_t *config) {
    char missing[256], hint[320];
    size_t used = 0;
    int n_missing = 0;

    for (int pe = 0; pe < r->n_pes; pe++) {
        if (r->hello[pe].magic)
            continue;
        if (used < sizeof missing - 16)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d", n_missing ? ", " : "", pe);
        n_missing++;
    }
    pysh_rendezvous_hint(config, hint, sizeof hint);
    refuse(r, ISHMEMX_ERR_TIMEOUT, "PE%s %s%s did not show up within %.3g s (PYSHMEM_INIT_TIMEOUT)%s",
           n_missing > 1 ? "s" : "", missing, used >= sizeof missing - 16 ? " ..." : "",
           (double)config->init_timeout_ns * 1e-9, hint);
}

static int rendezvous_open(const ishmemx_config_t *config, unsigned round, pysh_rendezvous_t *r) {
    struct sockaddr_un address;
    socklen_t nbytes = pysh_rendezvous_address(config->job, round, &address);

    *r = (pysh_rendezvous_t){.n_pes = config->n_pes, .wanted = config->n_pes - 1, .n_guests = 0};
    r->hello = calloc((size_t)config->n_pes, sizeof *r->hello);
    r->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!r->hello || r->listener < 0)
        goto failed;
    pysh_hello_fill(config, &r->hello[0]);
    if (bind(r->listener, (struct sockaddr *)&address, nbytes) == 0 && listen(r->listener, config->n_pes + 8) == 0)
        return ISHMEMX_OK;
    if (errno == EADDRINUSE) {
        /* Somebody else is PE 0: claiming to be it too makes him tell everybody. */
        int none;
        int status = pysh_rendezvous_join(config, round, &none, 0);
        rendezvous_close(r);
        return status ? status : pysh_fail(ISHMEMX_ERR_MISMATCH, "another process is PE 0 of job '%s'", config->job);
    }
failed:
    pysh_fail(ISHMEMX_ERR_SYSTEM, "rendezvous of job '%s' by a Unix socket: %s", config->job, strerror(errno));
    rendezvous_close(r);
    return ISHMEMX_ERR_SYSTEM;
}

int pysh_rendezvous_gather(const ishmemx_config_t *config, unsigned round, pysh_rendezvous_t *rendezvous_p) {
    pysh_rendezvous_t *r = rendezvous_p;
    int64_t start, deadline;
    int status = rendezvous_open(config, round, r);

    if (status)
        return status;
    start = pysh_now_ns();
    deadline = config->init_timeout_ns > 0 ? start + config->init_timeout_ns : INT64_MAX;
    while (r->n_hellos < r->wanted) {
        bool refused = r->refusal.status != ISHMEMX_OK;

        if (!rendezvous_serve(r))
            refuse(r, ISHMEMX_ERR_SYSTEM, "PE 0: %s", strerror(errno));
        if (pysh_wait_interrupted("init"))
            refuse(r, ISHMEMX_ERR_INTERRUPTED, "PE 0 was interrupted in init");
        if (r->refusal.status && !refused && deadline > pysh_now_ns() + GRACE_NS)
            deadline = pysh_now_ns() + GRACE_NS;
        if (pysh_now_ns() > deadline) {
            refuse_missing(r, config);
            break;
        }
        /* Without memory or descriptors nobody who comes later can be told either. */
        if (r->refusal.status == ISHMEMX_ERR_INTERRUPTED || r->refusal.status == ISHMEMX_ERR_SYSTEM)
            break;
    }
    return r->refusal.status ? refuse_all(r, config->job) : ISHMEMX_OK;
}

int pysh_rendezvous_release(pysh_rendezvous_t *rendezvous, const int *fds, int n_fds, const char *job) {
    static const pysh_reply_t welcome = {.magic = PYSH_HELLO_MAGIC, .status = ISHMEMX_OK};

    for (int i = 0; i < rendezvous->n_guests; i++) {
        int why = rendezvous_answer(&rendezvous->guest[i], &welcome, fds, n_fds);
        if (why) {
            refuse(rendezvous, ISHMEMX_ERR_SYSTEM,
                   "PE 0 cannot give PE %d its memory by a Unix socket: %s; the host or the container forbids to pass "
                   "descriptors (seccomp profile?)",
                   rendezvous->guest[i].pe, strerror(why));
            return refuse_all(rendezvous, job);
        }
    }
    rendezvous_close(rendezvous);
    return ISHMEMX_OK;
}

void pysh_rendezvous_refuse(pysh_rendezvous_t *rendezvous, int status, const char *job) {
    refuse(rendezvous, status, "PE 0: %s", ishmemx_error());
    refuse_all(rendezvous, job);
}
