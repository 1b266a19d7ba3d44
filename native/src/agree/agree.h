/* SPDX-License-Identifier: BSD-3-Clause
 * What all PEs settle together, collective calls of all. pysh.agree is the job's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct pysh_agree {
    /* All-gather of small blobs (nbytes <= PYSH_EXCHANGE_BYTES), for the start of a job and agreement: all[i * nbytes]
     * receives PE i's. A barrier too. MISMATCH on all PEs when some are in another exchange, or in a plain barrier. */
    int (*exchange)(const char *what, const void *mine, void *all, size_t nbytes);
    /* `what` names the routine to those who look; *all_p (may be NULL) tells whether every PE voted true. A barrier
     * that fails has not counted the calling PE: the others go on waiting for it, and it may try again. */
    int (*barrier)(const char *what, bool mine, bool *all_p);
} pysh_agree_t;
