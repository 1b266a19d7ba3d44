/* SPDX-License-Identifier: BSD-3-Clause
 * An accelerator is where a device heap lives and what copies it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/streams.h"
#include "ishmemx.h"

typedef struct pysh_completion { /* 8 bytes that a stream stores behind a copy */
    void *address;
    uint64_t value;
} pysh_completion_t;

#define PYSH_IPC_BYTES   64
#define PYSH_ENGINE_FULL (-1) /* no room for it now: ask again */

/* How another process of the host maps the device heaps. */
typedef struct pysh_engine_map {
    int pe, n_pes;
    int device;     /* GPU ordinal */
    int64_t nbytes; /* of an arena */
    int64_t stride; /* from one arena to the next, where they are in one file */
    bool grows;     /* `nbytes` are addresses; memory comes by take() */
    /* By pysh_near_place(), of near PEs; others have no heap here. */
    int near[ISHMEMX_MAX_NEAR_PES];                             /* its PE; -1: none */
    unsigned char handle[ISHMEMX_MAX_NEAR_PES][PYSH_IPC_BYTES]; /* of CUDA IPC */
} pysh_engine_map_t;

typedef struct pysh_lent { /* memory of a PE's GPU that was not made on a heap, for other PEs to open */
    unsigned char handle[PYSH_IPC_BYTES];
    int64_t offset;  /* in the allocation that the handle is of: what lies beside it in there is open to them too */
    uint64_t opened; /* by this process: to be closed; 0: it is not */
} pysh_lent_t;

/* Has another process map memory of `pe` by its descriptor, which stays the caller's; -1: unmap it. */
typedef int pysh_tell_part_t(int pe, int64_t at, int64_t nbytes, int fd);

typedef struct pysh_accel {
    const char *name;
    bool cpu_visible; /* the CPU may load and store the arena */
    int (*attach)(const ishmemx_config_t *config);
    /* After every PE has passed the final barrier; `blocks` of the arena are still held by the program. */
    void (*detach)(int64_t blocks);
    /* Makes the arena and maps the peers'; collective. A peer out of reach fails, naming the pair. One that `grows`
     * gets addresses for more, as *nbytes_p says then, and memory for as much. */
    int (*arena)(int64_t *nbytes_p, bool grows, char **base_p, char **peer);
    /* Of one that grows, collective, in the routine `what`: memory for the first `upto` bytes on all PEs, or on none:
     * MEMORY. After TIMEOUT and INTERRUPTED it goes on when it is called again. */
    int (*grow)(const char *what, int64_t upto);
    /* Gives back what it can of the memory from `downto` on, which no PE uses; the same on all PEs. */
    int (*trim)(const char *what, int64_t downto);
    /* Is this address memory only the GPU reaches? False for any host memory. */
    bool (*is_device)(const void *address);
    const pysh_streams_t *streams;
    /* Complete on return / started, completed by quiet. Any UVA addresses. */
    int (*copy)(void *dest, const void *source, size_t nbytes);
    int (*copy_nbi)(void *dest, const void *source, size_t nbytes);
    int (*quiet)(void);
    int (*zero)(void *dest, size_t nbytes);
    /* The copy engine, for the proxy: starts a copy on the stream for `pe`, which then stores the completions, in
     * order. */
    int (*offload)(int pe, void *dest, const void *source, size_t nbytes, const pysh_completion_t *completions,
                   int n_completions, uint64_t *token_p);
    int (*offload_done)(uint64_t token, bool *done_p);
    /* Are the copies started before the last mark complete, and all of them? */
    void (*offload_mark)(void);
    int (*offload_finished)(bool *marked_p, bool *all_p);
    /* For a copy engine in another process: writes how it maps the device heaps; *fd_p, which stays the accelerator's,
     * is the file that they are in, or -1. In that process: makes the copy engine and maps the heaps. */
    int (*share)(pysh_engine_map_t *map, int *fd_p);
    int (*join)(const pysh_engine_map_t *map, int fd, char **base);
    /* Of an arena that grows: gives that process what there is when it starts, by `to`, as what comes then; and there:
     * maps memory of the PE in that place, of which `fd` is the descriptor, -1: unmaps it. */
    int (*hand_over)(pysh_tell_part_t *to);
    int (*take)(int place, int64_t at, int64_t nbytes, int fd);
    /* Stores 8 bytes to device memory, some time soon. */
    void (*complete)(void *address, uint64_t value);
    /* Has it finished all kernels that this process launched? False when it cannot tell. */
    bool (*idle)(void);
    /* What to add to the clock of kernels to have pysh_now_ns(), and how far off that may be. */
    int (*clock)(int64_t *offset_ns_p, int64_t *within_ns_p);
    /* First call of a thread that is going to use the accelerator. */
    void (*thread_begin)(void);
    /* Lets kernels load and store host memory, at the addresses that the host uses. */
    int (*host_open)(void *base, size_t nbytes);
    void (*host_close)(void *base);
    /* An atomic on device memory of this PE or a mapped peer, complete on return. */
    int (*amo)(int op, int type, void *address, uint64_t value, uint64_t cond, uint64_t *fetched_p);
    /* The same, started: OK, or PYSH_ENGINE_FULL when as many as can be are under way. Those of a thread to one word
     * are done in the order in which they were begun. Poll until it is done, once more than that not. */
    int (*amo_begin)(int op, int type, void *address, uint64_t value, uint64_t cond, int *slot_p);
    int (*amo_poll)(int slot, bool *done_p, uint64_t *fetched_p);
    /* Lends memory of the own GPU: UNSUPPORTED with the reason where its kind cannot be. Opens what another PE has
     * lent; closes it, while nobody uses it. NULL: a GPU's memory is the CPU's. */
    int (*lend)(const void *address, size_t nbytes, pysh_lent_t *lent);
    int (*open)(pysh_lent_t *lent, int pe, char **here_p);
    void (*close)(pysh_lent_t *lent);
    /* Memory that host and kernels both load and store. */
    int (*shared_alloc)(size_t nbytes, void **host_p, void **device_p);
    void (*shared_free)(void *host);
} pysh_accel_t;
