/* SPDX-License-Identifier: BSD-3-Clause
 * Part of ishmemx.h: the same operations in the order of a stream. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ishmemx_contract.h"
#include "ishmemx_job.h"
#include "ishmemx_teams.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- streams ---------------------------------------------------------------------------------
 * `stream` is a cudaStream_t of this PE's GPU or, in the simulator, one that ishmemx_stream_create() made; NULL is the
 * default stream, on which the simulator does everything at once. Arrays live on the device heap, those of put, get and
 * p also in registered memory of a GPU, local ones anywhere in the GPU's memory. An operation is started and ordered on
 * return; it is complete, here and at its target, when the stream gets past it, so that fence and quiet of a stream's
 * own operations are its order. All can be captured. */

ISHMEMX_API int ishmemx_stream_create(void **stream);
/* Waits for its work, as finish does. */
ISHMEMX_API int ishmemx_stream_destroy(void *stream);
/* Until the stream's work is done; fails as any wait, and with the fault that a kernel recorded. */
ISHMEMX_API int ishmemx_stream_finish(void *stream);
ISHMEMX_API int ishmemx_stream_finished(void *stream, int *finished);
ISHMEMX_API int ishmemx_stream_capturing(void *stream, int *capturing);
/* Until all that was put on streams is done; finalize does it too, and fails when it failed. */
ISHMEMX_API int ishmemx_streams_settle(void);
/* What comes on the stream between these two becomes a graph. */
ISHMEMX_API int ishmemx_capture_begin(void *stream);
ISHMEMX_API int ishmemx_capture_end(void *stream, void **graph);
ISHMEMX_API int ishmemx_graph_replay(void *graph, void *stream);
ISHMEMX_API int ishmemx_graph_drop(void *graph);

/* ---- by copies and stored words ------------------------------------------------------------- */

ISHMEMX_API int ishmemx_put_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe,
                                      void *stream);
ISHMEMX_API int ishmemx_get_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe,
                                      void *stream);
/* 1, 2, 4, 8 or 16 bytes at `value`, which is read at once. */
ISHMEMX_API int ishmemx_p_on_stream(ishmemx_ctx_t ctx, void *dest, const void *value, size_t nbytes, int pe,
                                    void *stream);
/* As ishmemx_iput and ishmemx_iget. */
ISHMEMX_API int ishmemx_iput_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                                       ptrdiff_t source_stride, size_t block, size_t n_blocks, size_t width, int pe,
                                       void *stream);
ISHMEMX_API int ishmemx_iget_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                                       ptrdiff_t source_stride, size_t block, size_t n_blocks, size_t width, int pe,
                                       void *stream);
/* `fetched`: GPU memory for one element that gets the old value, or NULL. */
ISHMEMX_API int ishmemx_atomic_on_stream(ishmemx_ctx_t ctx, int op, int type, void *dest, uint64_t value, uint64_t cond,
                                         int pe, void *fetched, void *stream);
ISHMEMX_API int ishmemx_put_signal_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes,
                                             uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, void *stream);
ISHMEMX_API int ishmemx_signal_op_on_stream(ishmemx_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                                            void *stream);

/* ---- words of the host ----------------------------------------------------------------------- */

/* The stream goes on once the word, 0 at first, is `value` or more; not in a capture. All words are gone after
 * finalize. */
ISHMEMX_API int ishmemx_host_word_wait_on_stream(int word, uint64_t value, void *stream);
/* By any thread; what this one did before is seen behind the wait. */
ISHMEMX_API int ishmemx_host_word_store(int word, uint64_t value);

/* ---- by kernels of the device library --------------------------------------------------------
 * A kernel has to be loaded before; enum ishmemx_stream_key says how its key is made. ISHMEMX_ERR_UNPREPARED:
 * ishmemx_kernel_missing() says which is not; nothing has been started. */

/* For `stream` of a collective: one of the library's own, and the call waits for it. */
#define ISHMEMX_STREAM_OWN ((void *)(intptr_t)-1)

ISHMEMX_API int64_t ishmemx_kernel_missing(void); /* of the calling thread's last call */
/* A cubin and its kernel's name, bytes of stack a thread needs; `image` is NULL in the simulator. Not in a capture. */
ISHMEMX_API int ishmemx_kernel_load(int64_t key, const void *image, const char *name, size_t stack);
ISHMEMX_API int ishmemx_kernel_loaded(int64_t key);
/* Whether a kernel of this PE, whoever launched it, waits in the library for longer than moments, and what for, in at
 * most `capacity` bytes with the 0. A GPU loads nothing meanwhile. */
ISHMEMX_API int ishmemx_kernel_waits(char *text, size_t capacity);
/* How collectives of a kind (enum ishmemx_stream_kernel: BROADCAST, FCOLLECT, ALLTOALL, REDUCE, REDUCE_SCATTER) are
 * done and launched, the same on all PEs: 1 to 16 rows of four words, of which the first counts whose bytes are enough.
 * Bytes that a PE sends to the others together; 0: with flags in the data, 1: by direct stores; blocks at most;
 * threads. */
ISHMEMX_API int ishmemx_stream_rows_set(int kind, int count, const int64_t *rows);
/* 1: some PEs' device heaps are out of reach of this job's loads and stores: kernels of teams with such a member have
 * ISHMEMX_KEY_FAR in their key, and what copies, stored words and atomics are for the others ISHMEMX_KERNEL_REQUEST
 * is for these. */
ISHMEMX_API int ishmemx_has_far_pes(void);
/* Blocks of such a row at most on this PE: those that its GPU certainly runs at a time. */
ISHMEMX_API int ishmemx_stream_blocks(int *most);
/* The words of the state block have changed. */
ISHMEMX_API int ishmemx_kernels_refill(void);
/* A kernel that another library has loaded on this PE's GPU, and how it is launched: `function` is a CUfunction. */
typedef struct {
    void *function;
    unsigned grid[3], threads, shared; /* blocks; threads and bytes of shared memory of a block */
    int cooperative, early;            /* its blocks meet; it may start before those in front of it end */
} ishmemx_loaded_t;
/* 1: it takes `count` arguments of so many bytes each, one behind the other, and no more, as far as the driver says. */
ISHMEMX_API int ishmemx_loaded_takes(const ishmemx_loaded_t *kernel, int count, const size_t *nbytes, int *takes);
/* `arguments` point to them. The fault of an earlier kernel is told first, as by every call. */
ISHMEMX_API int ishmemx_loaded_launch(const ishmemx_loaded_t *kernel, void **arguments, void *stream);
/* 10 * major + minor of the GPU. */
ISHMEMX_API int ishmemx_cuda_capability(int *capability);
/* Simulator: who runs kernels, in the thread of their stream; arguments are words, an array seven of them: 0, 0, its
 * elements, bytes of one, address, elements, bytes of one. */
typedef void (*ishmemx_kernel_runner_t)(int64_t key, int blocks, int threads, const int64_t *words);
ISHMEMX_API int ishmemx_sim_kernels(ishmemx_kernel_runner_t run);
/* Simulator: a call in the order of a stream, in its thread, once for each time that the stream gets there: a graph may
 * be replayed. The stream has to be one: ask ishmemx_stream_capturing() before. */
typedef void (*ishmemx_sim_call_t)(int64_t number);
ISHMEMX_API int ishmemx_sim_call(ishmemx_sim_call_t call, int64_t number, void *stream);
/* Are both on the device heap of an accelerator whose memory only it reaches, and is a blocking collective on them for
 * kernels: with peers in reach, and not in checking mode? */
ISHMEMX_API int ishmemx_only_gpu(const void *dest, const void *source);

/* Which sides of a collective with rows other members reach: a dest or source that they do not may be any memory of
 * this PE's GPU that begins at a multiple of 16 bytes. `kind` and `nbytes` of a member's block as for the rows. */
enum ishmemx_side { ISHMEMX_SIDE_DEST = 1, ISHMEMX_SIDE_SOURCE = 2 };
ISHMEMX_API int ishmemx_stream_sides(ishmemx_team_t team, int kind, size_t nbytes, int *sides);

ISHMEMX_API int ishmemx_sync_on_stream(ishmemx_team_t team, void *stream);
ISHMEMX_API int ishmemx_barrier_all_on_stream(void *stream);
ISHMEMX_API int ishmemx_quiet_on_stream(void *stream);
ISHMEMX_API int ishmemx_broadcast_on_stream(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                                            int root, void *stream);
ISHMEMX_API int ishmemx_fcollect_on_stream(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                                           void *stream);
ISHMEMX_API int ishmemx_collect_on_stream(ishmemx_team_t team, void *dest, size_t capacity, const void *source,
                                          size_t nbytes, void *stream);
ISHMEMX_API int ishmemx_alltoall_on_stream(ishmemx_team_t team, void *dest, const void *source, size_t nbytes,
                                           void *stream);
ISHMEMX_API int ishmemx_alltoalls_on_stream(ishmemx_team_t team, void *dest, const void *source, ptrdiff_t dst,
                                            ptrdiff_t sst, size_t nelems, size_t width, void *stream);
ISHMEMX_API int ishmemx_reduce_on_stream(ishmemx_team_t team, int op, int type, void *dest, const void *source,
                                         size_t nreduce, void *stream);
/* `dest` gets this PE's block of `nelems` elements of the result. */
ISHMEMX_API int ishmemx_reduce_scatter_on_stream(ishmemx_team_t team, int op, int type, void *dest, const void *source,
                                                 size_t nelems, void *stream);
ISHMEMX_API int ishmemx_sum_scan_on_stream(ishmemx_team_t team, int exclusive, int type, void *dest, const void *source,
                                           size_t nelems, void *stream);
/* CMP_EQ and CMP_GE of one element, and ISHMEMX_SIGNAL_SET, need no kernel of the device library: the driver does them,
 * or small kernels of this library, as PYSHMEM_STREAM_SIGNALS says; neither has a deadline. See docs/streams.md. */
ISHMEMX_API int ishmemx_wait_until_on_stream(int type, const void *ivar, int cmp, uint64_t value, void *stream);
/* These two by the driver, whatever is set: they need no room on the GPU. */
ISHMEMX_API int ishmemx_wait_by_driver(int type, const void *ivar, int cmp, uint64_t value, void *stream);
ISHMEMX_API int ishmemx_signal_op_by_driver(ishmemx_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                                            void *stream);
/* Who does it from now on; -1: what the setting says. EARLY: kernels that, behind other kernels of this library, are
 * launched before these have ended. */
enum { ISHMEMX_SIGNALS_DRIVER, ISHMEMX_SIGNALS_KERNEL, ISHMEMX_SIGNALS_EARLY };
ISHMEMX_API int ishmemx_stream_signals(int sets, int waits);
/* `kind`: ISHMEMX_KERNEL_WAIT_ALL, _ANY or _SOME; `indices` gets nelems int64 at most (some) and `found` one int64: the
 * index (any; -1: none counts) or how many (some). */
ISHMEMX_API int ishmemx_wait_set_on_stream(int kind, int type, const void *ivars, size_t nelems, int cmp,
                                           uint64_t value, void *indices, void *found, void *stream);

#ifdef __cplusplus
}
#endif
