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
/* Where this PE's GPU reaches [address, +nbytes), of this PE's device heap, at world PE `pe`. */
int pysh_stream_reach(const void *address, size_t nbytes, int pe, const char *what, char **peer_p);
/* OK, or ARGUMENT: not memory that the accelerator reaches. */
int pysh_stream_local(const void *address, const char *what);
/* The library's own stream, for calls that wait. */
int pysh_stream_own(void **stream_p);
/* Until the stream's work is done; then the fault of a kernel counts. */
int pysh_stream_wait(void *stream, const char *what);

/* ---- kernels: kernels.c ---- */

/* Fills in the words of a launch, from the first on. */
void pysh_words_int(pysh_launch_t *launch, int64_t value);
void pysh_words_array(pysh_launch_t *launch, const void *address, size_t nelems, size_t width);
int64_t pysh_kernel_key(int kind, int op, int type);
/* Launches the kernel of `key` for `nbytes`, which choose its shape: the wide one of a key that has one, from some size
 * on. UNPREPARED when it is not loaded. */
int pysh_kernel_launch(pysh_launch_t *launch, int64_t key, size_t nbytes, void *stream);
/* shapes.c: fills in blocks and threads; what the key gets besides: WIDE, LEAN or 0. */
int64_t pysh_launch_shape(pysh_launch_t *launch, int kind, size_t nbytes);
/* Whether the blocks of the wide one meet each other: a cooperative launch. */
bool pysh_kernel_meets(int kind);

/* The job is over: kernels that are launched yet, by graphs of other libraries, find none and do nothing. After an
 * error of CUDA nothing can be written any more, nor can they run. */
void pysh_kernels_forget(void);
/* Before the device heap goes: waits for what is queued on the streams that were used, and ends those of the
 * simulator. */
int pysh_streams_settle(void);
void pysh_streams_close(void);
/* host_words.c: no stream waits for one any more. */
void pysh_host_words_close(void);
