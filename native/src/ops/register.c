/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that was not made on a heap becomes the remote side of put and get: all members of a team tell each other
 * where theirs is, open it, and hear whether all could. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/accel.h"
#include "accel/copy.h"
#include "agree/agree.h"
#include "base/clock.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/registered.h"
#include "memory/static_copy.h"
#include "node/enter.h"
#include "node/node.h"
#include "teams/gather.h"
#include "teams/resume.h"
#include "teams/team.h"
#include "transport/quiet.h"

typedef struct offer { /* what a member tells the others of its memory */
    int32_t status, on_gpu;
    uint64_t nbytes;
    uintptr_t there, sign; /* at `sign` is `value`: what proves that a process number means that process here */
    uint64_t value;
    int64_t pid;
    pysh_lent_t lent;
    char text[160]; /* why it is refused */
} offer_t;
_Static_assert(sizeof(offer_t) <= PYSH_STAGE_BYTES, "a gather has no more");

static uint64_t own_sign;

/* ---- who comes ---- */

/* No small number, which a member's stage may have where its call would stand. */
#define FIRST_TURN UINT64_C(0x7079736d00000000)

typedef struct meeting { /* what all members say first */
    uint64_t turn;       /* of the team's stage: a member in a sync has staged nothing, what is there is left over */
    char what[16];
} arrival_t;

/* Are all members in this routine? Of all PEs the agreement tells besides when others are in a barrier. */
static int all_come(ishmemx_team_t team, const char *what) {
    arrival_t mine = {.turn = team == &ishmemx_team_world ? 0 : FIRST_TURN + team->staged}, *all;
    int status;

    if (pysh_passed(team, &status, NULL, 0))
        return status;
    if (!(all = calloc((size_t)team->n_pes, sizeof *all)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "%s: no memory to meet %d PEs", what, team->n_pes);
    snprintf(mine.what, sizeof mine.what, "%s", what);
    if (team == &ishmemx_team_world)
        status = pysh.agree->exchange(what, &mine, all, sizeof mine);
    else
        status = pysh_team_gather(team, what, &mine, all, sizeof mine);
    for (int i = 0; !status && i < team->n_pes; i++)
        if (all[i].turn != mine.turn || memcmp(all[i].what, mine.what, sizeof mine.what) != 0)
            status = pysh_fail(ISHMEMX_ERR_MISMATCH,
                               "%s on PE %d, but another collective routine on PE %d; all PEs must call the same ones "
                               "in the same order",
                               what, pysh.pe, team->pes[i]);
    free(all);
    return pysh_pass(team, status, NULL, 0);
}

/* ---- what is offered ---- */

static int check_overlaps(const char *address, size_t nbytes) {
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++) {
        const pysh_arena_t *arena = &pysh.arena[heap];
        if (arena->base && address < arena->base + arena->nbytes && arena->base < address + nbytes)
            return pysh_fail(ISHMEMX_ERR_ARGUMENT, "it is on a symmetric heap, where all reach it already");
    }
    if (pysh_registered_any(address, nbytes))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "it is registered already, or a part of it is");
    return ISHMEMX_OK;
}

static int offer_of(void *address, size_t nbytes, offer_t *offer) {
    int status;

    memset(offer, 0, sizeof *offer);
    if (!own_sign)
        own_sign = (uint64_t)pysh_now_ns() ^ (uint64_t)getpid() << 40;
    offer->nbytes = nbytes;
    offer->there = (uintptr_t)address;
    offer->sign = (uintptr_t)&own_sign;
    offer->value = own_sign;
    offer->pid = getpid();
    if (!address || !nbytes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "it has no elements");
    if ((status = check_overlaps(address, nbytes)))
        return status;
    offer->on_gpu = pysh_on_gpu(address);
    if (!offer->on_gpu)
        return ISHMEMX_OK;
    if (!pysh.p2p)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "it is a GPU's, which with PYSHMEM_P2P=0 no other PE maps");
    return pysh.accel->lend(address, nbytes, &offer->lent);
}

/* The same verdict on all members; the text of one's own failure is its own. */
static int compare(ishmemx_team_t team, const offer_t *all) {
    const offer_t *mine = &all[team->my_pe];

    for (int i = 0; i < team->n_pes; i++)
        if (all[i].status)
            return pysh_fail(all[i].status, "register: the memory of PE %d cannot be registered: %.*s", team->pes[i],
                             (int)sizeof all[i].text, all[i].text);
    for (int i = 0; i < team->n_pes; i++) {
        if (all[i].nbytes != mine->nbytes)
            return pysh_fail(
                ISHMEMX_ERR_MISMATCH, "register: %llu bytes on PE %d, but %llu on PE %d; all PEs must register as many",
                (unsigned long long)mine->nbytes, pysh.pe, (unsigned long long)all[i].nbytes, team->pes[i]);
        if (all[i].on_gpu != mine->on_gpu)
            return pysh_fail(ISHMEMX_ERR_MISMATCH, "register: memory of the %s on PE %d, but of the %s on PE %d",
                             mine->on_gpu ? "GPU" : "host", pysh.pe, all[i].on_gpu ? "GPU" : "host", team->pes[i]);
    }
    return ISHMEMX_OK;
}

/* ---- opening ---- */

/* Does the kernel copy between this process and that one, and does its number mean it here? Its memory's first and last
 * byte are read: pages that belong to a device are nobody else's. */
static int try_process(const offer_t *offer, int pe) {
    char byte;
    pid_t pid = (pid_t)offer->pid;

    if (!pysh_process_is(pid, offer->sign, offer->value))
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "register: the system does not let this process copy from and to that of PE %d "
                         "(process_vm_writev): kernel.yama.ptrace_scope is to be 0, and a container needs SYS_PTRACE",
                         pe);
    if (!pysh_copy_from_process(pid, &byte, offer->there, 1) ||
        !pysh_copy_from_process(pid, &byte, offer->there + offer->nbytes - 1, 1))
        return pysh_fail(
            ISHMEMX_ERR_UNSUPPORTED,
            "register: no other process can read the memory of PE %d: it is a device's, as cudaHostAlloc's (that "
            "of cudaHostRegister is taken), or behind its file's end",
            pe);
    return ISHMEMX_OK;
}

static int open_one(const offer_t *offer, int pe, pysh_registered_peer_t *peer) {
    *peer = (pysh_registered_peer_t){.pid = (pid_t)offer->pid, .there = offer->there, .lent = offer->lent};
    peer->lent.opened = 0;
    peer->member = true;
    if (pe == pysh.pe) {
        peer->here = (char *)offer->there;
        return ISHMEMX_OK;
    }
    if (!pysh_node.slot[pe] || !pysh_near(pe))
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "register: PE %d is on another node", pe);
    return offer->on_gpu ? pysh.accel->open(&peer->lent, pe, &peer->here) : try_process(offer, pe);
}

static int open_all(ishmemx_team_t team, const offer_t *all, pysh_registered_t **made_p) {
    const offer_t *mine = &all[team->my_pe];
    pysh_registered_t *made = calloc(1, sizeof *made);
    int status = ISHMEMX_OK;

    *made_p = made;
    if (!made || !(made->peer = calloc((size_t)pysh.n_pes, sizeof *made->peer)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "register: no memory for a table of %d PEs", pysh.n_pes);
    made->base = (char *)mine->there;
    made->nbytes = mine->nbytes;
    made->on_gpu = mine->on_gpu;
    for (int i = 0; !status && i < team->n_pes; i++)
        status = open_one(&all[i], team->pes[i], &made->peer[team->pes[i]]);
    return status ? status : pysh_registered_add(made);
}

/* Fails on all members when it failed on one. */
static int conclude_open(ishmemx_team_t team, int status) {
    offer_t mine = {.status = status}, *all = calloc((size_t)team->n_pes, sizeof *all);
    int outcome;

    if (status)
        snprintf(mine.text, sizeof mine.text, "%s", ishmemx_error());
    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "register: no memory to hear %d PEs", team->n_pes);
    outcome = pysh_team_gather(team, "register", &mine, all, sizeof mine);
    if (!outcome && status)
        pysh_fail(status, "%.*s", (int)sizeof mine.text, mine.text);
    for (int i = 0; !outcome && !status && i < team->n_pes; i++)
        if (all[i].status)
            outcome = pysh_fail(all[i].status, "PE %d: %.*s", team->pes[i], (int)sizeof all[i].text, all[i].text);
    free(all);
    return outcome ? outcome : status;
}

/* ---- the calls ---- */

/* With the team claimed; `all` has room for all members' offers. */
static int register_claimed(ishmemx_team_t team, void *address, size_t nbytes, offer_t *all) {
    size_t all_nbytes = (size_t)team->n_pes * sizeof *all;
    pysh_registered_t *made = NULL;
    int status, opened;

    if ((status = all_come(team, "register")))
        return status;
    if (!pysh_passed(team, &status, all, all_nbytes)) {
        offer_t mine;
        mine.status = status = offer_of(address, nbytes, &mine);
        if (status)
            snprintf(mine.text, sizeof mine.text, "%s", ishmemx_error());
        mine.status = status;
        status = pysh_pass(team, pysh_team_gather(team, "register", &mine, all, sizeof mine), all, all_nbytes);
    }
    if (status || (status = compare(team, all)))
        return status;
    if (!pysh_passed(team, &opened, &made, sizeof made))
        pysh_pass(team, opened = open_all(team, all, &made), &made, sizeof made);
    if (!pysh_passed(team, &status, NULL, 0))
        pysh_pass(team, status = conclude_open(team, opened), NULL, 0);
    if (status && !pysh_is_unfinished(status)) {
        if (opened)
            pysh_registered_close(made);
        else
            pysh_registered_drop(made);
    }
    return status;
}

int ishmemx_register(ishmemx_team_t team, void *address, size_t nbytes) {
    offer_t *all;
    int status;

    PYSH_ENTER();
    if ((status = pysh_team_check(team)))
        return status;
    if (!(all = calloc((size_t)team->n_pes, sizeof *all)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "register: no memory to meet %d PEs", team->n_pes);
    status = pysh_team_claim(team, "register", pysh_digest(pysh_digest(0, (uintptr_t)address), nbytes));
    if (!status) {
        status = register_claimed(team, address, nbytes, all);
        pysh_team_unclaim(team, status);
    }
    free(all);
    return status;
}

static const pysh_registered_t *find_exactly(const void *address, size_t nbytes) {
    const pysh_registered_t *found = pysh_registered_find(address, nbytes);

    return found && found->base == address && found->nbytes == nbytes ? found : NULL;
}

/* A meeting that says whether all are about the same memory. */
static int agree_to_drop(ishmemx_team_t team, void *address, const pysh_registered_t *found) {
    uintptr_t mine = found ? (uintptr_t)address : 0, *all = calloc((size_t)team->n_pes, sizeof *all);
    int status;

    if (!all)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "unregister: no memory to meet %d PEs", team->n_pes);
    status = pysh_team_gather(team, "unregister", &mine, all, sizeof mine);
    for (int i = 0; !status && i < team->n_pes; i++)
        if (!all[i])
            status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "unregister: the memory that PE %d gives is not registered",
                               team->pes[i]);
    for (int i = 0; !status && i < team->n_pes; i++)
        if (found->peer[team->pes[i]].there != all[i])
            status = pysh_fail(ISHMEMX_ERR_MISMATCH,
                               "unregister: PE %d gives other memory than PE %d, or it was registered by other PEs",
                               team->pes[i], pysh.pe);
    free(all);
    return status;
}

/* Between two meetings: nobody transfers any more, and nobody frees memory before all have closed it. */
static int unregister_claimed(ishmemx_team_t team, void *address, size_t nbytes) {
    int status;

    if ((status = all_come(team, "unregister")))
        return status;
    if (!pysh_passed(team, &status, NULL, 0)) {
        const pysh_registered_t *found = find_exactly(address, nbytes);
        status = agree_to_drop(team, address, found);
        if (!status)
            pysh_registered_drop(found);
        pysh_pass(team, status, NULL, 0);
    }
    if (!status && !pysh_passed(team, &status, NULL, 0)) {
        unsigned char one = 0, *all = calloc((size_t)team->n_pes, 1);
        status = all ? pysh_team_gather(team, "unregister", &one, all, 1)
                     : pysh_fail(ISHMEMX_ERR_MEMORY, "unregister: no memory to meet %d PEs", team->n_pes);
        free(all);
        pysh_pass(team, status, NULL, 0);
    }
    return status;
}

int ishmemx_unregister(ishmemx_team_t team, void *address, size_t nbytes) {
    int delivered, status;

    PYSH_ENTER();
    if ((status = pysh_team_check(team)))
        return status;
    delivered = pysh_quiet();
    if (pysh_is_unfinished(delivered))
        return delivered;
    if ((status = pysh_team_claim(team, "unregister", pysh_digest(pysh_digest(1, (uintptr_t)address), nbytes))))
        return status;
    status = unregister_claimed(team, address, nbytes); /* whatever became of transfers: the others are in it */
    pysh_team_unclaim(team, status);
    return status ? status : delivered;
}

int ishmemx_is_registered(const void *address, size_t nbytes) {
    return pysh.ready && pysh_registered_find(address, nbytes) != NULL;
}
