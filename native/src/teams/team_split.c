/* SPDX-License-Identifier: BSD-3-Clause
 * Making teams out of a parent. All its PEs tell each other what they ask for and which slots they have
 * free; each then knows the members of its team, and all members of it choose the same slot. A second
 * round tells that every PE succeeded, so that a team exists either everywhere or nowhere, and that
 * its flags are down before anybody raises one. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"
#include "base/status.h"
#include "node/enter.h"
#include "teams/gather.h"
#include "teams/sync.h"
#include "teams/team.h"

enum { N_ARGUMENTS = 3 };

typedef struct offer { /* what a PE tells the others */
    uint64_t free_slots, dropped_slots;
    int32_t status;              /* what it thinks of its arguments */
    int32_t color, key;          /* may differ between PEs */
    uint32_t equal[N_ARGUMENTS]; /* may not */
} offer_t;

typedef struct request {
    const char *what;
    ishmemx_team_t parent;
    /* The members of this PE's new team, as numbers in the parent; returns how many, 0 when it is in none. */
    int (*choose)(const struct request *request, const offer_t *all, int *members);
    int a, b, c; /* for choose */
    const int *list;
    const char *equal; /* what all PEs must give alike, by name, and how many these are; NULL: the list */
    int n_equal;
    /* May this PE of the parent give other arguments? NULL: no PE may. */
    bool (*may_differ)(const struct request *request, int pe);
    const ishmemx_team_config_t *config;
    long mask;
} request_t;

/* Another PE's refusal makes the call fail here too. */
static int refused(const request_t *request, const offer_t *all) {
    for (int i = 0; i < request->parent->n_pes; i++)
        if (all[i].status)
            return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: PE %d refused its arguments; the message is there",
                             request->what, request->parent->pes[i]);
    return ISHMEMX_OK;
}

/* As "start, stride, size 0, 1, 2". */
static void show_arguments(const request_t *request, const offer_t *offer, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "%s ", request->equal);

    for (int i = 0; i < request->n_equal && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%d", i ? ", " : "", (int)offer->equal[i]);
}

static int tell_arguments(const request_t *request, const offer_t *all, int pe) {
    const struct ishmemx_team *parent = request->parent;
    char here[96], there[96];

    if (!request->equal)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "%s: PE %d gave another list of PEs (of %d) than PE %d (of %d); all PEs must give the same",
                         request->what, parent->pes[pe], (int)all[pe].equal[0], pysh.pe,
                         (int)all[parent->my_pe].equal[0]);
    show_arguments(request, &all[parent->my_pe], here, sizeof here);
    show_arguments(request, &all[pe], there, sizeof there);
    return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: %s on PE %d, but %s on PE %d; all PEs must give the same",
                     request->what, here, pysh.pe, there, parent->pes[pe]);
}

static bool gives_other(const request_t *request, const offer_t *all, int pe) {
    return memcmp(all[pe].equal, all[request->parent->my_pe].equal, sizeof all->equal) != 0;
}

static int split_compare(const request_t *request, const offer_t *all) {
    for (int i = 0; i < request->parent->n_pes; i++)
        if (gives_other(request, all, i) && !(request->may_differ && request->may_differ(request, i)))
            return tell_arguments(request, all, i);
    return ISHMEMX_OK;
}

/* The lowest; in later attempts another one for each parent, or their threads might take it from each other for ever.
 */
static int choose_slot(const request_t *request, uint64_t slots, unsigned attempt) {
    uint64_t hash = ((uint64_t)request->parent->slot << 32 | attempt) * 0x9e3779b97f4a7c15U;

    for (uint64_t skip = attempt ? (hash >> 32) % (unsigned)__builtin_popcountll(slots) : 0; skip; skip--)
        slots &= slots - 1;
    return __builtin_ctzll(slots);
}

static int split_make(const request_t *request, unsigned attempt, const offer_t *all, int *members,
                      ishmemx_team_t *team_p) {
    int n_pes = request->choose(request, all, members), status;
    uint64_t slots = ~0ULL;

    if (!n_pes)
        return ISHMEMX_OK;
    for (int i = 0; i < n_pes; i++) {
        slots &= all[members[i]].free_slots;
        members[i] = request->parent->pes[members[i]];
    }
    if (!slots)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "%s: these PEs have %d teams already; destroy one", request->what,
                         ISHMEMX_MAX_TEAMS);
    status = pysh_team_make(members, n_pes, choose_slot(request, slots, attempt), team_p);
    if (!status && request->mask)
        (*team_p)->config = *request->config;
    return status;
}

/* Fails on all PEs when it failed on one, SLOT_TAKEN only when nothing else did. */
static int conclude(const request_t *request, const offer_t *offers, int status, int32_t *all, ishmemx_team_t *team_p) {
    int32_t mine = status;
    int gathered = pysh_team_gather(request->parent, request->what, &mine, all, sizeof mine);
    bool taken = false;

    if (pysh_is_unfinished(gathered))
        return gathered;

    if (status == PYSH_SLOT_TAKEN)
        status = ISHMEMX_OK;
    for (int i = 0; !gathered && !status && i < request->parent->n_pes; i++) {
        taken |= all[i] == PYSH_SLOT_TAKEN;
        if (all[i] && all[i] != PYSH_SLOT_TAKEN)
            status = gives_other(request, offers, i)
                         ? tell_arguments(request, offers, i)
                         : pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: PE %d could not make its team; the message is there",
                                     request->what, request->parent->pes[i]);
    }
    if (gathered) /* its message is the last one */
        status = gathered;
    else if (!status && taken)
        status = PYSH_SLOT_TAKEN;
    if (status && *team_p) {
        pysh_team_drop(*team_p);
        *team_p = NULL;
    }
    return status;
}

/* `all` has room behind the offers for two numbers a PE. */
static int split_once(const request_t *request, offer_t mine, offer_t *all, unsigned attempt, ishmemx_team_t *team_p) {
    ishmemx_team_t parent = request->parent;
    int *members = (int *)(all + parent->n_pes), status;
    size_t offers_nbytes = (size_t)parent->n_pes * sizeof *all;

    if (!pysh_passed(parent, &status, all, offers_nbytes)) {
        mine.free_slots = pysh_team_free_slots();
        mine.dropped_slots = pysh_team_dropped_slots();
        status =
            pysh_pass(parent, pysh_team_gather(parent, request->what, &mine, all, sizeof mine), all, offers_nbytes);
    }
    if (!status && mine.status)
        return mine.status; /* its message stands */
    if (status || (status = refused(request, all)))
        return status;
    if (!pysh_passed(parent, &status, team_p, sizeof *team_p)) {
        if (!(status = split_compare(request, all)))
            status = split_make(request, attempt, all, members, team_p);
        pysh_pass(parent, status, team_p, sizeof *team_p);
    }
    if (!pysh_passed(parent, &status, team_p, sizeof *team_p)) {
        status = conclude(request, all, status, (int32_t *)members + parent->n_pes, team_p);
        pysh_pass(parent, status, team_p, sizeof *team_p);
    }
    if (pysh_is_unfinished(status))
        return status;
    /* Their slots are free for the next split: in this one the others do not know of it yet. */
    pysh_teams_sweep(parent->pes, parent->n_pes, &all->dropped_slots, sizeof *all);
    return status;
}

/* The parent is claimed. */
static int split_claimed(const request_t *request, offer_t mine, ishmemx_team_t *team_p) {
    size_t n_pes = (size_t)request->parent->n_pes;
    offer_t *all = malloc(n_pes * (sizeof *all + 2 * sizeof(int)));
    unsigned attempt = 0;
    int status;

    *team_p = NULL;
    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "%s: no memory to talk to %zu PEs", request->what, n_pes);
    while ((status = split_once(request, mine, all, attempt, team_p)) == PYSH_SLOT_TAKEN)
        attempt++;
    free(all);
    if (pysh_is_unfinished(status)) /* the team is made, but not by all yet: who makes the call again has it */
        *team_p = NULL;
    return status;
}

static uint64_t split_digest_of(const offer_t *mine) {
    uint64_t digest = pysh_digest((uint64_t)mine->color << 32 | (uint32_t)mine->key, (uint64_t)mine->status);

    for (int i = 0; i < N_ARGUMENTS; i++)
        digest = pysh_digest(digest, mine->equal[i]);
    return digest;
}

static int split(const request_t *request, offer_t mine, ishmemx_team_t *team_p) {
    int status = pysh_team_claim(request->parent, request->what, split_digest_of(&mine));

    if (status)
        return status;
    status = split_claimed(request, mine, team_p);
    pysh_team_unclaim(request->parent, status);
    return status;
}

static int config_check(const char *what, const ishmemx_team_config_t *config, long mask) {
    if (mask & ~(long)ISHMEMX_TEAM_NUM_CONTEXTS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "%s: the configuration mask is %ld; its only bit is TEAM_NUM_CONTEXTS "
                         "(%d)",
                         what, mask, ISHMEMX_TEAM_NUM_CONTEXTS);
    if (mask && !config)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: a configuration mask without a configuration", what);
    if (mask && config->num_contexts < 0)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: num_contexts is %d", what, config->num_contexts);
    return ISHMEMX_OK;
}

/* ---- strided ---- */

static int choose_strided(const request_t *request, const offer_t *all, int *members) {
    bool inside = false;

    (void)all;
    for (int i = 0; i < request->c; i++) {
        members[i] = request->a + i * request->b;
        inside |= members[i] == request->parent->my_pe;
    }
    return inside ? request->c : 0;
}

/* Programs make several teams by one call, each PE with the triplet of its own, against the specification; so only
 * those in the triplet must give the same, unless in checking mode. */
static bool strided_is_disjoint(const request_t *request, int pe) {
    int distance = pe - request->a;

    if (pysh.check)
        return false;
    if (!request->b)
        return distance != 0;
    return distance % request->b || distance / request->b < 0 || distance / request->b >= request->c;
}

static int strided_check(const request_t *request) {
    int64_t n = request->parent->n_pes, start = request->a, stride = request->b, size = request->c;
    int64_t last = start + (size - 1) * stride;

    if (size < 1 || size > n)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: size is %lld; the parent has %lld PEs", request->what,
                         (long long)size, (long long)n);
    if (start < 0 || start >= n)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: start is %lld; the parent's PEs are 0..%lld", request->what,
                         (long long)start, (long long)n - 1);
    if (stride == 0 && size != 1)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: stride 0 is for a team of 1 PE, not of %lld", request->what,
                         (long long)size);
    if (last < 0 || last >= n)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "%s: the last PE would be %lld; the parent's PEs are 0..%lld, and there "
                         "is no wrap-around",
                         request->what, (long long)last, (long long)n - 1);
    return ISHMEMX_OK;
}

int ishmemx_team_split_strided(ishmemx_team_t parent, int start, int stride, int size,
                               const ishmemx_team_config_t *config, long mask, ishmemx_team_t *team_p) {
    request_t request = {.what = "team_split_strided",
                         .parent = parent,
                         .choose = choose_strided,
                         .may_differ = strided_is_disjoint,
                         .equal = "start, stride, size",
                         .n_equal = 3,
                         .a = start,
                         .b = stride,
                         .c = size,
                         .config = config,
                         .mask = mask};
    offer_t mine = {.equal = {(uint32_t)start, (uint32_t)stride, (uint32_t)size}};

    *team_p = NULL;
    PYSH_ENTER();
    if ((mine.status = pysh_team_check(parent)))
        return mine.status;
    if (!(mine.status = strided_check(&request)))
        mine.status = config_check(request.what, config, mask);
    return split(&request, mine, team_p);
}

/* ---- two-dimensional ---- */

static int choose_row(const request_t *request, const offer_t *all, int *members) {
    int xrange = request->a, first = request->parent->my_pe / xrange * xrange, n = 0;

    (void)all;
    for (int pe = first; pe < first + xrange && pe < request->parent->n_pes; pe++)
        members[n++] = pe;
    return n;
}

static int choose_column(const request_t *request, const offer_t *all, int *members) {
    int xrange = request->a, n = 0;

    (void)all;
    for (int pe = request->parent->my_pe % xrange; pe < request->parent->n_pes; pe += xrange)
        members[n++] = pe;
    return n;
}

int ishmemx_team_split_2d(ishmemx_team_t parent, int xrange, const ishmemx_team_config_t *xconfig, long xmask,
                          ishmemx_team_t *xteam_p, const ishmemx_team_config_t *yconfig, long ymask,
                          ishmemx_team_t *yteam_p) {
    request_t request = {.what = "team_split_2d",
                         .parent = parent,
                         .choose = choose_row,
                         .equal = "xrange",
                         .n_equal = 1,
                         .config = xconfig,
                         .mask = xmask};
    offer_t mine = {.equal = {(uint32_t)xrange}};
    int status;

    *xteam_p = *yteam_p = NULL;
    PYSH_ENTER();
    if ((status = pysh_team_check(parent)))
        return status;
    request.a = xrange < parent->n_pes ? xrange : parent->n_pes;
    if (xrange < 1)
        mine.status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: xrange is %d, not at least 1", request.what, xrange);
    if (!mine.status)
        mine.status = config_check(request.what, xconfig, xmask);
    if (!mine.status)
        mine.status = config_check(request.what, yconfig, ymask);
    if ((status = pysh_team_claim(parent, request.what, split_digest_of(&mine))))
        return status;
    if (!(status = split_claimed(&request, mine, xteam_p))) {
        request.choose = choose_column;
        request.config = yconfig;
        request.mask = ymask;
        if ((status = split_claimed(&request, mine, yteam_p))) {
            if (!pysh_is_unfinished(status))
                pysh_team_drop(*xteam_p);
            *xteam_p = NULL;
        }
    }
    pysh_team_unclaim(parent, status);
    return status;
}

/* ---- any list ---- */

static int choose_list(const request_t *request, const offer_t *all, int *members) {
    bool inside = false;

    (void)all;
    for (int i = 0; i < request->c; i++) {
        members[i] = request->list[i];
        inside |= members[i] == request->parent->my_pe;
    }
    return inside ? request->c : 0;
}

static int list_check(const request_t *request, offer_t *mine) {
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a, a word at a time */

    if (request->c < 1 || request->c > request->parent->n_pes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: a list of %d PEs; the parent has %d", request->what, request->c,
                         request->parent->n_pes);
    for (int i = 0; i < request->c; i++) {
        int status = pysh_check_pe(request->list[i], request->parent->n_pes);
        if (status)
            return status;
        for (int k = 0; k < i; k++)
            if (request->list[k] == request->list[i])
                return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: PE %d is in the list twice", request->what,
                                 request->list[i]);
        hash = (hash ^ (uint32_t)request->list[i]) * 1099511628211ULL;
    }
    mine->equal[1] = (uint32_t)hash;
    mine->equal[2] = (uint32_t)(hash >> 32);
    return ISHMEMX_OK;
}

int ishmemx_team_split_list(ishmemx_team_t parent, const int *pes, int n_pes, const ishmemx_team_config_t *config,
                            long mask, ishmemx_team_t *team_p) {
    request_t request = {.what = "team_split_list",
                         .parent = parent,
                         .choose = choose_list,
                         .c = n_pes,
                         .list = pes,
                         .config = config,
                         .mask = mask};
    offer_t mine = {.equal = {(uint32_t)n_pes}};

    *team_p = NULL;
    PYSH_ENTER();
    if ((mine.status = pysh_team_check(parent)))
        return mine.status;
    if (!(mine.status = list_check(&request, &mine)))
        mine.status = config_check(request.what, config, mask);
    return split(&request, mine, team_p);
}

/* ---- by colour ---- */

static int choose_color(const request_t *request, const offer_t *all, int *members) {
    int color = all[request->parent->my_pe].color, n = 0;

    if (color < 0)
        return 0;
    for (int pe = 0; pe < request->parent->n_pes; pe++) {
        int at = n;
        if (all[pe].color != color)
            continue;
        for (; at > 0 && all[members[at - 1]].key > all[pe].key; at--)
            members[at] = members[at - 1];
        members[at] = pe;
        n++;
    }
    return n;
}

int ishmemx_team_split_color(ishmemx_team_t parent, int color, int key, const ishmemx_team_config_t *config, long mask,
                             ishmemx_team_t *team_p) {
    request_t request = {
        .what = "team_split_color", .parent = parent, .choose = choose_color, .config = config, .mask = mask};
    offer_t mine = {.color = color, .key = key};

    *team_p = NULL;
    PYSH_ENTER();
    if ((mine.status = pysh_team_check(parent)))
        return mine.status;
    mine.status = config_check(request.what, config, mask);
    return split(&request, mine, team_p);
}

/* ---- leave and destroy ---- */

int ishmemx_team_leave(ishmemx_team_t team) {
    int status;

    PYSH_ENTER();
    if (!(status = pysh_team_check(team)))
        pysh_team_tell_leaving(team);
    return status;
}

/* All members leave, which keeps the slot from those who would use it again while one of them still reads the stage. */
int ishmemx_team_destroy(ishmemx_team_t team) {
    int status;

    PYSH_ENTER();
    if (!team)
        return ISHMEMX_OK;
    if ((status = pysh_team_check(team)))
        return status;
    if (team == &ishmemx_team_world || team == &ishmemx_team_shared || team == &ishmemx_team_node)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "a predefined team cannot be destroyed");
    if ((status = pysh_team_claim(team, "team_destroy", 0)))
        return status;
    if (!(status = pysh_team_complete_requests(team, "team_destroy")))
        status = pysh_team_leave(team, "team_destroy");
    if (status) /* while a member may still tell of itself here, no other team can have the slot */
        pysh_team_unclaim(team, status);
    else
        pysh_team_drop(team);
    return status;
}
