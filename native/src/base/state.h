/* SPDX-License-Identifier: BSD-3-Clause
 * The state of the process in the job, and nothing else. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ishmemx.h"

#define PYSH_CACHE_LINE  64
#define PYSH_STATICS     ISHMEMX_HEAP_COUNT /* the arena behind the heaps: a C program's static variables */
#define PYSH_ARENA_COUNT (PYSH_STATICS + 1)

struct pysh_accel;
struct pysh_agree;
struct pysh_transport;

typedef struct pysh_arena {
    char *base;                 /* own mapping; NULL: there is no such heap */
    int64_t nbytes;             /* the system region included */
    int64_t system;             /* bytes of the system region */
    char *first;                /* what the program has of a heap: from here, behind the system region, */
    uint64_t usable;            /* so many bytes; 0: there is no such heap */
    char **peer;                /* [n_pes] where the calling process reaches the peers' arena; NULL entry: it cannot */
    bool grows;                 /* it has addresses for `nbytes`, and memory for the first `mapped` */
    _Atomic int64_t mapped;     /* grows in collective calls; release by those, acquire by who checks a place */
    const char *fixed;          /* why it does not grow; "" or NULL: nothing to say */
    bool cpu_visible;           /* false: a GPU's memory, only accel->copy reaches it */
    int64_t tables, tables_end; /* what kernels and messages of others may name of it: tables of kernels' collectives */
} pysh_arena_t;

enum { PYSH_READY = 1, PYSH_ENDING }; /* ENDING: finalize is at work, and other threads' calls fail */

typedef struct pysh_state {
    _Atomic int ready; /* between init and finalize: PYSH_READY, at last PYSH_ENDING; else 0 */
    int pe, n_pes;
    bool several_hosts;           /* that the PEs are on, as the launcher says */
    const char *one_host_advice;  /* for messages about that: what to do where it is wrong; may be empty */
    bool srun, srun_pmi;          /* srun started the job; and offers PMI */
    int64_t team_tables_nbytes;   /* of the tables behind the first PYSH_SYSTEM_BYTES of the host arena */
    int64_t kernel_tables_nbytes; /* of those of kernels, on the arena where they meet */
    int64_t am_nbytes;            /* of the messages to memory out of reach, behind those on the host arena */
    bool check;                   /* checking mode: ISHMEMX_CHECK_ARGS of the next */
    int checks;                   /* enum ishmemx_check */
    unsigned check_first;         /* collectives of each team, of each kind, that are compared without checking mode */
    bool p2p;                     /* kernels reach the device heaps of their node by loads and stores */
    int32_t *node;                /* [n_pes] the first PE of each PE's node, the same table on all PEs */
    int n_nodes;
    int largest_node;  /* PEs of it; 0: not known yet */
    bool nodes_mapped; /* every PE maps the host arenas of all PEs of its node */
    /* A bit a near PE, by pysh_near_place(): the link to its GPU has no native atomic operations, so its own proxy does
     * those on its device heap. */
    uint64_t by_owner[ISHMEMX_MAX_NEAR_PES / 64];
    bool owns_amos;                /* this PE's proxy does other PEs' */
    bool core_heaps;               /* the arenas belong into core dumps */
    int64_t timeout_ns;            /* of a wait; 0: none */
    int64_t report_after_ns;       /* of a wait that goes on; 0: never */
    int64_t spin;                  /* polls of a wait before it turns slow */
    bool crowded;                  /* there are more PEs than cores */
    const _Atomic uint32_t *alarm; /* of pysh_node; non-zero: the job is being aborted */
    const struct pysh_transport *transport;
    const struct pysh_agree *agree;
    const struct pysh_accel *accel; /* NULL: no device heap */
    pysh_arena_t arena[PYSH_ARENA_COUNT];
    _Atomic bool waits_ended; /* the waits of this PE's kernels have been ended from outside */
    ishmemx_fault_t *fault;   /* [2] the kernels', shared with them, and the proxy's; NULL without a device heap */
} pysh_state_t;
extern pysh_state_t pysh;

/* Is `pe` on the calling PE's node: its host, or its part of it with PYSHMEM_NODE_SIZE? */
static inline bool pysh_near(int pe) {
    return pysh.node[pe] == pysh.node[pysh.pe];
}

/* Tables of near PEs have so many places; no two of a node of kernels have one. */
static inline int pysh_near_place(int pe) {
    return pe % ISHMEMX_MAX_NEAR_PES;
}

/* The link to the GPU of `pe`, which is near, has no native atomic operations. */
static inline void pysh_note_by_owner(int pe) {
    pysh.by_owner[pysh_near_place(pe) / 64] |= 1ULL << (pe % 64);
}

/* Numbers between which all near PEs are: all PEs' where there is a place for each. */
static inline int pysh_near_begin(void) {
    return pysh.n_pes <= ISHMEMX_MAX_NEAR_PES ? 0 : pysh.node[pysh.pe];
}

static inline int pysh_near_end(void) {
    int end = pysh_near_begin() + ISHMEMX_MAX_NEAR_PES;

    return end < pysh.n_pes ? end : pysh.n_pes;
}

/* As before init. */
void pysh_state_clear(void);
