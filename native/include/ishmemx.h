/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The core of pyshmem, with types erased: RMA moves bytes, atomics and reductions take (operation,
 * type). shmem.h is a typed shell over these calls; the Python package calls them directly.
 *
 * Every int result is an ishmemx_status, unless said otherwise. On failure the outputs are not
 * written and ishmemx_error() tells, for the calling thread, what was wrong and the way out.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ISHMEMX_API __attribute__((visibility("default")))

/* ---- status ------------------------------------------------------------------------------- */

enum ishmemx_status {
    ISHMEMX_OK = 0,
    ISHMEMX_ERR_ARGUMENT,    /* a value outside its range: pe, nelems, address, overlap */
    ISHMEMX_ERR_TYPE,        /* a type outside the operation's table */
    ISHMEMX_ERR_STATE,       /* before init, after finalize, freed twice */
    ISHMEMX_ERR_MEMORY,      /* symmetric heap exhausted */
    ISHMEMX_ERR_MISMATCH,    /* PEs disagree: library version, allocation sizes, arguments */
    ISHMEMX_ERR_PEER,        /* another PE died or the job is being aborted */
    ISHMEMX_ERR_TIMEOUT,     /* a wait outlasted the timeout */
    ISHMEMX_ERR_INTERRUPTED, /* the interrupt check asked the wait to end */
    ISHMEMX_ERR_SYSTEM,      /* a system call or the GPU driver failed */
    ISHMEMX_ERR_UNSUPPORTED, /* not available on this conduit or accelerator */
    ISHMEMX_ERR_FAULT        /* a kernel recorded a fault: see ishmemx_fault_take() */
};

/* Text for the last failure of the calling thread; never NULL. */
ISHMEMX_API const char *ishmemx_error(void);

/* ---- settings ----------------------------------------------------------------------------- */

/* The text of setting `name` (without PYSHMEM_) and where it came from: "default" or the name of
 * the environment variable. An unknown name is ISHMEMX_ERR_ARGUMENT. */
ISHMEMX_API int ishmemx_setting(const char *name, const char **text, const char **origin);
/* The same, parsed by the kind of its row: bytes for sizes, nanoseconds for seconds, 0 or 1 for
 * flags, the position for choices. A malformed value is ISHMEMX_ERR_ARGUMENT, naming the variable. */
ISHMEMX_API int ishmemx_setting_number(const char *name, int64_t *value);
/* Parse a size such as "1.5G" or "64k" (powers of 1024). */
ISHMEMX_API int ishmemx_parse_size(const char *text, int64_t *nbytes);

/* ---- setup -------------------------------------------------------------------------------- */

enum ishmemx_heap { ISHMEMX_HEAP_HOST = 0, ISHMEMX_HEAP_DEVICE = 1, ISHMEMX_HEAP_COUNT = 2 };
enum ishmemx_accelerator { ISHMEMX_DEVICE_NONE = 0, ISHMEMX_DEVICE_CUDA = 1, ISHMEMX_DEVICE_SIM = 2 };

typedef struct ishmemx_config {
    int pe, n_pes, local_pe; /* place in the job */
    const char *job;         /* rendezvous name, the same on all PEs */
    int control_fd;          /* control segment made by the launcher, or -1 */
    int accelerator;         /* enum ishmemx_accelerator */
    int device;              /* GPU ordinal; -1: local_pe modulo the number of GPUs */
    int check;               /* checking mode */
    int64_t heap_bytes, device_heap_bytes;
    int64_t timeout_ns, init_timeout_ns; /* 0: none */
    int64_t spin;
    const char *version; /* compared between PEs; differs: ISHMEMX_ERR_MISMATCH on all of them */
} ishmemx_config_t;

/* Fill `config` from the settings and from the environment of known launchers (ours, Open MPI, PMI,
 * Slurm, torchrun); without any, one PE. The accelerator is left ISHMEMX_DEVICE_NONE. */
ISHMEMX_API int ishmemx_config_from_environment(ishmemx_config_t *config);

/* Collective. Calls are counted: a further one only asks for one more finalize, and its config is not
 * looked at. The thread level is what the first one asked for (ishmemx_init: multiple). */
ISHMEMX_API int ishmemx_init(const ishmemx_config_t *config);
enum { ISHMEMX_THREAD_SINGLE = 0, ISHMEMX_THREAD_FUNNELED, ISHMEMX_THREAD_SERIALIZED, ISHMEMX_THREAD_MULTIPLE };
ISHMEMX_API int ishmemx_init_thread(const ishmemx_config_t *config, int requested, int *provided);
ISHMEMX_API int ishmemx_query_thread(int *provided);
/* The last of as many calls as there were of init completes everything outstanding, then waits until
 * all PEs are here (no longer than the timeout, and not for PEs that died). More calls do nothing. */
ISHMEMX_API int ishmemx_finalize(void);
ISHMEMX_API int ishmemx_initialized(void); /* 1 between init and finalize; not a status */
ISHMEMX_API int ishmemx_my_pe(void);       /* -1 when not initialised */
ISHMEMX_API int ishmemx_n_pes(void);
/* 1 or 0, not a status: can `pe` be reached; is `address` symmetric, so that `pe`'s copy can be named. */
ISHMEMX_API int ishmemx_pe_accessible(int pe);
ISHMEMX_API int ishmemx_addr_accessible(const void *address, int pe);
/* Ends the whole job: every other PE's next or current call fails with ISHMEMX_ERR_PEER. Returns. */
ISHMEMX_API int ishmemx_abort(int code, const char *why);
/* Called about every 10 ms while a wait is slow; non-zero ends the wait with INTERRUPTED. */
ISHMEMX_API void ishmemx_set_interrupt_check(int (*check)(void));

/* ---- conduits, before init too ------------------------------------------------------------- */

/* 1 when the launcher put the job's PEs on several hosts; not a status. */
ISHMEMX_API int ishmemx_several_hosts(void);
/* Opens the OpenSHMEM library of the openshmem conduit and names it; UNSUPPORTED tells what was tried. */
ISHMEMX_API int ishmemx_openshmem_describe(char *text, size_t capacity);
/* For who runs before MPI is finalized in a process that uses it too: the library, if it was started and no job
 * runs, is left now and not at exit, when MPI has gone. There is no other job in this process afterwards. */
ISHMEMX_API void ishmemx_openshmem_leave(void);

/* ---- number of GPUs, before init too ------------------------------------------------------- */

/* 0 GPUs where there is no driver; that is no failure. */
ISHMEMX_API int ishmemx_cuda_count(int *count);
/* Name of GPU `device`, and whether it can load and store memory of GPU `peer`. */
ISHMEMX_API int ishmemx_cuda_describe(int device, char *name, size_t capacity, int64_t *nbytes);
ISHMEMX_API int ishmemx_cuda_can_access(int device, int peer, int *can);

/* ---- symmetric heaps ----------------------------------------------------------------------- */

typedef struct {
    int64_t nbytes, used, free, largest_free; /* bytes; used counts rounding */
    int64_t allocations;                      /* live blocks */
    int64_t released;                         /* released here, not yet by every PE */
} ishmemx_heap_stats_t;

/* Collective; equal arguments on all PEs, else ISHMEMX_ERR_MISMATCH on all. nbytes 0 gives NULL and
 * does not synchronise. align 0 means 64. Zeroed when `zero` is set. Ends with a barrier. */
ISHMEMX_API int ishmemx_malloc(int heap, size_t nbytes, size_t align, int zero, void **block_p);
ISHMEMX_API int ishmemx_free(void *block); /* collective; begins with a barrier; NULL is allowed */
/* Collective: a block of nbytes with the old contents, as far as they fit, in place of `block`, on the
 * same heap. NULL is malloc, nbytes 0 is free. When it fails the old block stays as it was. */
ISHMEMX_API int ishmemx_realloc(void *block, size_t nbytes, void **block_p);
/* Local: the caller will not use the block again. It is freed by the next ishmemx_malloc,
 * ishmemx_barrier_all or ishmemx_drain after every PE has released it. Safe from a finalizer. */
ISHMEMX_API int ishmemx_release(void *block);
ISHMEMX_API int ishmemx_drain(void); /* collective */
ISHMEMX_API int ishmemx_heap_stats(int heap, ishmemx_heap_stats_t *stats);
/* Base and size of a heap of the calling PE; base NULL when there is none. */
ISHMEMX_API int ishmemx_heap_range(int heap, void **base, int64_t *nbytes);
/* The address at which the caller can load and store `pe`'s copy of `address`, or NULL. For a device
 * heap on a GPU this is a device address. */
ISHMEMX_API int ishmemx_ptr(const void *address, int pe, void **peer_p);

/* ---- teams ----------------------------------------------------------------------------------- */

typedef struct ishmemx_ctx *ishmemx_ctx_t;
typedef struct ishmemx_team *ishmemx_team_t; /* NULL: no team */
extern ISHMEMX_API struct ishmemx_ctx ishmemx_ctx_default;
/* All PEs; those whose symmetric heaps the caller can load and store; those on the caller's host. */
extern ISHMEMX_API struct ishmemx_team ishmemx_team_world;
extern ISHMEMX_API struct ishmemx_team ishmemx_team_shared;
extern ISHMEMX_API struct ishmemx_team ishmemx_team_node;

typedef struct ishmemx_team_config {
    int num_contexts; /* a hint */
} ishmemx_team_config_t;
enum { ISHMEMX_TEAM_NUM_CONTEXTS = 1 }; /* mask: config->num_contexts means something */

/* The four answer -1 for what is no team, or no PE of it; not statuses. */
ISHMEMX_API int ishmemx_team_my_pe(ishmemx_team_t team);
ISHMEMX_API int ishmemx_team_n_pes(ishmemx_team_t team);
ISHMEMX_API int ishmemx_team_translate_pe(ishmemx_team_t source, int pe, ishmemx_team_t dest);
ISHMEMX_API int ishmemx_team_world_pe(ishmemx_team_t team, int pe);
/* Mask 0 does nothing, and config may then be NULL. */
ISHMEMX_API int ishmemx_team_get_config(ishmemx_team_t team, long mask, ishmemx_team_config_t *config);

/* Collective over the parent: all its PEs call it, with equal arguments, and all get the same status.
 * *team_p is NULL on a PE that is in no new team, and after a failure; config NULL: the default. A
 * team's PEs keep the order in which they are named. */
ISHMEMX_API int ishmemx_team_split_strided(ishmemx_team_t parent, int start, int stride, int size,
                                           const ishmemx_team_config_t *config, long mask, ishmemx_team_t *team_p);
ISHMEMX_API int ishmemx_team_split_2d(ishmemx_team_t parent, int xrange, const ishmemx_team_config_t *xconfig,
                                      long xmask, ishmemx_team_t *xteam_p, const ishmemx_team_config_t *yconfig,
                                      long ymask, ishmemx_team_t *yteam_p);
/* The n_pes PEs `pes` of the parent, in that order. */
ISHMEMX_API int ishmemx_team_split_list(ishmemx_team_t parent, const int *pes, int n_pes,
                                        const ishmemx_team_config_t *config, long mask, ishmemx_team_t *team_p);
/* A team of each colour, ordered by key, then by number in the parent; a negative colour: no team. */
ISHMEMX_API int ishmemx_team_split_color(ishmemx_team_t parent, int color, int key, const ishmemx_team_config_t *config,
                                         long mask, ishmemx_team_t *team_p);
/* By all PEs of the team; with its contexts. NULL is allowed. A predefined team cannot be destroyed. */
ISHMEMX_API int ishmemx_team_destroy(ishmemx_team_t team);
/* ishmemx_ptr with a PE of the team. */
ISHMEMX_API int ishmemx_team_ptr(ishmemx_team_t team, const void *address, int pe, void **peer_p);

/* ---- contexts: PE numbers on a context are those of its team --------------------------------- */

enum { ISHMEMX_CTX_PRIVATE = 1, ISHMEMX_CTX_SERIALIZED = 2, ISHMEMX_CTX_NOSTORE = 4 };

/* On failure *ctx_p is NULL. A private context works only in the thread that created it. */
ISHMEMX_API int ishmemx_ctx_create(ishmemx_team_t team, long options, ishmemx_ctx_t *ctx_p);
ISHMEMX_API int ishmemx_ctx_destroy(ishmemx_ctx_t ctx); /* quiet first; NULL is allowed */
ISHMEMX_API int ishmemx_ctx_get_team(ishmemx_ctx_t ctx, ishmemx_team_t *team_p);

typedef struct ishmemx_session_config {
    size_t total_ops; /* a hint; SIZE_MAX: unknown */
} ishmemx_session_config_t;
enum { ISHMEMX_SESSION_BATCH = 1, ISHMEMX_SESSION_SAME_AMO = 2 }; /* options */
enum { ISHMEMX_SESSION_TOTAL_OPS = 1 };                           /* mask */
/* Hints. Starting again adds options and replaces what the mask names; stopping twice is harmless. */
ISHMEMX_API int ishmemx_session_start(ishmemx_ctx_t ctx, long options, const ishmemx_session_config_t *config,
                                      long mask);
ISHMEMX_API int ishmemx_session_stop(ishmemx_ctx_t ctx);

/* ---- RMA (bytes) --------------------------------------------------------------------------- */

ISHMEMX_API int ishmemx_put(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe);
ISHMEMX_API int ishmemx_get(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe);
ISHMEMX_API int ishmemx_put_nbi(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe);
ISHMEMX_API int ishmemx_get_nbi(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe);
/* Strided: blocks of `block` elements of `width` bytes; block i is at element i * stride on each side. Strides
 * count elements and are at least 1, and at least `block` where there is more than one block. */
ISHMEMX_API int ishmemx_iput(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                             ptrdiff_t source_stride, size_t block, size_t n_blocks, size_t width, int pe);
ISHMEMX_API int ishmemx_iget(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                             ptrdiff_t source_stride, size_t block, size_t n_blocks, size_t width, int pe);
/* In stream order; the arrays must live on the device heap, or the stream must be NULL and the
 * accelerator the simulator. */
ISHMEMX_API int ishmemx_put_on_stream(void *dest, const void *source, size_t nbytes, int pe, void *stream);
ISHMEMX_API int ishmemx_get_on_stream(void *dest, const void *source, size_t nbytes, int pe, void *stream);

/* ---- atomics: values travel as bits in a uint64_t ------------------------------------------- */

/* op is ISHMEMX_ATOMIC_*, type ISHMEMX_TYPE_*; `fetched` receives the old bits, or is NULL for the
 * forms that fetch nothing. `cond` matters to compare_swap only. */
ISHMEMX_API int ishmemx_atomic(ishmemx_ctx_t ctx, int op, int type, void *dest, uint64_t value, uint64_t cond, int pe,
                               uint64_t *fetched);
/* The old value arrives at `fetch`, an element of the type, by the next quiet. */
ISHMEMX_API int ishmemx_atomic_nbi(ishmemx_ctx_t ctx, int op, int type, void *fetch, void *dest, uint64_t value,
                                   uint64_t cond, int pe);

/* ---- signals -------------------------------------------------------------------------------- */

enum { ISHMEMX_SIGNAL_SET = 0, ISHMEMX_SIGNAL_ADD = 1 };
enum { ISHMEMX_CMP_EQ = 1, ISHMEMX_CMP_NE, ISHMEMX_CMP_GT, ISHMEMX_CMP_GE, ISHMEMX_CMP_LT, ISHMEMX_CMP_LE };

ISHMEMX_API int ishmemx_put_signal(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, uint64_t *sig_addr,
                                   uint64_t signal, int sig_op, int pe);
ISHMEMX_API int ishmemx_put_signal_nbi(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes,
                                       uint64_t *sig_addr, uint64_t signal, int sig_op, int pe);
ISHMEMX_API int ishmemx_signal_op(ishmemx_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe);
ISHMEMX_API int ishmemx_signal_fetch(const uint64_t *sig_addr, uint64_t *value);

/* ---- waiting on one's own memory (either heap) ---------------------------------------------- */

/* type: an element of family "a". Compares with the signedness of the type. `seen` receives the
 * bits that satisfied the comparison. */
ISHMEMX_API int ishmemx_wait_until(int type, const void *ivar, int cmp, uint64_t value, uint64_t *seen);
ISHMEMX_API int ishmemx_test(int type, const void *ivar, int cmp, uint64_t value, int *holds);
/* The same on nelems elements at `ivars`, less those whose `status` is not 0 (NULL: none). `values` is one
 * element of the type, or nelems of them when `vector`. Without an element in the set nothing waits:
 * all holds, index is SIZE_MAX, found 0. any takes turns among the elements that hold; some writes
 * the indices of all that hold, of which there is at least one after a wait. */
ISHMEMX_API int ishmemx_wait_until_all(int type, const void *ivars, size_t nelems, const int *status, int cmp,
                                       const void *values, int vector);
ISHMEMX_API int ishmemx_wait_until_any(int type, const void *ivars, size_t nelems, const int *status, int cmp,
                                       const void *values, int vector, size_t *index);
ISHMEMX_API int ishmemx_wait_until_some(int type, const void *ivars, size_t nelems, size_t *indices, const int *status,
                                        int cmp, const void *values, int vector, size_t *found);
ISHMEMX_API int ishmemx_test_all(int type, const void *ivars, size_t nelems, const int *status, int cmp,
                                 const void *values, int vector, int *holds);
ISHMEMX_API int ishmemx_test_any(int type, const void *ivars, size_t nelems, const int *status, int cmp,
                                 const void *values, int vector, size_t *index);
ISHMEMX_API int ishmemx_test_some(int type, const void *ivars, size_t nelems, size_t *indices, const int *status,
                                  int cmp, const void *values, int vector, size_t *found);

/* ---- ordering and synchronisation ------------------------------------------------------------ */

ISHMEMX_API int ishmemx_fence(ishmemx_ctx_t ctx);
ISHMEMX_API int ishmemx_quiet(ishmemx_ctx_t ctx);
/* quiet for n_pes PEs of the context; 0 returns at once. */
ISHMEMX_API int ishmemx_pe_quiet(ishmemx_ctx_t ctx, const int *pes, size_t n_pes);
ISHMEMX_API int ishmemx_barrier_all(void); /* quiet of the default context, sync, drain */
ISHMEMX_API int ishmemx_team_sync(ishmemx_team_t team);

/* ---- collectives (bytes; reductions take an element type) ------------------------------------ */

ISHMEMX_API int ishmemx_broadcast(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root);
ISHMEMX_API int ishmemx_fcollect(ishmemx_team_t team, void *dest, const void *source, size_t nbytes);
/* Combines in PE order 0..n-1, so every PE gets the same bits. dest may equal source. */
ISHMEMX_API int ishmemx_reduce(ishmemx_team_t team, int op, int type, void *dest, const void *source, size_t nreduce);
/* One behind the other, in PE order; nbytes may differ and may be 0. When dest of one PE, of `capacity` bytes
 * (SIZE_MAX: not known), does not hold all, the call fails on all. */
ISHMEMX_API int ishmemx_collect(ishmemx_team_t team, void *dest, size_t capacity, const void *source, size_t nbytes);
/* nbytes from each PE to each PE. */
ISHMEMX_API int ishmemx_alltoall(ishmemx_team_t team, void *dest, const void *source, size_t nbytes);
/* Elements of `width` bytes, strides >= 1 in elements; the block of PE l begins at l * nelems * stride. */
ISHMEMX_API int ishmemx_alltoalls(ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                                  ptrdiff_t source_stride, size_t nelems, size_t width);
/* Sums over PEs 0..me (inclusive) or 0..me-1 (exclusive: 0 on PE 0). dest may equal source. */
ISHMEMX_API int ishmemx_sum_scan(ishmemx_team_t team, int exclusive, int type, void *dest, const void *source,
                                 size_t nelems);

/* ---- non-blocking collectives ------------------------------------------------------------------ */

/* The routines above, begun: the members begin the same ones on a team in the same order, blocking ones in between
 * alike. dest and source stay untouched until the request is complete. 8 requests of a team may be outstanding; a
 * further call waits for the oldest. Requests move on while the PE is in test, in wait, in a call that begins another
 * one, or in any other wait of the library. team_destroy and finalize complete what is left. Where PYSHMEM_CHECK is
 * set, arguments that differ fail at test and wait, on all members. */
typedef struct ishmemx_request *ishmemx_request_t;
ISHMEMX_API int ishmemx_sync_nb(ishmemx_team_t team, ishmemx_request_t *request);
ISHMEMX_API int ishmemx_barrier_nb(ishmemx_team_t team, ishmemx_request_t *request); /* quiet, then sync_nb */
ISHMEMX_API int ishmemx_broadcast_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root,
                                     ishmemx_request_t *request);
ISHMEMX_API int ishmemx_fcollect_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                                    ishmemx_request_t *request);
ISHMEMX_API int ishmemx_collect_nb(ishmemx_team_t team, void *dest, size_t capacity, const void *source, size_t nbytes,
                                   ishmemx_request_t *request);
ISHMEMX_API int ishmemx_alltoall_nb(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                                    ishmemx_request_t *request);
ISHMEMX_API int ishmemx_alltoalls_nb(ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                                     ptrdiff_t source_stride, size_t nelems, size_t width, ishmemx_request_t *request);
ISHMEMX_API int ishmemx_reduce_nb(ishmemx_team_t team, int op, int type, void *dest, const void *source, size_t nreduce,
                                  ishmemx_request_t *request);
ISHMEMX_API int ishmemx_sum_scan_nb(ishmemx_team_t team, int exclusive, int type, void *dest, const void *source,
                                    size_t nelems, ishmemx_request_t *request);
/* Is it complete? Fails as the collective did, with *done 1. Also of a complete one, as often as one likes, even after
 * finalize. */
ISHMEMX_API int ishmemx_request_test(ishmemx_request_t request, int *done);
/* A wait that ends early (TIMEOUT, INTERRUPTED) leaves the request outstanding. */
ISHMEMX_API int ishmemx_request_wait(ishmemx_request_t request);
/* The caller will not name it again. One that is outstanding still completes, by progress of other calls. */
ISHMEMX_API int ishmemx_request_free(ishmemx_request_t request);

/* ---- locks: a long of 8 bytes on the host heap, all 0 on every PE at first ---------------------- */

/* First come, first served. A wait that ends early keeps the place in the queue: set it again. */
ISHMEMX_API int ishmemx_set_lock(void *lock);
ISHMEMX_API int ishmemx_test_lock(void *lock, int *acquired);
ISHMEMX_API int ishmemx_clear_lock(void *lock); /* quiet of the default context first; by the holder only */

/* ---- the device library ---------------------------------------------------------------------- */

/* Words of the state block that every kernel reads; pyshmem/device/state.py mirrors the numbers. */
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
    ISHMEMX_DEVICE_TEAM_EPOCH, /* u64 of the own PE: exchanges so far */
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
    ISHMEMX_FAULT_LOCK,   /* cleared by a PE that does not have it; a: its word there */
    ISHMEMX_FAULT_CHOICE  /* a: what is no comparison, or no operation on signals; b: the last that is */
};

/* The first fault since the last report. Kernels write it, `kind` last; the host reads. */
typedef struct ishmemx_fault {
    uint64_t kind;
    uint64_t op;           /* number of the device routine, see pyshmem/device/faults.py */
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
/* Those have all finished; the default stream may be asked again. */
ISHMEMX_API int ishmemx_other_streams_done(void);
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

/* ---- the launcher's view of a job ------------------------------------------------------------ */

/* A control segment for n_pes PEs; the launcher makes it and lets the PEs inherit the descriptor. */
ISHMEMX_API int ishmemx_control_create(int n_pes, int *fd);
/* One line on where `pe` stands: "in barrier_all for 3.2 s", "running", "not initialised", ... */
ISHMEMX_API int ishmemx_control_describe(int fd, int pe, char *text, size_t capacity);
/* Marks the job as aborted, so that waiting PEs end with ISHMEMX_ERR_PEER and `why`. */
ISHMEMX_API int ishmemx_control_abort(int fd, const char *why);

#ifdef __cplusplus
}
#endif
