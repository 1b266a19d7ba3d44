/* SPDX-License-Identifier: BSD-3-Clause
 * How the PEs of a job on one host find each other: PE 0 listens at an abstract Unix socket (no file)
 * named after user and job; every other PE says hello, and gets the job's descriptors or the reason
 * why the job cannot be. Nothing stays open. */
#pragma once

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "ishmemx.h"
#include "join/hello.h"

#define PYSH_MAX_DESCRIPTORS 4

/* The answer; descriptors come with it when status is ISHMEMX_OK. */
typedef struct pysh_reply {
    uint32_t magic;
    int32_t status;
    char text[1016];
} pysh_reply_t;

typedef struct pysh_guest {
    int socket, pe; /* pe -1: has not said hello yet */
} pysh_guest_t;

/* PE 0's side. */
typedef struct pysh_rendezvous {
    int n_pes, listener;
    pysh_hello_t *hello; /* [n_pes] by PE; magic 0: not here yet */
    pysh_guest_t *guest; /* [n_guests] */
    int n_guests, n_hellos, wanted;
    pysh_reply_t refusal; /* why the job cannot be; status ISHMEMX_OK: it can */
} pysh_rendezvous_t;

/* `round` counts the jobs of the process: the next one of the same name meets elsewhere. */
socklen_t pysh_rendezvous_address(const char *job, unsigned round, struct sockaddr_un *address_p);
/* What to say of PEs that do not show up, on one host; `text` may be empty. */
void pysh_rendezvous_hint(const ishmemx_config_t *config, char *text, size_t capacity);

/* PE 0: waits for all. On failure every PE that came has been told why, and all is closed. */
int pysh_rendezvous_gather(const ishmemx_config_t *config, unsigned round, pysh_rendezvous_t *rendezvous_p);
/* PE 0: gives everybody the descriptors, which stay the caller's. Where the host forbids that, every PE that has none
 * is told, and all is closed. */
int pysh_rendezvous_release(pysh_rendezvous_t *rendezvous, const int *fds, int n_fds, const char *job);
/* PE 0, in place of release: tells everybody that its own set-up failed, with the last error. */
void pysh_rendezvous_refuse(pysh_rendezvous_t *rendezvous, int status, const char *job);
/* The others: descriptors from PE 0, close-on-exec. */
int pysh_rendezvous_join(const ishmemx_config_t *config, unsigned round, int *fds, int n_fds);
