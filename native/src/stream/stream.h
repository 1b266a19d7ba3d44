/* SPDX-License-Identifier: BSD-3-Clause
 * Operations in the order of a stream: what they ask of their arguments, and the kernels that they launch. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/accel.h"
#include "ishmemx.h"

/* OK, or why nothing can be put on the stream. First of all, after PYSH_ENTER(). */
int pysh_stream_check(void *stream);
/* Where this PE's GPU reaches [address, +nbytes), of this PE's device heap, at world PE `pe`: `peer_p` is NULL when
 * only the ring does, and never for the own PE. */
int pysh_stream_reach(const void *address, size_t nbytes, int pe, const char *what, char **peer_p);
/* OK, or ARGUMENT: not memory that the accelerator reaches. */
int pysh_stream_local(const void *address, const char *what);
/* The library's own stream, for calls that wait. */
int pysh_stream_own(void **stream_p);
/* Until the stream's work is done; then the fault of a kernel counts. */
int pysh_stream_wait(void *stream, const char *what);

/* wait.c: ISHMEMX_SIGNALS_*, who sets a signal where the driver could. */
int pysh_signal_way(void);

/* ---- what is out of reach: requests.c ---- */

/* Each is a kernel that sends a request and waits for the answer, so that it is complete when the stream gets past it.
 * UNPREPARED as pysh_kernel_launch(). Strides in elements of `width` bytes; the arguments have been checked. */
int pysh_stream_request_bytes(int op, void *dest, const void *source, size_t nbytes, int pe, void *stream);
int pysh_stream_request_blocks(int op, void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                               size_t block, size_t n_blocks, size_t width, int pe, void *stream);
int pysh_stream_request_p(void *dest, uint64_t value, size_t width, int pe, void *stream);
int pysh_stream_request_amo(int op, int type, void *dest, uint64_t value, uint64_t cond, int pe, void *fetched,
                            void *stream);
int pysh_stream_request_put_signal(void *dest, const void *source, size_t nbytes, uint64_t *sig_addr, uint64_t signal,
                                   int sig_op, int pe, void *stream);

/* ---- kernels: kernels.c ---- */

/* Fills in the words of a launch, from the first on. */
void pysh_words_int(pysh_launch_t *launch, int64_t value);
void pysh_words_array(pysh_launch_t *launch, const void *address, size_t nelems, size_t width);
int64_t pysh_kernel_key(int kind, int op, int type);
/* Launches the kernel of `key` for `nbytes`, which choose its shape: the wide one of a key that has one, from some size
 * on. UNPREPARED when it is not loaded. */
int pysh_kernel_launch(pysh_launch_t *launch, int64_t key, size_t nbytes, void *stream);
/* shapes.c: fills in blocks and threads; what the key gets besides: WIDE, LEAN or 0. `by_proxy`: of a team with members
 * out of reach. */
int64_t pysh_launch_shape(pysh_launch_t *launch, int kind, bool by_proxy, size_t nbytes);
/* shapes.c: do copy engines move the data, `nbytes` from each member to each of `others`? */
bool pysh_goes_by_engine(int kind, size_t nbytes, int others);
/* shapes.c: the sides, of enum ishmemx_side, that other members reach, of `nbytes` that go from each member to each of
 * `others`, whose slots for data with flags have `slot_nbytes`. */
int pysh_sides_reached(int kind, size_t nbytes, int64_t others, int64_t slot_nbytes);
/* Whether the blocks of the wide one meet each other: a cooperative launch. */
bool pysh_kernel_syncs_grid(int kind);

/* The job is over: kernels that are launched yet, by graphs of other libraries, find none and do nothing. After an
 * error of CUDA nothing can be written any more, nor can they run. */
void pysh_kernels_forget(void);
/* Before the device heap goes: waits for what is queued on the streams that were used, and ends those of the
 * simulator. */
int pysh_streams_settle(void);
void pysh_streams_close(void);
/* host_words.c: no stream waits for one any more. */
void pysh_host_words_close(void);
