/* SPDX-License-Identifier: BSD-3-Clause
 * What all collectives share. Small messages go through the team's stage (teams/stage.c); large ones are read straight
 * from the members' sources, between two syncs. */
#include "collectives/collective.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree/agree.h"
#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/address.h"
#include "teams/cells.h"
#include "teams/gather.h"
#include "teams/stage.h"
#include "teams/sync.h"
#include "teams/team.h"
#include "transport/quiet.h"

/* ---- agreement, in checking mode and on the first calls of a team ---- */

/* No small number, which a member's data may have where its record would stand. */
#define FIRST_TURN UINT64_C(0x7079736800000000)

/* What is the same on all members when they take one symmetric array. */
static int64_t call_place_of(const void *address, const char *what) {
    int64_t offset;
    int heap;

    if (!address || pysh_heap_locate(address, 1, what, &heap, &offset))
        return -1;
    return offset | (int64_t)heap << 56;
}

pysh_record_t pysh_record_of(const pysh_call_t *call, int status) {
    bool compared = pysh.check && !status && call->nbytes;
    pysh_record_t record = {.op = call->op,
                            .type = call->type,
                            .root = call->root,
                            .status = status,
                            .nbytes = call->nbytes,
                            .dest = compared ? call_place_of(call->dest, "dest") : -1,
                            .source = compared ? call_place_of(call->source, "source") : -1};

    snprintf(record.routine, sizeof record.routine, "%s", call->routine);
    return record;
}

static int tell_sizes(const pysh_call_t *call, const pysh_record_t *mine, const pysh_record_t *other, int pe) {
    unsigned long long here = mine->nbytes, there = other->nbytes, width = pysh_type_width(mine->type);
    char elements[64] = "";

    if (strstr(mine->routine, "reduce") || strstr(mine->routine, "scan")) /* those have a type */
        snprintf(elements, sizeof elements, " (%llu and %llu elements)", here / width, there / width);
    return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: %llu bytes on PE %d, but %llu on PE %d%s; all PEs must give as many",
                     call->routine, here, pysh.pe, there, pe, elements);
}

int pysh_record_compare(const pysh_call_t *call, const pysh_record_t *mine, const pysh_record_t *other, int pe) {
    if (!memcmp(mine, other, sizeof *mine))
        return ISHMEMX_OK;
    if (other->turn != mine->turn)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "%s on PE %d, but a sync, split or destroy on PE %d; all PEs must call the same ones in the "
                         "same order",
                         mine->routine, pysh.pe, pe);
    if (other->status)
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: PE %d refused its arguments; the message is there", call->routine,
                         pe);
    if (strcmp(mine->routine, other->routine) != 0)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "%s on PE %d, but %s on PE %d; all PEs must call the same ones in the same order",
                         mine->routine, pysh.pe, other->routine, pe);
    if (mine->type != other->type && strncmp(mine->routine, "alltoall", strlen("alltoall")) != 0)
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: %s on PE %d, but %s on PE %d; all PEs must give one type",
                         call->routine, pysh_type_shown(mine->type), pysh.pe, pysh_type_shown(other->type), pe);
    if (mine->nbytes != other->nbytes)
        return tell_sizes(call, mine, other, pe);
    if (mine->root != other->root)
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: root %d on PE %d, but %d on PE %d; all PEs must give one",
                         call->routine, mine->root, pysh.pe, other->root, pe);
    if (mine->dest != other->dest || mine->source != other->source)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "%s: %s is another array on PE %d than on PE %d; all PEs must give the same symmetric one",
                         call->routine, mine->dest != other->dest ? "dest" : "source", pysh.pe, pe);
    return pysh_fail(ISHMEMX_ERR_MISMATCH, "%s: other strides on PE %d than on PE %d", call->routine, pysh.pe, pe);
}

bool pysh_coll_compares(unsigned n) {
    return pysh.check || n < pysh.check_first;
}

static bool compares(const struct ishmemx_team *team) {
    return team->n_pes > 1 && (team->resume.compared || pysh_coll_compares(team->compared));
}

static int agree(ishmemx_team_t team, const pysh_call_t *call, int status) {
    pysh_record_t mine, *all;
    int outcome;

    if (pysh_passed(team, &outcome, NULL, 0))
        return status ? status : outcome;
    mine = pysh_record_of(call, status);
    all = calloc((size_t)team->n_pes, sizeof *all);
    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "%s: no memory to compare arguments", call->routine);
    if (team == &ishmemx_team_world) { /* it tells besides when others are in a barrier */
        outcome = pysh.agree->exchange(call->routine, &mine, all, sizeof mine);
    } else {
        /* A member that is in a sync has staged no record: what is there is left from another turn. */
        mine.turn = FIRST_TURN + team->staged;
        outcome = pysh_team_gather(team, call->routine, &mine, all, sizeof mine);
    }
    if (!outcome) { /* all have, so all count the same */
        team->compared++;
        team->resume.compared = true;
    }
    for (int i = 0; !outcome && !status && i < team->n_pes; i++)
        outcome = pysh_record_compare(call, &mine, &all[i], team->pes[i]);
    free(all);
    if (pysh_is_unfinished(outcome))
        return outcome;
    return pysh_pass(team, status ? status : outcome, NULL, 0);
}

static uint64_t call_digest_of(const pysh_call_t *call) {
    uint64_t numbers = (uint64_t)call->op << 40 ^ (uint64_t)call->type << 20 ^ (uint64_t)call->root;

    return pysh_digest(pysh_digest(pysh_digest(numbers, call->nbytes), (uintptr_t)call->dest), (uintptr_t)call->source);
}

int pysh_coll_begin(ishmemx_team_t team, const pysh_call_t *call, int status) {
    int claimed;

    if (!team || team->slot < 0)
        return status;
    if ((claimed = pysh_team_claim(team, call->routine, call_digest_of(call))))
        return status ? status : claimed;
    if (__builtin_expect(compares(team), 0))
        status = agree(team, call, status);
    if (status)
        pysh_team_unclaim(team, status);
    return status;
}

/* ---- beginning and end ---- */

int pysh_coll_check(ishmemx_team_t team, const void *dest, size_t dest_bytes, const void *source, size_t source_bytes,
                    pysh_place_t *dest_p, pysh_place_t *source_p) {
    int status = pysh_team_check(team);

    if (!status && dest_bytes)
        status = pysh_heap_find(dest, dest_bytes, "dest", &dest_p->heap, &dest_p->offset);
    if (!status && source_bytes)
        status = pysh_heap_find(source, source_bytes, "source", &source_p->heap, &source_p->offset);
    return status;
}

int pysh_coll_start(ishmemx_team_t team, const char *what, uint64_t about) {
    int status;

    if (pysh_passed(team, &status, NULL, 0))
        return status;
    if (pysh_cells_are_told(about))
        pysh_cells_tell(team, about);
    status = pysh_team_sync(team, what);
    if (!status && pysh_cells_are_told(about))
        status = pysh_cells_compare(team, what, about);
    return pysh_pass(team, status, NULL, 0);
}

/* Whatever became of the copies, the sync takes place: the other members are in it. */
int pysh_coll_end(ishmemx_team_t team, const char *what, int status) {
    int delivered = pysh_quiet_transport();
    int synced = pysh_team_sync(team, what);

    if (pysh_is_unfinished(synced))
        return synced;
    pysh_passed_all(team);
    return status ? status : delivered ? delivered : synced;
}
