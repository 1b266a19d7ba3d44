/* SPDX-License-Identifier: BSD-3-Clause
 * How the PEs of several hosts tell each other a first time where they are to be found: each has a card of some bytes,
 * and after one exchange all have all cards. One row for each way that something which starts jobs may offer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "ishmemx.h"

typedef struct pysh_join {
    const char *name;       /* what `info` tells */
    bool (*is_there)(void); /* does the environment offer it? */
    /* `all` has room for the cards of all PEs, nbytes of each. TIMEOUT, PEER, SYSTEM, INTERRUPTED, ARGUMENT. */
    int (*exchange)(const ishmemx_config_t *config, const void *mine, void *all, size_t nbytes);
} pysh_join_t;

/* The first way that is there; NULL: nothing says where PEs of other hosts are met. */
const pysh_join_t *pysh_join_find(void);
