/* SPDX-License-Identifier: BSD-3-Clause
 * Part of ishmemx.h: what kernels and the host know of each other. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ishmemx_job.h"
#include "ishmemx_teams.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the device library ---------------------------------------------------------------------- */

/* Words of the state block that every kernel reads; pyshmem/device/_state.py mirrors the numbers. */
enum ishmemx_state_word {
    ISHMEMX_STATE_ABI = 0, /* ISHMEMX_STATE_VERSION once initialised, else 0 */
    ISHMEMX_STATE_MY_PE,
    ISHMEMX_STATE_N_PES,
    ISHMEMX_STATE_MODULE,    /* filled per loaded module by the Python side */
    ISHMEMX_STATE_HEAP_BASE, /* device heap of this PE, first byte */
    ISHMEMX_STATE_HEAP_BYTES,
    ISHMEMX_STATE_TIMEOUT_NS,
    ISHMEMX_STATE_SYNC_SLOTS,   /* u64 a sender, on the device heap: rising epochs */
    ISHMEMX_STATE_SYNC_EPOCH,   /* u64, on the device heap, used by its own PE only */
    ISHMEMX_STATE_FAULT_CLAIM,  /* u64, device memory: 0 while no fault is recorded */
    ISHMEMX_STATE_FAULT_RECORD, /* struct ishmemx_fault in memory that host and device share */
    ISHMEMX_STATE_HOST_BASE,    /* host heap of this PE as kernels see it */
    ISHMEMX_STATE_HOST_BYTES,   /* 0: kernels do not see the host heap */
    ISHMEMX_STATE_P2P,       /* 1: every peer's device heap is reached by loads and stores; 0: none, not even the own */
    ISHMEMX_STATE_TEAMS,     /* table of ISHMEMX_DEVICE_TEAM_WORDS words a team slot, in device memory */
    ISHMEMX_STATE_GRID_WORD, /* u64, device memory: what a grid's leader gives to all its threads */
    ISHMEMX_STATE_RINGS = 16, /* number of rings, 0: none */
    ISHMEMX_STATE_RING_SLOTS, /* requests a ring holds: a power of two, and its logarithm */
    ISHMEMX_STATE_RING_LOG2,
    ISHMEMX_STATE_RING = 20,            /* + 4 k: ring k: addresses of slots, control, device (host_proxy/ring.h) */
    ISHMEMX_STATE_CUTOVER_PUT_MIN = 40, /* bytes: below, no put of any shape leaves the store path */
    ISHMEMX_STATE_CUTOVER_GET_MIN,
    ISHMEMX_STATE_CUTOVER_PUT = 48, /* + 4 * threads bucket + blocks bucket: bytes from which the ring is taken */
    ISHMEMX_STATE_CUTOVER_GET = 64,
    ISHMEMX_STATE_CUTOVER_COLL = 80, /* + enum ishmemx_cutover_coll: bytes a PE */
    ISHMEMX_STATE_DELTA = 128,       /* + pe: peer's heap address minus own heap address */
    ISHMEMX_STATE_WORDS = 256
};
enum { ISHMEMX_STATE_VERSION = 2, ISHMEMX_MAX_DEVICE_PES = ISHMEMX_STATE_WORDS - ISHMEMX_STATE_DELTA };
/* Words of the table of teams; a slot that holds no team has n_pes 0. */
enum ishmemx_device_team_word {
    ISHMEMX_DEVICE_TEAM_N_PES,
    ISHMEMX_DEVICE_TEAM_MY_PE,
    ISHMEMX_DEVICE_TEAM_PES,   /* address of int32 world PEs, one a member */
    ISHMEMX_DEVICE_TEAM_FLAGS, /* symmetric: a u64 a member, rising */
    ISHMEMX_DEVICE_TEAM_EPOCH, /* u64 of the own PE: rounds of flags so far */
    ISHMEMX_DEVICE_TEAM_STAGE, /* symmetric: two halves of ISHMEMX_DEVICE_STAGE_BYTES */
    ISHMEMX_DEVICE_TEAM_RESERVED,
    ISHMEMX_DEVICE_TEAM_RESERVED2,
    ISHMEMX_DEVICE_TEAM_WORDS
};
enum { ISHMEMX_DEVICE_STAGE_BYTES = 64 * 1024 };
/* Thresholds of the device collectives: from so many bytes a PE the second way is taken. */
enum ishmemx_cutover_coll {
    ISHMEMX_CUTOVER_REDUCE, /* every PE combines all  -> every PE combines its share */
    ISHMEMX_CUTOVER_COUNT
};

enum ishmemx_fault_kind {
    ISHMEMX_FAULT_NONE = 0,
    ISHMEMX_FAULT_PE,      /* pe outside the job; a: pe, b: number of PEs */
    ISHMEMX_FAULT_ADDRESS, /* not on the device heap; a: address, b: bytes */
    ISHMEMX_FAULT_TIMEOUT, /* a wait; a: value waited for, b: value seen */
    ISHMEMX_FAULT_UNINITIALIZED,
    ISHMEMX_FAULT_NELEMS, /* a: nelems, b: elements there are */
    ISHMEMX_FAULT_PROXY,  /* a request failed on the host; a: status; ishmemx_proxy_error() has the text */
    ISHMEMX_FAULT_TEAM,   /* a: slot that holds no team of this PE */
    ISHMEMX_FAULT_STRIDE, /* a: stride, b: block */
    ISHMEMX_FAULT_LOCK    /* cleared by a PE that does not have it; a: its word there */
};

/* The first fault since the last report. Kernels write it, `kind` last; the host reads. */
typedef struct ishmemx_fault {
    uint64_t kind;
    uint64_t op;           /* number of the device routine, see pyshmem/device/_faults.py */
    int64_t pe;            /* peer, or -1 */
    int64_t module;        /* state word MODULE of the kernel */
    int64_t block, thread; /* linear indices */
    int64_t a, b;
} ishmemx_fault_t;

/* Copies the ISHMEMX_STATE_WORDS words of the state block. */
ISHMEMX_API int ishmemx_device_state(int64_t *words);
/* The error of the last request that failed in the proxy. */
ISHMEMX_API int ishmemx_proxy_error(char *text, size_t capacity);

/* Of all rings, since init; by operation (enum pysh_request_op of host_proxy/ring.h). */
enum { ISHMEMX_RING_OPS = 14, ISHMEMX_MAX_HANDLERS = 64 };
typedef struct {
    int64_t requests[ISHMEMX_RING_OPS], bytes[ISHMEMX_RING_OPS], ns[ISHMEMX_RING_OPS]; /* ns: of those that are timed */
    int64_t rings, credits, stalls, quiets;
} ishmemx_proxy_stats_t;
ISHMEMX_API int ishmemx_proxy_stats(ishmemx_proxy_stats_t *stats);

/* Functions that kernels call through the ring; they run on the proxy's thread and must not wait for a PE. */
typedef int64_t (*ishmemx_handler_t)(int64_t, int64_t, int64_t, int64_t);
ISHMEMX_API int ishmemx_register_handler(ishmemx_handler_t function, int *number);
ISHMEMX_API int ishmemx_unregister_handler(int number);

/* The words ISHMEMX_STATE_CUTOVER_PUT_MIN .. of the state block, `count` of them; kernels launched after a new
 * push of the state see them. */
ISHMEMX_API int ishmemx_cutover_set(int first, int count, const int64_t *words);
ISHMEMX_API int ishmemx_cutover_get(int first, int count, int64_t *words);
/* The slot by which kernels know a team. */
ISHMEMX_API int ishmemx_team_slot(ishmemx_team_t team, int *slot);
ISHMEMX_API int ishmemx_ctx_team_slot(ishmemx_ctx_t ctx, int *slot);

/* For reports: the name of the kernels whose word MODULE is `number`, or of a device routine. Kept after finalize. */
enum ishmemx_name_kind { ISHMEMX_NAME_KERNEL, ISHMEMX_NAME_ROUTINE, ISHMEMX_NAME_KINDS };
ISHMEMX_API int ishmemx_name_set(int kind, int64_t number, const char *name);
/* Kernels are launched on streams other than the default one, so nobody knows when all have finished. */
ISHMEMX_API int ishmemx_other_streams(void);
/* Where all PEs stand and what their kernels wait for, a line each; empty outside init and finalize. */
ISHMEMX_API int ishmemx_report(char *text, size_t capacity);
/* Copies the pending fault and clears it; kind NONE when there is none. */
ISHMEMX_API int ishmemx_fault_take(ishmemx_fault_t *fault);

/* ---- leaf primitives of the simulator (addresses are int64 there) ---------------------------- */

ISHMEMX_API uint64_t ishmemx_leaf_load(int64_t address, int nbytes);              /* relaxed, 1 2 4 8 bytes */
ISHMEMX_API void ishmemx_leaf_store(int64_t address, uint64_t value, int nbytes); /* relaxed */
ISHMEMX_API void ishmemx_leaf_store_release(int64_t address, uint64_t value);     /* 8 bytes */
ISHMEMX_API uint64_t ishmemx_leaf_atomic(int op, int type, int64_t address, uint64_t value, uint64_t cond);
ISHMEMX_API void ishmemx_leaf_copy(int64_t dest, int64_t source, int64_t nbytes); /* one lane's piece */
ISHMEMX_API void ishmemx_leaf_fence(void);
ISHMEMX_API int64_t ishmemx_leaf_now(void); /* ns, monotonic */

#ifdef __cplusplus
}
#endif
