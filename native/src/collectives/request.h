/* SPDX-License-Identifier: BSD-3-Clause
 * Non-blocking collectives. A member announces a request: it writes what it is about into a slot of the team's tables
 * and tells the others. Once all have announced, each member fetches what it needs, or writes what it computed for all,
 * by itself, and tells them again: done. When all are done the request is complete: sources and slot are free. How they
 * tell: request_steps.c.
 *
 * Requests move on in progress() of request.c, which every wait of the library calls. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/collective.h"
#include "ishmemx.h"
#include "teams/stage.h"

#define PYSH_ERROR_BYTES 512

typedef struct pysh_contribution { /* what a member of a collect gives */
    uint64_t nbytes;
    uint64_t capacity; /* of its dest */
    int64_t offset;    /* of its source, which a PE without data need not name */
    int32_t heap;
} pysh_contribution_t;

typedef struct pysh_announcement {
    pysh_record_t record;
    pysh_contribution_t contribution; /* of a collect */
} pysh_announcement_t;

struct ishmemx_request {
    /* What is asked for; a routine fills what it needs. */
    ishmemx_team_t team;
    pysh_call_t call;                                   /* the routine, and what the members must agree on */
    int (*pull)(const struct ishmemx_request *request); /* this member's share of the work; NULL: there is none */
    void *dest;
    const void *source;
    pysh_place_t dest_place, source_place;
    size_t nelems, width;
    ptrdiff_t dest_stride, source_stride;
    pysh_contribution_t contribution;
    /* How far it is; with the lock of request.c held. */
    uint64_t number;       /* in the team, from 1 */
    int64_t slot;          /* offset on the host heap */
    bool pulled;           /* this member is done */
    int reached;           /* members that have been seen to have come as far */
    _Atomic bool complete; /* release: pairs with the acquire of who tests or waits; status and error are final */
    _Atomic bool dropped;  /* by the user, or by the library after completion: the second of them frees it */
    int status;
    char error[PYSH_ERROR_BYTES];
    struct ishmemx_request *next;
};

/* Announces a copy of `asked`, unless `status`, what this PE thinks of its arguments, is an error; in checking mode
 * even then, so that the others fail and do not wait. Waits for a free slot. */
int pysh_request_begin(const struct ishmemx_request *asked, int status, ishmemx_request_t *request_p);
/* What a member announced, once all have. */
int pysh_request_read(const struct ishmemx_request *request, int member, pysh_announcement_t *theirs);
/* Waits until no request of the team (NULL: of any) is outstanding. */
int pysh_requests_complete(ishmemx_team_t team, const char *what);
/* At the end of the job: what is outstanding fails. */
void pysh_requests_abandon(void);
