/* SPDX-License-Identifier: BSD-3-Clause
 * Work in stream order. A stream is the driver's on a GPU; in the simulator a queue with a thread, and NULL does its
 * work at once. Nothing here waits for a stream, and all of it can be captured where the capture allows it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"

#define PYSH_STREAM_WORDS 32 /* arguments of a kernel at most */

typedef struct pysh_blocks { /* a strided copy; strides in bytes */
    void *dest;
    const void *source;
    size_t dest_stride, source_stride, nbytes, n_blocks;
} pysh_blocks_t;

typedef struct pysh_kernel { /* of the device library */
    int64_t key;             /* the simulator's callback knows it by that */
    void *function;          /* CUfunction; NULL in the simulator */
    void *library;           /* CUlibrary, with the state block */
    bool cooperative;        /* its blocks meet */
} pysh_kernel_t;

typedef struct pysh_launch {
    const pysh_kernel_t *kernel;
    int blocks, threads, n_words;
    int others;          /* members of the team beside this PE */
    int64_t slot_nbytes; /* of a collective: what another member may store to this PE with flags in it */
    bool few;            /* of a collective: its kernel for few bytes would do */
    int64_t half, first; /* what that one is told besides: see stream_kernels/small_messages.py */
    bool early;          /* the kernel itself waits for those in front of it: it may start before they end */
    int64_t words[PYSH_STREAM_WORDS];
} pysh_launch_t;

typedef struct pysh_streams {
    int (*create)(void **stream_p);
    int (*destroy)(void *stream); /* once its work is done */
    /* OK, or ARGUMENT: not a stream of this PE's device, or destroyed. */
    int (*check)(void *stream);
    int (*finished)(void *stream, bool *finished_p);
    int (*capturing)(void *stream, bool *capturing_p);
    int (*copy)(void *dest, const void *source, size_t nbytes, void *stream);
    /* A stream for work beside what comes next on this one, behind what is there; and the end of that, as soon as it
     * can be asked for. It may be the stream itself. Between the two nobody else forks the stream. NULL: there are
     * none. */
    int (*fork)(void *stream, void **side_p);
    int (*join)(void *stream, void *side);
    int (*copy_blocks)(const pysh_blocks_t *blocks, void *stream);
    /* 1, 2, 4 or 8 bytes, stored whole, after all that was before on the stream is visible. */
    int (*store)(void *address, uint64_t value, size_t nbytes, void *stream);
    /* Until the 4 or 8 bytes compare, by CMP_EQ, or by CMP_GE: the difference as a signed number is not negative. */
    int (*wait)(const void *address, int cmp, uint64_t value, size_t nbytes, void *stream);
    /* The same by kernels: 8 bytes, and a wait that pysh_end_kernel_waits() ends too. `early_start`: behind other
     * kernels of ours they, and the next one, may be launched before these have ended. NULL: there are none. */
    int (*store_by_kernel)(void *address, uint64_t value, bool early_start, void *stream);
    int (*wait_by_kernel)(const void *address, int cmp, uint64_t value, size_t nbytes, bool early_start, void *stream);
    /* `fetched`: device memory for an element, or NULL. */
    int (*amo)(int op, int type, void *address, uint64_t value, uint64_t cond, void *fetched, void *stream);
    int (*launch)(const pysh_launch_t *launch, void *stream);
    /* Kernels that another library has loaded: does it take these arguments, and a launch. NULL: there are none. */
    bool (*takes)(void *function, int count, const size_t *nbytes);
    int (*launch_loaded)(const ishmemx_loaded_t *kernel, void **arguments, void *stream);
    int (*multiprocessors)(void); /* each runs a block of any kernel of ours; NULL: there is no limit */
    /* Kernels: a cubin, loaded for good, not inside a capture. `state` are the words of its state block, `stack` the
     * bytes a thread needs. */
    int (*load)(const void *image, const char *name, const int64_t *state, size_t stack, pysh_kernel_t *kernel);
    int (*refill)(const pysh_kernel_t *kernel, const int64_t *state); /* no kernel of ours runs */
    /* Graphs: what was put on the stream between begin and end, to be put on streams again. */
    int (*capture_begin)(void *stream);
    int (*capture_end)(void *stream, void **graph_p);
    int (*replay)(void *graph, void *stream);
    void (*drop)(void *graph);
    /* Waits until all that this process has put on any stream of the device is done, those that were destroyed too.
     * NULL: there are no streams but ours. */
    int (*drain)(void);
    /* Simulator: is one at something that is no wait? Of kernels the caller says whether they wait. NULL: nobody knows.
     */
    bool (*works)(bool kernels_wait);
    /* What the stream waits for, if it is at a wait: "== 1, seen 0"; else empty. NULL as `works`. */
    void (*describe)(void *stream, char *text, size_t capacity);
    /* Simulator: streams end, with what is still queued. */
    void (*close)(void);
} pysh_streams_t;
