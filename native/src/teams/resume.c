/* SPDX-License-Identifier: BSD-3-Clause
 * See resume.h. */
#include "teams/resume.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"
#include "base/status.h"
#include "ishmemx.h"
#include "teams/team.h"

#define LEAST_CAPACITY 512
#define MOST_TEXT      512

typedef struct step {
    int status;
    size_t nbytes, text_nbytes;
} step_t;

bool pysh_passed(ishmemx_team_t team, int *status_p, void *result, size_t nbytes) {
    pysh_resume_t *r = &team->resume;
    step_t step;

    if (r->at == r->used)
        return false;
    memcpy(&step, r->steps + r->at, sizeof step);
    r->at += sizeof step;
    if (step.nbytes && step.nbytes == nbytes)
        memcpy(result, r->steps + r->at, nbytes);
    r->at += step.nbytes;
    *status_p = step.status;
    if (step.text_nbytes)
        pysh_fail(step.status, "%s", r->steps + r->at);
    r->at += step.text_nbytes;
    return true;
}

static bool reserve(pysh_resume_t *r, size_t nbytes) {
    size_t capacity = r->capacity ? r->capacity : LEAST_CAPACITY;
    char *grown;

    while (capacity < r->used + nbytes)
        capacity *= 2;
    if (capacity == r->capacity)
        return true;
    grown = realloc(r->steps, capacity);
    if (!grown)
        return false;
    r->steps = grown;
    r->capacity = capacity;
    return true;
}

int pysh_pass(ishmemx_team_t team, int status, const void *result, size_t nbytes) {
    pysh_resume_t *r = &team->resume;
    step_t step = {.status = status, .nbytes = nbytes};
    char text[MOST_TEXT];

    if (pysh_is_unfinished(status) || r->lost)
        return status;
    if (status)
        step.text_nbytes = (size_t)snprintf(text, sizeof text, "%.*s", MOST_TEXT - 1, ishmemx_error()) + 1;
    if (!reserve(r, sizeof step + nbytes + step.text_nbytes)) {
        r->lost = true;
        return status;
    }
    memcpy(r->steps + r->used, &step, sizeof step);
    r->used += sizeof step;
    if (nbytes)
        memcpy(r->steps + r->used, result, nbytes);
    r->used += nbytes;
    if (step.text_nbytes)
        memcpy(r->steps + r->used, text, step.text_nbytes);
    r->used += step.text_nbytes;
    r->at = r->used;
    return status;
}

void pysh_passed_all(ishmemx_team_t team) {
    pysh_resume_t *r = &team->resume;

    r->used = r->at = 0;
    r->kept = r->told = r->compared = r->lost = false;
}

/* ---- the beginning and the end of a call ---- */

static int resume_begin(pysh_resume_t *r, const char *what, uint64_t about) {
    r->what = what;
    r->about = about;
    r->at = 0;
    if (!r->kept || (!r->lost && r->kept_about == about && strncmp(r->kept_what, what, sizeof r->kept_what - 1) == 0))
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_STATE,
                     "%s: a call of %s ended before PE %d had met all the others, which wait in it; %s", what,
                     r->kept_what, pysh.pe,
                     r->lost ? "there was no memory to go on with it: destroy the team, or end the job"
                             : "make it again, with the same arguments, before other collectives of the team");
}

static void resume_end(ishmemx_team_t team, int status) {
    pysh_resume_t *r = &team->resume;

    if (!r->what)
        return;
    if (!pysh_is_unfinished(status) || !(r->used || r->told || r->lost)) {
        pysh_passed_all(team);
        return;
    }
    r->kept = true;
    r->kept_about = r->about;
    snprintf(r->kept_what, sizeof r->kept_what, "%s", r->what);
}

static int may_begin(ishmemx_team_t team, const char *what, uint64_t about) {
    team->resume.what = NULL;
    if (strcmp(what, "team_destroy") == 0 || strcmp(what, "finalize") == 0)
        return ISHMEMX_OK;
    if (team->leaving)
        return pysh_fail(ISHMEMX_ERR_STATE,
                         "%s: PE %d has begun to destroy the team, and told the other members; call destroy again",
                         what, pysh.pe);
    return resume_begin(&team->resume, what, about);
}

static _Thread_local ishmemx_team_t claimed; /* by this thread last; team->claimed_before is the one before */

const char *pysh_team_inside(void) {
    return claimed ? claimed->claimed_for : NULL;
}

static void give_up(ishmemx_team_t team) {
    claimed = team->claimed_before;
    atomic_store_explicit(&team->busy, 0, memory_order_release);
}

int pysh_team_claim(ishmemx_team_t team, const char *what, uint64_t about) {
    uintptr_t self = (uintptr_t)pthread_self(), other = 0;
    int status;

    /* acquire: pairs with the release in give_up() */
    if (atomic_compare_exchange_strong_explicit(&team->busy, &other, self, memory_order_acquire,
                                                memory_order_relaxed)) {
        team->claimed_for = what;
        team->claimed_before = claimed;
        claimed = team;
        if ((status = may_begin(team, what, about)))
            give_up(team);
        return status;
    }
    if (other == self)
        return pysh_fail(
            ISHMEMX_ERR_STATE,
            "%s: this thread is in %s of the same team; a signal's handler cannot begin another inside of it", what,
            team->claimed_for);
    return pysh_fail(ISHMEMX_ERR_STATE,
                     "%s: another thread of PE %d is in a collective routine of the same team; one at a time", what,
                     pysh.pe);
}

void pysh_team_unclaim(ishmemx_team_t team, int status) {
    resume_end(team, status);
    give_up(team);
}
