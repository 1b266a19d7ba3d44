/* SPDX-License-Identifier: BSD-3-Clause
 * See sync.h. A member has a flag at each other one, in the row of the team's slot, and raises it to the number it is
 * at; numbers only rise, so a call that was interrupted can be made again. Few members raise flags at all others at
 * once, so that each PE has to be scheduled only once where there are more PEs than cores; many spread the flags in
 * rounds of doubling distance. Members on several nodes tell the head of theirs, the heads meet, and each tells its
 * members.
 *
 * Who leaves the team raises its flags at all members to one value more, with a bit that no number has. It says how far
 * the member has come: it has passed every number below, and will come to none from there on. So nobody takes it for an
 * arrival, and who would have waited for it fails. A word behind the flags of the row tells a PE that it is worth to
 * look for such a value, as most have to hear only some of the members. */
#include "teams/sync.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"
#include "node/node.h"
#include "node/wait.h"
#include "teams/cells.h"
#include "teams/team.h"
#include "transport/transport.h"

#define FEW_MEMBERS 8
#define MOST_NAMED  8 /* members of a team in a report */

/* A flag of who has left: this bit, the lowest bits of the number of its requests, and those of the first number that
 * it has not passed. Both are compared with what is near to them, so that it does no harm that bits are missing. */
#define LEFT         (UINT64_C(1) << 63)
#define NUMBER_BITS  44
#define REQUEST_BITS 19

static void raise_word(int64_t offset, uint64_t value, int pe) {
    char *peer = pysh.arena[ISHMEMX_HEAP_HOST].peer[pe];

    if (!peer) {
        pysh.transport->raise(offset, value, pe);
        return;
    }
    /* release: pairs with flag_of(), with somebody_left(), and with flag() of request_steps.c */
    __atomic_store_n((uint64_t *)(peer + offset), value, __ATOMIC_RELEASE);
    pysh_wake(pe);
}

void pysh_flag_raise(ishmemx_team_t team, int64_t offset, int member, uint64_t value) {
    raise_word(offset + team->my_pe * (int64_t)sizeof value, value, team->pes[member]);
}

/* In the row of the calling PE: a member's flag, or (n_pes of the job) the word behind them. */
static uint64_t flag_of(const struct ishmemx_team *team, int member) {
    const char *flags = pysh.arena[ISHMEMX_HEAP_HOST].base + team->flags;

    /* acquire: pairs with the release in raise_word() */
    return __atomic_load_n((const uint64_t *)(const void *)flags + member, __ATOMIC_ACQUIRE);
}

/* ---- members that have left ---- */

static bool somebody_left(const struct ishmemx_team *team) {
    return flag_of(team, pysh.n_pes);
}

/* Is `number` at or behind `left`, of which so many bits are known? */
static bool is_behind(uint64_t number, uint64_t left, int bits) {
    return !((number - left) >> (bits - 1) & 1);
}

static bool left_before(uint64_t flag, uint64_t number) {
    return flag & LEFT && is_behind(number, flag, NUMBER_BITS);
}

static bool has_left(const struct ishmemx_team *team, int member) {
    return flag_of(team, member) & LEFT;
}

int pysh_member_tell_left(const struct ishmemx_team *team, const char *what, int member) {
    return pysh_fail(ISHMEMX_ERR_LEFT,
                     "%s: PE %d has left the team, by team_destroy or finalize; no collective of the team can be "
                     "complete without it",
                     what, team->pes[member]);
}

/* Who would wait for a member that never comes to the number fails. */
static int check_left(const pysh_steps_t *steps) {
    if (!somebody_left(steps->team))
        return ISHMEMX_OK;
    for (int i = 0; i < steps->team->n_pes; i++)
        if (i != steps->team->my_pe && left_before(flag_of(steps->team, i), steps->number))
            return pysh_member_tell_left(steps->team, steps->what, i);
    return ISHMEMX_OK;
}

int pysh_team_find_left(const struct ishmemx_team *team) {
    if (!somebody_left(team))
        return -1;
    for (int i = 0; i < team->n_pes; i++)
        if (i != team->my_pe && has_left(team, i))
            return i;
    return -1;
}

int pysh_team_left_before_request(ishmemx_team_t team, const char *what, uint64_t number) {
    if (!somebody_left(team))
        return ISHMEMX_OK;
    for (int i = 0; i < team->n_pes; i++) {
        uint64_t flag = flag_of(team, i);
        if (i != team->my_pe && flag & LEFT && is_behind(number, (flag >> NUMBER_BITS) + 1, REQUEST_BITS))
            return pysh_member_tell_left(team, what, i);
    }
    return ISHMEMX_OK;
}

void pysh_team_tell_leaving(ishmemx_team_t team) {
    uint64_t flag = LEFT | (team->requested & ((UINT64_C(1) << REQUEST_BITS) - 1)) << NUMBER_BITS |
                    ((team->epoch + 1) & ((UINT64_C(1) << NUMBER_BITS) - 1));
    int64_t behind = team->flags + pysh.n_pes * (int64_t)sizeof flag;

    /* Only once: a member that has seen all leave gives the slot away, and its flags may be another team's soon. */
    if (atomic_exchange(&team->leaving, true))
        return;
    for (int i = 1; i < team->n_pes; i++) {
        int member = (team->my_pe + i) % team->n_pes;
        raise_word(behind, 1, team->pes[member]);
        pysh_flag_raise(team, team->flags, member, flag);
    }
}

/* ---- some members ---- */

pysh_steps_t pysh_steps_begin(ishmemx_team_t team, const char *what) {
    return (pysh_steps_t){team, what, team->epoch + 1};
}

void pysh_steps_end(const pysh_steps_t *steps) {
    steps->team->epoch = steps->number;
}

/* Beside ishmemx_team_leave() of another thread: nothing of a collective may come over what the member was told. */
void pysh_tell(const pysh_steps_t *steps, int member) {
    steps->team->resume.told = true;
    if (atomic_load_explicit(&steps->team->leaving, memory_order_relaxed))
        return;
    pysh_flag_raise(steps->team, steps->team->flags, member, steps->number);
}

static bool has_told(const pysh_steps_t *steps, int member) {
    uint64_t flag = flag_of(steps->team, member);

    return flag >= steps->number && !left_before(flag, steps->number);
}

static bool is_leaving(const pysh_steps_t *steps, int member) {
    return has_left(steps->team, member);
}

static void describe_team(const void *of, char *text, size_t capacity) {
    const struct ishmemx_team *team = of;
    size_t used = (size_t)snprintf(text, capacity, "team %d, PEs", team->slot);

    for (int i = 0; i < team->n_pes && i < MOST_NAMED && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%d", i ? ", " : " ", team->pes[i]);
    if (team->n_pes > MOST_NAMED && used < capacity)
        snprintf(text + used, capacity - used, " and %d more", team->n_pes - MOST_NAMED);
}

void pysh_team_wait_begin(ishmemx_team_t team, const char *what, pysh_wait_t *wait) {
    pysh_team_wait_for_members(team, what, wait);
    wait->members = (pysh_members_t){.slot = team->slot, .n_pes = team->n_pes, .pes = team->pes};
}

void pysh_team_wait_for_members(ishmemx_team_t team, const char *what, pysh_wait_t *wait) {
    pysh_wait_begin(wait, what);
    wait->kind = PYSH_WAITS_FOR_WORDS; /* of members: with all PEs in such waits nobody is left to end one */
    if (team && team != &ishmemx_team_world)
        wait->aim = (pysh_wait_aim_t){describe_team, team};
}

/* `leaves`: the caller does itself. */
static int hear(const pysh_steps_t *steps, int member, bool (*told)(const pysh_steps_t *, int), bool leaves) {
    ishmemx_team_t team = steps->team;
    int status = ISHMEMX_OK;
    pysh_wait_t wait;

    if (told(steps, member))
        return ISHMEMX_OK;
    pysh_team_wait_begin(team, steps->what, &wait);
    while (!told(steps, member))
        if ((!leaves && (status = check_left(steps))) || (status = pysh_wait_pause(&wait)))
            break;
    pysh_wait_end(&wait);
    return status;
}

int pysh_hear(const pysh_steps_t *steps, int member) {
    return hear(steps, member, has_told, false);
}

static int sync_few(const pysh_steps_t *steps, const int *members, int n, int mine) {
    int status = ISHMEMX_OK;

    for (int i = 1; i < n; i++)
        pysh_tell(steps, members[(mine + i) % n]);
    for (int i = 1; !status && i < n; i++)
        status = pysh_hear(steps, members[(mine + i) % n]);
    return status;
}

int pysh_sync_members(const pysh_steps_t *steps, const int *members, int n, int mine) {
    int status = ISHMEMX_OK;

    if (n <= FEW_MEMBERS)
        return sync_few(steps, members, n, mine);
    for (int distance = 1; !status && distance < n; distance *= 2) {
        pysh_tell(steps, members[(mine + distance) % n]);
        status = pysh_hear(steps, members[(mine + n - distance) % n]);
    }
    return status;
}

int pysh_sync_node(const pysh_steps_t *steps) {
    const pysh_team_nodes_t *nodes = &steps->team->nodes;
    int first = nodes->first[nodes->mine];

    return pysh_sync_members(steps, nodes->order + first, pysh_node_size(nodes, nodes->mine),
                             nodes->rank[steps->team->my_pe] - first);
}

/* ---- all members ---- */

static int sync_nodes(const pysh_steps_t *steps) {
    const pysh_team_nodes_t *nodes = &steps->team->nodes;
    int size = pysh_node_size(nodes, nodes->mine), head = nodes->head[nodes->mine], status = ISHMEMX_OK;

    if (steps->team->my_pe != head) {
        pysh_tell(steps, head);
        return pysh_hear(steps, head);
    }
    for (int i = 1; !status && i < size; i++)
        status = pysh_hear(steps, pysh_node_member(nodes, nodes->mine, i));
    if (!status)
        status = pysh_sync_members(steps, nodes->head, nodes->n, nodes->mine);
    for (int i = 1; !status && i < size; i++)
        pysh_tell(steps, pysh_node_member(nodes, nodes->mine, i));
    return status;
}

static int sync_all(const pysh_steps_t *steps) {
    const pysh_team_nodes_t *nodes = &steps->team->nodes;

    if (nodes->n > 1 && nodes->n < steps->team->n_pes)
        return sync_nodes(steps);
    return pysh_sync_members(steps, nodes->order, steps->team->n_pes, nodes->rank[steps->team->my_pe]);
}

/* The transport's barrier is for all PEs only. It beats flags, and notices when others are in an allocation. */
static bool by_barrier(ishmemx_team_t team) {
    return team == &ishmemx_team_world;
}

int pysh_team_sync(ishmemx_team_t team, const char *what) {
    pysh_steps_t steps = pysh_steps_begin(team, what);
    int status;

    if (team->n_pes == 1)
        return ISHMEMX_OK;
    status = by_barrier(team) ? pysh.agree->barrier(what, false, NULL) : sync_all(&steps);
    if (status)
        return status;
    if (!by_barrier(team))
        pysh_steps_end(&steps);
    pysh_cells_synced(team);
    return ISHMEMX_OK;
}

int pysh_team_leave(ishmemx_team_t team, const char *what) {
    pysh_steps_t steps = pysh_steps_begin(team, what);
    int status = ISHMEMX_OK;

    pysh_team_tell_leaving(team);
    for (int i = 1; !status && i < team->n_pes; i++)
        status = hear(&steps, (team->my_pe + i) % team->n_pes, is_leaving, true);
    return status;
}

static bool sync_leave(ishmemx_team_t team, void *unused) {
    (void)unused;
    if (team->slot >= 0)
        pysh_team_tell_leaving(team);
    return false;
}

void pysh_teams_leave(void) {
    sync_leave(&ishmemx_team_world, NULL);
    sync_leave(&ishmemx_team_shared, NULL);
    sync_leave(&ishmemx_team_node, NULL);
    pysh_teams_any(sync_leave, NULL);
}
