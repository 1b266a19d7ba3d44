/* SPDX-License-Identifier: BSD-3-Clause
 * Teams: who is in them, and how any of them synchronises.
 *
 * A team has a slot in tables of the host arena's system region, the same on all its members: a row of
 * flags, one a member, by which they meet (teams/sync.c), a stage (teams/stage.c), and room for what nodes
 * exchange (teams/exchange.h). */
#include "teams/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"
#include "base/status.h"
#include "memory/system_region.h"
#include "node/enter.h"
#include "node/node.h"
#include "teams/cells.h"
#include "teams/ctx.h"
#include "teams/exchange.h"

/* Of a team's stage, in its two halves, and of its ring of cells behind that. */
#define STAGE_NBYTES (2LL * PYSH_STAGE_BYTES)
#define CELLS_NBYTES ((int64_t)PYSH_CELLS * PYSH_CELL_BYTES)
#define KEPT_HANDLES 256 /* destroyed teams whose handles are still told from live ones */

enum { SLOT_WORLD = PYSH_WORLD_SLOT, SLOT_SHARED, SLOT_NODE, SLOTS_PREDEFINED };

struct ishmemx_team ishmemx_team_world = {.slot = -1}, ishmemx_team_shared = {.slot = -1},
                    ishmemx_team_node = {.slot = -1};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for what follows */
static uint64_t free_slots;
static ishmemx_team_t live, oldest_dead, newest_dead;
static int n_dead;
static _Atomic(ishmemx_team_t) at_slot[ISHMEMX_MAX_TEAMS];
/* Of pysh_team_use() and unuse(). Who uses a slot counts itself, then looks who is there; who ends the team takes it
 * from there, then looks whether it is used: at least one of the two sees the other. */
static _Atomic int users[ISHMEMX_MAX_TEAMS];

/* ---- the tables ---- */

static int64_t team_flags_nbytes(int n_pes) {
    return ((n_pes + 1LL) * (int64_t)sizeof(uint64_t) + PYSH_CACHE_LINE - 1) / PYSH_CACHE_LINE * PYSH_CACHE_LINE;
}

static int64_t all_flags_nbytes(int n_pes) {
    return (ISHMEMX_MAX_TEAMS * team_flags_nbytes(n_pes) + 4095) & -4096;
}

static int64_t request_slots_nbytes(int64_t flags_nbytes) {
    return PYSH_REQUEST_SLOTS * (PYSH_ANNOUNCEMENT_BYTES + flags_nbytes);
}

static int64_t exchange_begin(int n_pes) {
    int64_t end = all_flags_nbytes(n_pes) +
                  ISHMEMX_MAX_TEAMS * (STAGE_NBYTES + CELLS_NBYTES + request_slots_nbytes(team_flags_nbytes(n_pes)));

    return (end + 4095) & -4096;
}

int64_t pysh_team_tables_nbytes(int n_pes) {
    return exchange_begin(n_pes) + pysh_exchange_at(ISHMEMX_MAX_TEAMS);
}

int64_t pysh_team_request_nbytes(ishmemx_team_t team) {
    return PYSH_ANNOUNCEMENT_BYTES + team->flags_nbytes;
}

/* The caller makes sure that all members have run this before any of them raises a flag. */
static void team_place(ishmemx_team_t team, int slot) {
    int64_t slots_nbytes, stages = PYSH_SYSTEM_BYTES + all_flags_nbytes(pysh.n_pes);
    char *base = pysh.arena[ISHMEMX_HEAP_HOST].base;

    team->slot = slot;
    team->flags_nbytes = team_flags_nbytes(pysh.n_pes);
    slots_nbytes = request_slots_nbytes(team->flags_nbytes);
    team->flags = PYSH_SYSTEM_BYTES + slot * team_flags_nbytes(pysh.n_pes);
    team->stage = stages + slot * (STAGE_NBYTES + CELLS_NBYTES);
    team->cells = team->stage + STAGE_NBYTES;
    team->requests = stages + ISHMEMX_MAX_TEAMS * (STAGE_NBYTES + CELLS_NBYTES) + slot * slots_nbytes;
    team->exchange = PYSH_SYSTEM_BYTES + exchange_begin(pysh.n_pes) + pysh_exchange_at(slot);
    memset(base + team->flags, 0, (size_t)team->flags_nbytes);
    memset(base + team->requests, 0, (size_t)slots_nbytes);
    memset(base + team->cells, 0, (size_t)CELLS_NBYTES);
    if (pysh.check || pysh.check_first) /* a member that stages no record is known by an old one, which must not be of
                                         * the slot's last team
                                         */
        memset(base + team->stage, 0, STAGE_NBYTES);
}

/* ---- those above who must know of teams ---- */

static int (*_Atomic kernels_changed)(const struct ishmemx_team *team, int slot);
static int (*_Atomic requests_complete)(ishmemx_team_t team, const char *what);

void pysh_team_set_kernels(int (*changed)(const struct ishmemx_team *team, int slot)) {
    atomic_store(&kernels_changed, changed);
}

void pysh_team_set_requests(int (*complete)(ishmemx_team_t team, const char *what)) {
    atomic_store(&requests_complete, complete);
}

static int tell_kernels(const struct ishmemx_team *team, int slot) {
    int (*changed)(const struct ishmemx_team *team, int slot) = atomic_load(&kernels_changed);

    return changed ? changed(team, slot) : ISHMEMX_OK;
}

int pysh_team_complete_requests(ishmemx_team_t team, const char *what) {
    int (*complete)(ishmemx_team_t team, const char *what) = atomic_load(&requests_complete);

    return complete ? complete(team, what) : ISHMEMX_OK;
}

/* ---- making and destroying ---- */

/* Until nobody uses the team by its slot, nor finds it there. Users take no lock of this file. */
static void await_users(ishmemx_team_t team) {
    if (team->slot < 0)
        return;
    atomic_compare_exchange_strong(&at_slot[team->slot], &(ishmemx_team_t){team}, NULL);
    while (atomic_load(&users[team->slot]))
        sched_yield();
}

static int team_fill(ishmemx_team_t team, const int *pes, int n_pes, int slot) {
    int *copy = malloc((size_t)n_pes * sizeof *copy), status;

    if (!copy)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a team of %d PEs", n_pes);
    memcpy(copy, pes, (size_t)n_pes * sizeof *copy);
    *team = (struct ishmemx_team){.n_pes = n_pes, .my_pe = -1, .pes = copy};
    for (int i = 0; i < n_pes; i++)
        if (pes[i] == pysh.pe)
            team->my_pe = i;
    if ((status = pysh_team_nodes_make(team)))
        return status;
    team_place(team, slot);
    atomic_store(&at_slot[slot], team);
    if ((status = tell_kernels(team, slot)))
        await_users(team);
    return status;
}

static void empty(ishmemx_team_t team) {
    free(team->resume.steps);
    pysh_team_nodes_drop(team);
    free(team->pes);
    *team = (struct ishmemx_team){.my_pe = -1, .slot = -1};
}

/* With the mutex held: the handle that has been dead for longest, or a new one. */
static ishmemx_team_t handle_take(void) {
    ishmemx_team_t team = oldest_dead;

    if (n_dead < KEPT_HANDLES)
        return calloc(1, sizeof *team);
    oldest_dead = team->next;
    n_dead--;
    return team;
}

static void handle_bury(ishmemx_team_t team) {
    empty(team);
    if (n_dead++ == 0)
        oldest_dead = team;
    else
        newest_dead->next = team;
    newest_dead = team;
}

int pysh_team_make(const int *pes, int n_pes, int slot, ishmemx_team_t *team_p) {
    ishmemx_team_t team;
    int status;

    pthread_mutex_lock(&mutex);
    if (!(free_slots >> slot & 1)) {
        pthread_mutex_unlock(&mutex);
        return PYSH_SLOT_TAKEN;
    }
    team = handle_take();
    status = team ? team_fill(team, pes, n_pes, slot) : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a team");
    if (!status) {
        team->next = live;
        live = team;
        free_slots &= ~(1ULL << slot);
        *team_p = team;
    } else if (team) {
        handle_bury(team);
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

static bool is(ishmemx_team_t team, void *wanted) {
    return team == wanted;
}

/* The first team for which `holds`, which is off the list then, so that one thread alone gets it. */
static ishmemx_team_t take_off(bool (*holds)(ishmemx_team_t team, void *argument), void *argument) {
    ishmemx_team_t *at = &live, team;

    pthread_mutex_lock(&mutex);
    while (*at && !holds(*at, argument))
        at = &(*at)->next;
    team = *at;
    if (team) {
        *at = team->next;
        atomic_store(&team->ended, true); /* before the look for its contexts: pairs with ishmemx_ctx_create() */
    }
    pthread_mutex_unlock(&mutex);
    return team;
}

static void team_end(ishmemx_team_t team) {
    pysh_ctx_drop_team(team);
    await_users(team);
    pthread_mutex_lock(&mutex);
    free_slots |= 1ULL << team->slot;
    tell_kernels(NULL, team->slot);
    handle_bury(team);
    pthread_mutex_unlock(&mutex);
}

void pysh_team_drop(ishmemx_team_t team) {
    if (take_off(is, team))
        team_end(team);
}

void pysh_teams_drop(bool (*holds)(ishmemx_team_t team, void *argument), void *argument) {
    for (ishmemx_team_t team; (team = take_off(holds, argument));)
        team_end(team);
}

bool pysh_teams_any(bool (*holds)(ishmemx_team_t team, void *argument), void *argument) {
    ishmemx_team_t team;

    pthread_mutex_lock(&mutex);
    for (team = live; team && !holds(team, argument); team = team->next)
        continue;
    pthread_mutex_unlock(&mutex);
    return team;
}

ishmemx_team_t pysh_team_use(int slot) {
    if (slot < 0 || slot >= ISHMEMX_MAX_TEAMS)
        return NULL;
    atomic_fetch_add(&users[slot], 1);
    return atomic_load(&at_slot[slot]);
}

void pysh_team_unuse(int slot) {
    if (slot >= 0 && slot < ISHMEMX_MAX_TEAMS)
        atomic_fetch_sub(&users[slot], 1);
}

uint64_t pysh_team_free_slots(void) {
    uint64_t slots;

    pthread_mutex_lock(&mutex);
    slots = free_slots;
    pthread_mutex_unlock(&mutex);
    return slots;
}

/* Can the caller load and store every heap of `pe`? */
static bool shares(int pe) {
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        if (pysh.arena[heap].base && !pysh.arena[heap].peer[pe])
            return false;
    return true;
}

int pysh_teams_setup(void) {
    int *pes = malloc((size_t)pysh.n_pes * sizeof *pes), n_pes = 0, status;

    if (!pes)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a team of %d PEs", pysh.n_pes);
    for (int pe = 0; pe < pysh.n_pes; pe++)
        pes[pe] = pe;
    status = team_fill(&ishmemx_team_world, pes, pysh.n_pes, SLOT_WORLD);
    for (int pe = 0; pe < pysh.n_pes; pe++)
        if (pysh_near(pe) && shares(pe))
            pes[n_pes++] = pe;
    if (!status)
        status = team_fill(&ishmemx_team_shared, pes, n_pes, SLOT_SHARED);
    n_pes = 0;
    for (int pe = 0; pe < pysh.n_pes; pe++)
        if (pysh_near(pe))
            pes[n_pes++] = pe;
    if (!status)
        status = team_fill(&ishmemx_team_node, pes, n_pes, SLOT_NODE);
    free(pes);
    free_slots = ~((1ULL << SLOTS_PREDEFINED) - 1);
    return status;
}

static bool whichever(ishmemx_team_t team, void *unused) {
    (void)team;
    (void)unused;
    return true;
}

void pysh_teams_teardown(void) {
    ishmemx_team_t predefined[] = {&ishmemx_team_world, &ishmemx_team_shared, &ishmemx_team_node};

    pysh_ctx_drop_team(NULL);
    pysh_teams_drop(whichever, NULL);
    for (size_t i = 0; i < sizeof predefined / sizeof *predefined; i++) {
        await_users(predefined[i]);
        empty(predefined[i]);
    }
}

/* ---- sync ---- */

int pysh_team_check(ishmemx_team_t team) {
    if (!team)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the team is invalid (a null handle)");
    if (team->slot < 0)
        return pysh_fail(ISHMEMX_ERR_STATE, "the team was destroyed");
    return ISHMEMX_OK;
}

static bool is_busy(ishmemx_team_t team, void *unused) {
    (void)unused;
    return atomic_load(&team->busy) != 0;
}

bool pysh_teams_busy(void) {
    return is_busy(&ishmemx_team_world, NULL) || is_busy(&ishmemx_team_shared, NULL) ||
           is_busy(&ishmemx_team_node, NULL) || pysh_teams_any(is_busy, NULL);
}

/* ---- what teams tell ---- */

static bool usable(ishmemx_team_t team) {
    return pysh.ready && team && team->slot >= 0;
}

int ishmemx_team_my_pe(ishmemx_team_t team) {
    return usable(team) ? team->my_pe : -1;
}

int ishmemx_team_n_pes(ishmemx_team_t team) {
    return usable(team) ? team->n_pes : -1;
}

int ishmemx_team_world_pe(ishmemx_team_t team, int pe) {
    return usable(team) && pe >= 0 && pe < team->n_pes ? team->pes[pe] : -1;
}

int ishmemx_team_translate_pe(ishmemx_team_t source, int pe, ishmemx_team_t dest) {
    int world = ishmemx_team_world_pe(source, pe);

    if (world < 0 || !usable(dest))
        return -1;
    if (dest == &ishmemx_team_world)
        return world;
    for (int i = 0; i < dest->n_pes; i++)
        if (dest->pes[i] == world)
            return i;
    return -1;
}

int ishmemx_team_get_config(ishmemx_team_t team, long mask, ishmemx_team_config_t *config) {
    int status;

    PYSH_ENTER();
    if ((status = pysh_team_check(team)))
        return status;
    if (mask & ~(long)ISHMEMX_TEAM_NUM_CONTEXTS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the configuration mask is %ld; its only bit is TEAM_NUM_CONTEXTS (%d)",
                         mask, ISHMEMX_TEAM_NUM_CONTEXTS);
    if (mask)
        config->num_contexts = team->config.num_contexts;
    return ISHMEMX_OK;
}
