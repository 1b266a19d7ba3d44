/* SPDX-License-Identifier: BSD-3-Clause
 * A conduit is how PEs reach each other. All of OpenSHMEM is built above this table, once. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"

#define PYSH_WAIT_TEXT      320
#define PYSH_ACTIVITY_TEXT  160 /* what a PE is seen to wait in */
#define PYSH_COLLECTIVE_ALL 65  /* sync_all and barrier_all in kernels: all PEs, apart from the world team's others */

typedef struct pysh_kernel_wait { /* a wait in a kernel that has turned slow, or given up */
    bool gave_up;
    int collective;   /* of a collective: the slot of its team + 1, or PYSH_COLLECTIVE_ALL; else 0 */
    int pe;           /* whom it waits for, -1: not known */
    int64_t expected; /* in a collective: how many of its team there have been with this one */
    int64_t since_ns; /* set when it is posted: since when the host knows of this wait */
    char text[PYSH_WAIT_TEXT];
} pysh_kernel_wait_t;

#define PYSH_WORLD_SLOT 0 /* of the team of all PEs */

typedef struct pysh_members { /* of the collective that a wait of the host belongs to */
    int slot;                 /* of their team */
    int n_pes;                /* 0: the wait belongs to none */
    const int *pes;           /* world PEs; NULL: all, in order */
} pysh_members_t;

struct pysh_wait;

typedef struct pysh_conduit {
    const char *name;
    /* Joins the job: after it pe, n_pes, exchange and barrier work. */
    int (*init)(const ishmemx_config_t *config, int *pe_p, int *n_pes_p);
    /* blocks[heap]: how many of its arena the program still holds; then the mapping outlives the job,
     * see memory/retired.h. */
    void (*finalize)(const int64_t *blocks);
    /* Tells the others that this PE has left; everything stays mapped. For a PE that cannot finalize. */
    void (*leave)(void);
    /* Makes the host arena (heap = ISHMEMX_HEAP_HOST) or, for an accelerator that wants memory which
     * CPU and simulated kernels share, the device arena; collective. peer[pe] is NULL where `pe` can
     * be reached only by the calls below. The conduit owns the memory. */
    int (*arena)(int heap, int64_t nbytes, char **base_p, char **peer);
    /* The file that has the arenas of all PEs, and from one to the next; NULL: there is none. */
    int (*arena_file)(int heap, int64_t *stride_p);
    /* Gives the pages of [base, +nbytes) of the own arena back to the system: they read as zero from there on. NULL:
     * its memory is not this conduit's to give. */
    void (*give_back)(void *base, size_t nbytes);
    /* All-gather of small blobs (nbytes <= PYSH_EXCHANGE_BYTES), collective, for bootstrap and
     * agreement: all[i * nbytes] receives PE i's. A barrier too. MISMATCH on all PEs
     * when some are in another exchange, or in a plain barrier. */
    int (*exchange)(const char *what, const void *mine, void *all, size_t nbytes);
    int (*barrier)(const char *what); /* all PEs; `what` names the routine to those who look */
    /* The same barrier; it tells besides whether every PE voted true. A barrier that fails has not
     * counted the calling PE: the others go on waiting for it, and it may try again. */
    int (*barrier_vote)(const char *what, bool mine, bool *all_p);
    /* Only for peers whose arena is not mapped. Offsets are into the arena `heap`. amo returns old bits in
     * *fetched_p when it is not NULL. */
    int (*put)(int heap, int64_t dest, const void *source, size_t nbytes, int pe);
    int (*get)(int heap, void *dest, int64_t source, size_t nbytes, int pe);
    int (*put_nbi)(int heap, int64_t dest, const void *source, size_t nbytes, int pe);
    int (*get_nbi)(int heap, void *dest, int64_t source, size_t nbytes, int pe);
    int (*amo)(int heap, int op, int type, int64_t dest, uint64_t value, uint64_t cond, int pe, uint64_t *fetched_p);
    /* Stores a flag in the host arena, after all that were stored in that PE's before, without an answer. */
    void (*raise)(int64_t dest, uint64_t value, int pe);
    /* A put to the host arena that is complete some time later, without quiet; the source stays until the PE has
     * answered. `behind`: it arrives after all that was posted to that PE before. Waits for nobody, and cannot fail. */
    void (*post)(int64_t dest, const void *source, size_t nbytes, int pe, bool behind);
    int (*fence)(void);
    int (*quiet)(void);
    bool (*outstanding)(void); /* is there something for quiet to complete? NULL: never */
    /* Do these calls reach [address, +nbytes) of the caller's static variables at `pe`? */
    bool (*reaches)(const void *address, size_t nbytes, int pe);
    /* Serves the other PEs' operations on this one; called while this PE waits. NULL: they need nobody. */
    void (*progress)(void);
    /* For the wait loop: tells the others what this PE is waiting in (NULL: it runs again); sleeps up to
     * `ns` or until woken; wakes a PE's threads in waits for memory; ISHMEMX_ERR_PEER with the reason once a PE died or
     * aborted. */
    void (*activity)(const char *what, int64_t since_ns);
    void (*idle)(struct pysh_wait *wait, int64_t ns);
    void (*idle_end)(struct pysh_wait *wait); /* the wait, which may have slept, is over */
    void (*wake)(int pe);
    /* Notes the core that the caller is on, and tells whether another PE was seen there last: then to give the core
     * away serves the job. */
    bool (*shares_core)(void);
    int (*liveness)(void);
    /* Publishes what a kernel of this PE waits for, for everybody's reports; again and again while it does. Not OK
     * when the kernel had better give up: PEER, or MISMATCH because a PE's host meets it. */
    int (*kernel_waits)(pysh_kernel_wait_t *wait);
    /* MISMATCH when a kernel is in a collective of the members, in one of which, `what`, this PE's host has been since
     * `since_ns`. Looks at other PEs' memory: not for every turn of a wait. */
    int (*kernel_mismatch)(const pysh_members_t *members, const char *what, int64_t since_ns);
    /* Is `pe` on the caller's host? NULL: all PEs are. */
    bool (*on_host)(int pe);
    /* After init: are the arenas of `pe` going to be mapped, where they are memory of the CPU? NULL: all are. */
    bool (*maps)(int pe);
    /* May the caller report a wait that began at `since_ns`? Once: not when a PE of this host has done so after that.
     */
    bool (*claim_report)(int64_t since_ns);
    /* Where the PEs stand, a line each, for timeouts; text is always terminated. */
    void (*describe)(char *text, size_t capacity);
    void (*abort)(int code, const char *why); /* `why` NULL: shmem_global_exit, no failure */
    /* A word that turns non-zero once the job is being aborted; every public call looks at it. Valid
     * from init to finalize. After shmem_global_exit it is PYSH_GLOBAL_EXIT with the status in the low byte. */
    const _Atomic uint32_t *(*alarm)(void);
} pysh_conduit_t;

#define PYSH_EXCHANGE_BYTES 4096
#define PYSH_GLOBAL_EXIT    0x100u
#define PYSH_ALARM_RISES    1u /* the word while the reason is being written */
