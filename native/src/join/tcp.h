/* SPDX-License-Identifier: BSD-3-Clause
 * How the PEs of a job on several hosts find each other, where nothing else does it for them: PE 0 listens at an
 * address, every other PE proves that it knows the job's secret before a byte of what it says is believed, and PE 0
 * proves it too. Then all learn all PEs' cards, and the port is closed. Needs no library, and knows no network but TCP.
 *
 * Both sides' proofs are HMAC-SHA256 of the secret over the side's name, both nonces, the PE and the job's size; cards
 * carry one as well. So neither strangers nor another job are let in, and what was heard once is of no use again. What
 * is said is not secret: cards go in clear. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PYSH_TCP_SECRET_BYTES 16
#define PYSH_TCP_MOST_CARD    4096

typedef struct pysh_tcp_meeting {
    const char *host, *port; /* where PE 0 listens, as it and the others name it */
    unsigned char secret[PYSH_TCP_SECRET_BYTES];
    int pe, n_pes;
    size_t nbytes;      /* of a card, the same on all */
    int64_t timeout_ns; /* of all of it; 0: none */
    int listener;       /* PE 0: a socket that listens there already, closed behind the last PE; 0: none does */
} pysh_tcp_meeting_t;

/* `all` has room for the cards of all PEs. Fails with TIMEOUT (who is missing), PEER (refused, or what listens there
 * does not know the secret), SYSTEM, INTERRUPTED, ARGUMENT. Leaves nothing open. *refused_p (may be NULL): on PE 0, how
 * many came that were not of the job. */
int pysh_tcp_exchange(const pysh_tcp_meeting_t *meeting, const void *mine, void *all, int *refused_p);
