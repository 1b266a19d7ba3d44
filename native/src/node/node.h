/* SPDX-License-Identifier: BSD-3-Clause
 * The PEs of this host, and what this one knows of those of others: who they are, where each stands, who is gone. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYSH_WAIT_TEXT 384
/* What a PE is seen to wait in, behind a line of the program and the end of that line. */
#define PYSH_ACTIVITY_TEXT  160
#define PYSH_PLACE_TEXT     48
#define PYSH_COLLECTIVE_ALL 65 /* sync_all and barrier_all in kernels: all PEs, apart from the world team's others */

/* RUNS: nobody knows whether it waits. POLLS: it waits in a loop of its own. COMPILES: its launch waits for
 * its code. The last three are what its host sees of it. */
typedef enum pysh_kernel_state {
    PYSH_KERNEL_WAITS = 0,
    PYSH_KERNEL_GAVE_UP,
    PYSH_KERNEL_RUNS,
    PYSH_KERNEL_POLLS,
    PYSH_KERNEL_COMPILES
} pysh_kernel_state_t;

typedef struct pysh_kernel_wait { /* a wait in a kernel that has turned slow, or given up */
    pysh_kernel_state_t state;
    int collective;   /* of a collective: the slot of its team + 1, or PYSH_COLLECTIVE_ALL; else 0 */
    int pe;           /* whom it waits for, -1: not known */
    int64_t expected; /* in a collective: how many of its team there have been with this one */
    int64_t since_ns; /* 0: set when it is posted, since when the host knows of this wait */
    char text[PYSH_WAIT_TEXT];
} pysh_kernel_wait_t;

#define PYSH_WORLD_SLOT 0 /* of the team of all PEs */

typedef struct pysh_members { /* of the collective that a wait of the host belongs to */
    int slot;                 /* of their team */
    int n_pes;                /* 0: the wait belongs to none */
    const int *pes;           /* world PEs; NULL: all, in order */
} pysh_members_t;

#define PYSH_EXCHANGE_BYTES 4096 /* the most that a PE says in an exchange, see agree/agree.h */
#define PYSH_GLOBAL_EXIT    0x100u
#define PYSH_ALARM_RISES    1u /* the word while the reason is being written */

/* What a wait is for, as far as others need to know. POLLS: no wait, but a loop of tests: see polls.h. */
typedef enum pysh_activity { PYSH_WAITS = 0, PYSH_WAITS_FOR_WORDS, PYSH_WAITS_AT_THE_END, PYSH_POLLS } pysh_activity_t;
/* Whether a PE could still end another's wait for memory. */
typedef enum pysh_standing { PYSH_GOES_ON = 0, PYSH_STANDS, PYSH_IS_OVER, PYSH_IS_POLLING } pysh_standing_t;

struct pysh_wait;
struct pysh_control_slot;

/* Whoever joins the job fills it in before anything waits; it stays as it is until the job ends. */
typedef struct pysh_node {
    int n_pes;
    struct pysh_control_slot *own, **slot; /* [n_pes] NULL: of a PE that is not mapped, as on another host */
    _Atomic uint32_t *sleepers;            /* counts the threads in waits that may sleep; NULL: nobody asks */
    /* Turns non-zero once the job is being aborted; every public call looks at it. After shmem_global_exit it is
     * PYSH_GLOBAL_EXIT with the status in the low byte. */
    const _Atomic uint32_t *alarm;
    bool remote;                 /* PEs of other hosts need this one awake while it waits */
    bool (*on_host)(int pe);     /* is it on the caller's host? NULL: all PEs are */
    const char *(*host)(int pe); /* the name of its host; asked of PEs without a slot */
    void (*progress)(void);      /* serves the other PEs' operations on this one, in waits. NULL: they need nobody */
    void (*awake)(int change);  /* so many threads more are in waits, and make progress themselves; NULL: nobody asks */
    void (*asleep)(int change); /* so many of those more sleep, and make none; NULL as `awake` is */
    bool (*linger)(void);  /* in place of a sleep, while other hosts' messages follow each other: it serves them for a
                              moment. False: they do not. NULL: they never do */
    int (*liveness)(void); /* PEER with the reason once a PE died or the job is being aborted */
    void (*abort)(uint32_t word, const char *reason); /* tells all PEs: the alarm's word, and why */
} pysh_node_t;
extern pysh_node_t pysh_node;

/* An empty table of slots; MEMORY. */
int pysh_node_open(int n_pes);
void pysh_node_close(void);

/* For the wait loop. Tells the others what this PE is waiting in; `what` NULL: it runs again. */
void pysh_node_activity(const char *what, int64_t since_ns, pysh_activity_t kind);
/* Sleeps up to `ns` or until woken. */
void pysh_node_idle(struct pysh_wait *wait, int64_t ns);
/* The wait, which may have slept, is over. */
void pysh_node_idle_end(struct pysh_wait *wait);
/* Notes the core that the caller is on, and tells whether another PE was seen there last: then to give the core away
 * serves the job. */
bool pysh_node_shares_core(void);
/* A thread of the program's has come into, or out of, a launch that returns when its kernel has ended. */
void pysh_node_launches(int change);
/* Publishes what a kernel of this PE waits for, for everybody's reports; again and again while it does. Not OK when the
 * kernel had better give up: PEER, or MISMATCH because a PE's host meets it. */
int pysh_node_kernel_waits(pysh_kernel_wait_t *wait);
/* MISMATCH when a kernel is in a collective of the members, in one of which, `what`, this PE's host has been since
 * `since_ns`. Looks at other PEs' memory: not for every turn of a wait. */
int pysh_node_kernel_mismatch(const pysh_members_t *members, const char *what, int64_t since_ns);
/* May the caller report a wait that began at `since_ns`? Once: not when a PE of this host has done so after that. */
bool pysh_node_claim_report(int64_t since_ns);
/* Is no PE left that could end a wait for memory: has each ended, is in finalize, or waits for memory too, here or in
 * a kernel? *over_p: and one at least is over; else who polls may do so for something else, as servers do, and counts
 * for `polls_too` alone. Threads of the program's own it does not know of. */
bool pysh_node_nobody_left(bool *over_p, bool polls_too);
/* Where the PEs stand, a line each, for timeouts; text is always terminated. */
void pysh_node_describe(char *text, size_t capacity);
/* `why` NULL: shmem_global_exit, no failure. */
void pysh_node_abort(int code, const char *why);
