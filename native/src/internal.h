/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the library share: the process-wide state and the functions between files.
 * Layers, upward: status settings retired < wait < statics < conduit accel < heap runtime < rma amo signal sync team
 * ctx < coll reduce exchange scan split lock < shmem_*.c (the typed shell). */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel.h"
#include "conduit.h"
#include "ishmemx.h"

#define PYSH_CACHE_LINE   64
#define PYSH_SYSTEM_BYTES (64 * 1024) /* head of each arena, never handed out */

/* Offsets in the system region of an arena. That of the host arena goes on with the tables of teams, see team.c. */
#define PYSH_SYNC_SLOTS  0    /* u64 a sender: device sync */
#define PYSH_SYNC_EPOCH  2048 /* u64: number of the next device sync, from 1; own PE only */
#define PYSH_FAULT_CLAIM 2112 /* u64: device heap only */
#define PYSH_GRID_WORD   2176 /* u64: device heap, own PE only */

#define PYSH_STATICS     ISHMEMX_HEAP_COUNT /* the arena behind the heaps: a C program's static variables */
#define PYSH_ARENA_COUNT (PYSH_STATICS + 1)

#define PYSH_STAGE_BYTES 8192 /* a half of a team's stage, for small collectives: see coll.c */
#define PYSH_MAX_TEAMS   64   /* of a PE at a time, predefined ones included */

#ifndef PYSHMEM_VERSION
#define PYSHMEM_VERSION "unknown"
#endif

/* ---- status.c: the only place that formats an error ---- */
int pysh_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "1.5 GiB": bytes for messages; the text lives in a ring of thread-local buffers. */
const char *pysh_bytes_text(int64_t nbytes);

/* ---- settings.c ---- */
/* What the specification's SHMEM_VERSION and SHMEM_INFO ask for, to stdout. */
void pysh_settings_announce(void);

/* ---- bootstrap.c ---- */
/* How many of the job's PEs the launcher put on this host; 0 when it does not say. */
int pysh_launcher_local_n_pes(int n_pes);
/* Whether an OpenSHMEM library is to be the conduit: the PEs are on several hosts, oshrun started them,
 * or the user named a library. Not when our own launcher started them. */
bool pysh_launcher_is_openshmem(void);

/* ---- process-wide state (runtime.c) ---- */
typedef struct pysh_arena {
    char *base;       /* own mapping; NULL: there is no such heap */
    int64_t nbytes;   /* the system region included */
    int64_t system;   /* bytes of the system region */
    char **peer;      /* [n_pes] where the calling process reaches the peers' arena; NULL entry: it cannot */
    bool cpu_visible; /* false: a GPU's memory, only accel->copy reaches it */
} pysh_arena_t;

typedef struct pysh_state {
    bool ready; /* between init and finalize */
    int pe, n_pes;
    bool check;
    bool p2p;                      /* kernels reach the peers' device heaps by loads and stores */
    int64_t timeout_ns;            /* of a wait; 0: none */
    int64_t spin;                  /* polls of a wait before it turns slow */
    const _Atomic uint32_t *alarm; /* conduit->alarm(); non-zero: the job is being aborted */
    const pysh_conduit_t *conduit;
    const pysh_accel_t *accel; /* NULL: no device heap */
    pysh_arena_t arena[PYSH_ARENA_COUNT];
    _Atomic bool waits_ended; /* the waits of this PE's kernels have been ended from outside */
    ishmemx_fault_t *fault;   /* [2] the kernels', shared with them, and the proxy's; NULL without a device heap */
} pysh_state_t;
extern pysh_state_t pysh;

/* runtime.c defines ishmemx_ctx_default and ishmemx_team_world, and fills them in init. */
struct ishmemx_ctx {
    ishmemx_team_t team; /* PE numbers on the context are this team's */
    bool guarded;        /* private or destroyed: pysh_ctx_guard() looks closer */
    bool dead;
    long options;
    pthread_t owner; /* of a private context */
    bool in_session;
    long session_options;
    ishmemx_session_config_t session;
    ishmemx_ctx_t next; /* in the list of live or of dead contexts */
};
struct ishmemx_team {
    int n_pes, my_pe;
    int *pes;             /* world PE of each member */
    int slot;             /* in the tables of the host arena's system region; -1: destroyed */
    int64_t flags;        /* offset there of the flags that members raise at the owner of the arena, a u64 a member */
    int64_t stage;        /* offset there of the stage */
    uint64_t epoch;       /* syncs by flags so far */
    int64_t requests;     /* offset there of the slots of requests: request.h */
    uint64_t requested;   /* requests so far */
    int64_t flags_nbytes; /* of one row of flags */
    unsigned staged;      /* collectives through the stage so far: its half alternates */
    _Atomic bool busy;    /* a thread has claimed it */
    ishmemx_team_config_t config;
    ishmemx_team_t next; /* in the list of live or of dead teams */
};

/* OK, or STATE (before init, after finalize), PEER (the job is being aborted) or FAULT (a kernel
 * recorded one). First line of every public routine: PYSH_ENTER(); */
int pysh_enter(void);
#define PYSH_ENTER()                \
    do {                            \
        int status_ = pysh_enter(); \
        if (status_)                \
            return status_;         \
    } while (0)
/* Instead of it where an invalid context means that there is nothing to do. */
#define PYSH_ENTER_CTX(_ctx)                      \
    do {                                          \
        int guard_ = pysh_enter();                \
        if (!guard_ && (_ctx) && (_ctx)->guarded) \
            guard_ = pysh_ctx_guard(_ctx);        \
        if (guard_ || !(_ctx))                    \
            return guard_;                        \
    } while (0)
/* OK, or ARGUMENT naming the team's size. */
int pysh_check_pe(int pe, int n_pes);
/* Of an arena with so large a heap behind its system region. */
int64_t pysh_arena_nbytes(int64_t heap_bytes, int64_t system);

/* ---- heap.c ---- */
/* Which heap [address, address + nbytes) of the calling PE lies in; ARGUMENT when in none, or when it
 * leaves the heap; `what` ("dest", "source", ...) goes into the message. */
int pysh_heap_find(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p);
int pysh_heap_setup(int heap, int64_t nbytes); /* allocator over an arena */
int pysh_heap_agree(void);                     /* collective, after all set-ups: from here on peers may come */
/* Writes how many blocks of each heap the program still holds: neither freed nor released. */
void pysh_heap_teardown(int64_t *blocks_p);
/* The barrier of the world team: conduit->barrier that also tells the others whether this PE has
 * released blocks. */
int pysh_heap_barrier(const char *what);
/* Collective, right after pysh_heap_barrier: frees the blocks that every PE released. Costs nothing
 * unless every PE had something released when it entered that barrier. */
int pysh_heap_drain_if_pending(void);

/* ---- rma.c ---- */
/* Where the caller can reach [address, +nbytes) of `pe`: `peer_p` is NULL when only the conduit can. */
int pysh_peer_address(const void *address, size_t nbytes, int pe, const char *what, char **peer_p, int *heap_p);
/* Copies between any two addresses this process can name, on CPU or GPU memory; complete on return. */
int pysh_copy(void *dest, const void *source, size_t nbytes);
/* Is it memory that only the accelerator reaches? */
bool pysh_on_gpu(const void *address);
/* The world PE of PE `pe` of a context; ARGUMENT for an invalid context or PE. */
int pysh_ctx_pe(ishmemx_ctx_t ctx, int pe, int *world_p);
/* Blocking put and get to a world PE that has been checked. */
int pysh_put(void *dest, const void *source, size_t nbytes, int pe);
/* ishmemx_iput and ishmemx_iget for the proxy, whom the fault of some kernel does not concern. */
int pysh_iput(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
              size_t block, size_t n_blocks, size_t width, int pe);
int pysh_iget(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
              size_t block, size_t n_blocks, size_t width, int pe);
int pysh_get(void *dest, const void *source, size_t nbytes, int pe);
/* OK, or ARGUMENT when the two ranges share a byte. */
int pysh_check_overlap(const void *dest, size_t dest_bytes, const void *source, size_t source_bytes);

/* ---- report.c ---- */
/* Where all PEs stand, and what their kernels wait for; the own rings too. */
void pysh_report(char *text, size_t capacity);
/* The name of a kernel or device routine, or its number; see ishmemx_name_set(). */
void pysh_name_get(int kind, int64_t number, char *text, size_t capacity);

/* ---- wait.c: how a PE waits; one loop for all waits ---- */
typedef struct pysh_wait {
    const char *what;    /* "barrier_all", "wait_until": shown to others as this PE's activity */
    bool for_memory;     /* any store by another PE may end it */
    ishmemx_team_t team; /* of the collective that it is a part of, or NULL */
    int64_t polls, start_ns, next_check_ns, next_liveness_ns;
} pysh_wait_t;
/* Begin publishes nothing until the wait turns slow. Pause idles a little, longer each time; it returns
 * non-OK when the wait must end (PEER, TIMEOUT, INTERRUPTED). End clears the published activity. */
void pysh_wait_begin(pysh_wait_t *wait, const char *what);
void pysh_wait_begin_barrier(pysh_wait_t *wait, const char *what); /* of all PEs; pysh_wake() does not end it */
int pysh_wait_pause(pysh_wait_t *wait);
void pysh_wait_end(pysh_wait_t *wait);
/* What every wait is to move on at each turn; NULL: nothing. It must not wait itself. */
void pysh_wait_also(void (*progress)(void));
int64_t pysh_now_ns(void);
/* INTERRUPTED when the interrupt check asks to end the wait in `what`, else OK. */
int pysh_wait_interrupted(const char *what);
/* Wakes `pe` if it sleeps in a wait for memory; after every store that a wait may be for. */
void pysh_wake(int pe);

/* ---- amo.c ---- */
/* The operation on CPU-visible memory, sequentially consistent; returns the old bits. */
uint64_t pysh_amo_apply(int op, int type, void *address, uint64_t value, uint64_t cond);
/* OK, or TYPE naming the types inside the operation's table. */
int pysh_amo_check(int op, int type);
/* The operation on `pe`, a world PE that has been checked like op and type; `what` names the address. */
int pysh_amo(int op, int type, void *dest, uint64_t value, uint64_t cond, int pe, const char *what,
             uint64_t *fetched_p);

/* ---- order.c ---- */
int pysh_quiet(void);

/* ---- sync.c ---- */
/* An atomic load with acquire from the caller's own copy, on either heap. */
int pysh_load_own(int type, const void *address, const char *what, uint64_t *bits_p);
/* OK, or what is wrong with waiting for [ivar, +nbytes); *heap_p is where it lies. */
int pysh_wait_check(int type, const void *ivar, size_t nbytes, int cmp, const char *what, int *heap_p);
/* A relaxed load of nbytes, 4 or 8; whoever acts on it adds an acquire fence. */
int pysh_wait_load(int heap, const void *address, size_t nbytes, uint64_t *bits_p);
bool pysh_wait_holds(int type, uint64_t seen, int cmp, uint64_t value);

/* ---- team.c ---- */
int64_t pysh_team_tables_nbytes(int n_pes); /* behind PYSH_SYSTEM_BYTES of the host arena */
int pysh_teams_setup(void);                 /* the predefined teams; the heaps are open */
void pysh_teams_teardown(void);
/* OK, or why the team cannot take part in a collective. */
int pysh_team_check(ishmemx_team_t team);
/* A team of n_pes members, of which world PE pes[i] is member i; the slot is free on all of them. */
int pysh_team_make(const int *pes, int n_pes, int slot, ishmemx_team_t *team_p);
void pysh_team_drop(ishmemx_team_t team);
uint64_t pysh_team_free_slots(void); /* a bit a slot */
/* Around what only one thread may do with a team at a time, which is every collective from the agreement to the
 * last sync: STATE when another is at it. */
int pysh_team_claim(ishmemx_team_t team, const char *what);
void pysh_team_unclaim(ishmemx_team_t team);
int pysh_team_sync(ishmemx_team_t team, const char *what); /* the caller has claimed the team */
/* Stores `value` in this PE's word of the row of flags at `offset` of the member's host heap, releasing what this PE
 * stored before, and wakes it. */
int pysh_flag_raise(ishmemx_team_t team, int64_t offset, int member, uint64_t value);

/* ---- device_heap.c: the device heap as kernels see it ---- */
/* `tables`: flags and stages of kernels' collectives on the host arena; NULL: on the device arena. */
int pysh_device_heap_open(const ishmemx_config_t *config, char *tables);
void pysh_device_heap_close(int64_t block); /* as detach of the accelerator */
/* The waits of this PE's kernels end soon; whoever calls it has recorded why in fault[1]. */
void pysh_end_kernel_waits(void);

/* ---- device_teams.c: what kernels know of teams ---- */
int64_t pysh_device_tables_nbytes(int n_pes); /* flags and stages, in the arena that kernels and peers reach */
int64_t pysh_device_teams_nbytes(int n_pes);  /* the table of teams, in device memory */
int pysh_device_teams_open(char *symmetric, int heap, char *table); /* where those are; both zero */
void pysh_device_teams_close(void);
/* Tells kernels of a team that has been made, or (n_pes 0) that the slot is free. */
char *pysh_device_teams_table(void);
int pysh_device_team_set(const struct ishmemx_team *team, int slot);
/* How many exchanges this PE's finished kernels have made in the collectives that `meets` stands for, see
 * pysh_kernel_wait_t; while no kernel runs. */
int pysh_device_epoch(int meets, int64_t *epoch_p);

/* ---- ctx.c ---- */
/* OK, or why a guarded context cannot be used by the calling thread. */
int pysh_ctx_guard(ishmemx_ctx_t ctx);
void pysh_ctx_drop_team(ishmemx_team_t team); /* its contexts; NULL: all */

/* ---- coll.c ---- */
typedef struct pysh_call { /* what the members of a collective must agree on */
    const char *routine;
    int op, type, root; /* -1 where the routine has none */
    size_t nbytes;
} pysh_call_t;
typedef struct pysh_record { /* a call, with what its PE thinks of its arguments, for the others to compare */
    int op, type, root, status;
    uint64_t nbytes;
} pysh_record_t;
pysh_record_t pysh_record_of(const pysh_call_t *call, int status);
/* OK, or MISMATCH saying how this PE's call differs from that of world PE `pe`. */
int pysh_record_compare(const pysh_call_t *call, const pysh_record_t *mine, const pysh_record_t *other, int pe);
/* Claims the team, unless it is no team that can be; then turns `status`, what this PE thinks of its arguments, into
 * the answer for all: in checking mode every member fails with MISMATCH when one failed or they differ.
 * After OK, and only then, the caller unclaims the team when it is done. */
int pysh_coll_begin(ishmemx_team_t team, const pysh_call_t *call, int status);
/* A place on a symmetric heap; the same on every PE. */
typedef struct pysh_place {
    int heap;
    int64_t offset;
} pysh_place_t;
/* Makes nbytes at `place` of world PE `pe` readable: *data_p points there, or to `buffer`, a copy. */
int pysh_place_read(pysh_place_t place, size_t nbytes, int pe, void *buffer, const void **data_p);
int pysh_place_write(pysh_place_t place, const void *data, size_t nbytes, int pe);
/* Are nbytes few enough for the stage? The half of it that is in use; and the sync that makes it
 * readable and turns to the other half, whatever `status` the caller has, which wins. */
bool pysh_stage_fits(size_t nbytes);
pysh_place_t pysh_stage(ishmemx_team_t team);
int pysh_stage_sync(ishmemx_team_t team, const char *what, int status);
/* A sync at the end of a collective that wrote to other PEs, whatever `status` the caller has, which wins. */
int pysh_coll_end(ishmemx_team_t team, const char *what, int status);
/* Checks what every collective checks, then finds dest and source; 0 bytes are not looked for. */
int pysh_coll_check(ishmemx_team_t team, const void *dest, size_t dest_bytes, const void *source, size_t source_bytes,
                    pysh_place_t *dest_p, pysh_place_t *source_p);
/* A sync in which every member learns all members' nbytes <= PYSH_STAGE_BYTES, in the order of the team. */
int pysh_team_gather(ishmemx_team_t team, const char *what, const void *mine, void *all, size_t nbytes);

/* ---- reduce.c ---- */
/* OK, ARGUMENT for an unknown operation, or TYPE naming the types that it takes. */
int pysh_reduce_check(int op, int type);
/* Of n elements of `width` bytes, those that this member works on for all: *first_p to *last_p - 1. Slices begin at
 * cache lines of the source. */
void pysh_slice(ishmemx_team_t team, size_t width, size_t n, size_t *first_p, size_t *last_p);

/* ---- combine.c: the arithmetic of reductions, on accumulators ---- */
/* half and bfloat16 accumulate in float, all others in their own type. */
int pysh_accumulator_type(int type);
/* acc[i] = in[i] and acc[i] = acc[i] op in[i] for i < n; `in` has the type, acc the accumulator's. */
void pysh_combine_begin(int type, void *acc, const void *in, size_t n);
void pysh_combine(int op, int type, void *acc, const void *in, size_t n);
/* Rounds once (to nearest, ties to even), in place, from the accumulator's type to the type. */
void pysh_combine_end(int type, void *acc, size_t n);
