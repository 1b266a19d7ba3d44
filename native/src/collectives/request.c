/* SPDX-License-Identifier: BSD-3-Clause
 * See request.h. */
#include "collectives/request.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/state.h"
#include "base/status.h"
#include "collectives/collective.h"
#include "collectives/request_steps.h"
#include "node/enter.h"
#include "node/node.h"
#include "node/wait.h"
#include "teams/stage.h"
#include "teams/sync.h"
#include "teams/team.h"
#include "transport/quiet.h"

#define LIVENESS_NS (100 * 1000 * 1000LL)
_Static_assert(sizeof(pysh_announcement_t) <= PYSH_REQUEST_SENT, "a slot begins with an announcement");

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for what follows, and for requests in the list */
static struct ishmemx_request *outstanding;

static char *own(int64_t offset) {
    return pysh.arena[ISHMEMX_HEAP_HOST].base + offset;
}

/* ---- one request ---- */

static bool compares(const struct ishmemx_request *request) {
    return pysh_coll_compares((unsigned)(request->number - 1 < UINT32_MAX ? request->number - 1 : UINT32_MAX));
}

/* A member without work is done as it announces, but in checking mode: then it looks at the others' arguments too. */
static bool done_at_once(const struct ishmemx_request *request) {
    return request->status || (!request->pull && !pysh.check);
}

static void remember(struct ishmemx_request *request, int status) {
    if (!status || request->status)
        return;
    request->status = status;
    strncpy(request->error, ishmemx_error(), sizeof request->error - 1);
}

int pysh_request_read(const struct ishmemx_request *request, int member, pysh_announcement_t *theirs) {
    pysh_place_t place = {ISHMEMX_HEAP_HOST, request->slot};
    const void *data;
    int status = pysh_place_read(place, sizeof *theirs, request->team->pes[member], theirs, &data);

    if (!status && data != theirs)
        memcpy(theirs, data, sizeof *theirs);
    return status;
}

/* Where arguments are compared; every member looks at all, so all fail alike, before anything is written. */
static int request_compare(const struct ishmemx_request *request) {
    const pysh_announcement_t *mine = (const pysh_announcement_t *)(void *)own(request->slot);
    pysh_announcement_t theirs;
    int status = ISHMEMX_OK;

    for (int i = 0; !status && i < request->team->n_pes; i++) {
        if (!(status = pysh_request_read(request, i, &theirs)))
            status = pysh_record_compare(&request->call, &mine->record, &theirs.record, request->team->pes[i]);
    }
    return status;
}

/* Whatever becomes of the work, the flags are raised: the other members look for them. */
static void request_work(struct ishmemx_request *request) {
    int delivered, status = compares(request) ? request_compare(request) : ISHMEMX_OK;

    if (!status && request->pull)
        status = request->pull(request);
    remember(request, status);
    delivered = pysh_quiet_transport();
    remember(request, delivered);
    pysh_request_tell(request, PYSH_REQUEST_DONE);
}

/* A member that has left before it announced the request never will. One that has announced it leaves only when the
 * request is complete. */
static bool is_forsaken(struct ishmemx_request *request) {
    int status = pysh_team_left_before_request(request->team, request->call.routine, request->number);

    remember(request, status);
    return status;
}

/* Is it complete? */
static bool request_step(struct ishmemx_request *request) {
    if (!request->pulled) {
        if (!pysh_request_all_at(request, PYSH_REQUEST_ANNOUNCED))
            return is_forsaken(request);
        request_work(request);
        request->pulled = true;
        request->reached = 0;
    }
    return pysh_request_all_at(request, PYSH_REQUEST_DONE) || is_forsaken(request);
}

static void request_drop(struct ishmemx_request *request) {
    if (atomic_exchange(&request->dropped, true))
        free(request);
}

static bool is_complete(const struct ishmemx_request *request) {
    return atomic_load_explicit(&request->complete, memory_order_acquire);
}

/* ---- all requests ---- */

static void take_out(struct ishmemx_request **at) {
    struct ishmemx_request *request = *at;

    *at = request->next;
    atomic_fetch_sub(&request->team->n_outstanding, 1);
    atomic_store_explicit(&request->complete, true, memory_order_release);
    request_drop(request);
}

/* Moves on what can be; never waits, and does nothing while another thread is at it, or where a wait inside of a step
 * comes here again: the lock is taken. */
static void progress(void) {
    if (pthread_mutex_trylock(&mutex))
        return;
    for (struct ishmemx_request **at = &outstanding; *at;) {
        if (request_step(*at))
            take_out(at);
        else
            at = &(*at)->next;
    }
    if (!outstanding)
        pysh_wait_set_progress(NULL);
    pthread_mutex_unlock(&mutex);
}

static bool any_outstanding(ishmemx_team_t team, uint64_t last) {
    bool found = false;

    pthread_mutex_lock(&mutex);
    for (const struct ishmemx_request *request = outstanding; !found && request; request = request->next)
        found = !team || (request->team == team && request->number <= last);
    pthread_mutex_unlock(&mutex);
    return found;
}

/* Waits until the requests of the team up to number `last` are complete. */
static int await(ishmemx_team_t team, uint64_t last, const char *what) {
    pysh_wait_t wait;
    int status = ISHMEMX_OK;

    pysh_team_wait_for_members(team, what, &wait);
    for (progress(); !status && any_outstanding(team, last); progress())
        status = pysh_wait_pause(&wait);
    pysh_wait_end(&wait);
    return status;
}

int pysh_requests_complete(ishmemx_team_t team, const char *what) {
    return await(team, UINT64_MAX, what);
}

void pysh_requests_abandon(void) {
    pthread_mutex_lock(&mutex);
    while (outstanding) {
        remember(outstanding,
                 pysh_fail(ISHMEMX_ERR_STATE, "%s: the job ended before it was complete", outstanding->call.routine));
        take_out(&outstanding);
    }
    pysh_wait_set_progress(NULL);
    pthread_mutex_unlock(&mutex);
}

/* ---- beginning ---- */

static void write_announcement(const struct ishmemx_request *request) {
    pysh_announcement_t *mine = (pysh_announcement_t *)(void *)own(request->slot);

    memset(mine, 0, sizeof *mine);
    mine->record = pysh_record_of(&request->call, request->status);
    mine->contribution = request->contribution;
}

/* The caller has claimed the team; a failure leaves things as they were. */
static int announce(struct ishmemx_request *request) {
    ishmemx_team_t team = request->team;
    int status = ISHMEMX_OK;

    request->number = team->requested + 1;
    if (request->number > PYSH_REQUEST_SLOTS)
        status = await(team, request->number - PYSH_REQUEST_SLOTS, request->call.routine);
    if (status)
        return status;
    request->slot = team->requests + (int64_t)(request->number % PYSH_REQUEST_SLOTS) * pysh_team_request_nbytes(team);
    write_announcement(request);
    pysh_request_tell(request, done_at_once(request) ? PYSH_REQUEST_DONE : PYSH_REQUEST_ANNOUNCED);
    team->requested++;
    request->pulled = done_at_once(request);
    pthread_mutex_lock(&mutex);
    request->next = outstanding;
    outstanding = request;
    atomic_fetch_add(&team->n_outstanding, 1);
    pysh_wait_set_progress(progress);
    pysh_team_set_requests(pysh_requests_complete);
    pthread_mutex_unlock(&mutex);
    return ISHMEMX_OK;
}

int pysh_request_begin(const struct ishmemx_request *asked, int status, ishmemx_request_t *request_p) {
    struct ishmemx_request *request;
    ishmemx_team_t team = asked->team;
    int begun;

    *request_p = NULL;
    if (!team || team->slot < 0 || (status && team->n_pes == 1))
        return status;
    if (status && !pysh.check && team->requested >= pysh.check_first) /* nobody waits to hear of it */
        return status;
    if ((begun = pysh_team_claim(team, asked->call.routine, 0)))
        return status ? status : begun;
    request = malloc(sizeof *request);
    if (request) {
        *request = *asked;
        remember(request, status);
        begun = announce(request);
    } else {
        begun = pysh_fail(ISHMEMX_ERR_MEMORY, "%s: no memory for a request", asked->call.routine);
    }
    pysh_team_unclaim(team, begun);
    if (begun) {
        free(request);
        return begun;
    }
    if (status) { /* its text again, after what may have been said since; then nobody holds the request */
        status = pysh_fail(status, "%s", request->error);
        request_drop(request);
        return status;
    }
    *request_p = request;
    progress();
    return ISHMEMX_OK;
}

/* ---- what users do with a request ---- */

static int check_request(ishmemx_request_t request) {
    return request ? ISHMEMX_OK : pysh_fail(ISHMEMX_ERR_ARGUMENT, "the request is a null handle");
}

/* Whoever only ever tests learns of a dead PE too. */
static int look_around(void) {
    static _Atomic int64_t next_ns;
    int64_t now = pysh_now_ns();

    if (now < atomic_load_explicit(&next_ns, memory_order_relaxed))
        return ISHMEMX_OK;
    atomic_store_explicit(&next_ns, now + LIVENESS_NS, memory_order_relaxed);
    return pysh_node.liveness();
}

static int result_of(ishmemx_request_t request) {
    return request->status ? pysh_fail(request->status, "%s", request->error) : ISHMEMX_OK;
}

int ishmemx_request_complete(ishmemx_request_t request) {
    return request && is_complete(request);
}

/* What is complete can be asked after finalize too. */
int ishmemx_request_test(ishmemx_request_t request, int *done) {
    int status = check_request(request);

    if (status)
        return status;
    if (!is_complete(request)) {
        PYSH_ENTER();
        progress();
        if (!is_complete(request)) {
            *done = 0;
            return look_around();
        }
    }
    *done = 1;
    return result_of(request);
}

int ishmemx_request_wait(ishmemx_request_t request) {
    int status = check_request(request);
    pysh_wait_t wait;

    if (status)
        return status;
    if (!is_complete(request)) {
        PYSH_ENTER();
        pysh_team_wait_for_members(request->team, request->call.routine, &wait);
        for (progress(); !status && !is_complete(request); progress())
            status = pysh_wait_pause(&wait);
        pysh_wait_end(&wait);
    }
    return is_complete(request) ? result_of(request) : status;
}

int ishmemx_request_free(ishmemx_request_t request) {
    if (request)
        request_drop(request);
    return ISHMEMX_OK;
}

/* ---- requests without data ---- */

int ishmemx_sync_nb(ishmemx_team_t team, ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = team, .call = {"sync_nb", -1, -1, -1, 0, NULL, NULL}};

    PYSH_ENTER();
    atomic_thread_fence(memory_order_seq_cst);
    return pysh_request_begin(&asked, pysh_team_check(team), request);
}

int ishmemx_barrier_nb(ishmemx_team_t team, ishmemx_request_t *request) {
    struct ishmemx_request asked = {.team = team, .call = {"barrier_nb", -1, -1, -1, 0, NULL, NULL}};
    int status;

    PYSH_ENTER();
    if ((status = pysh_quiet()))
        return status;
    return pysh_request_begin(&asked, pysh_team_check(team), request);
}
