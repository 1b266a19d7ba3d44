/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel that does one atomic operation on GPU memory for the host. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "accel/cuda/driver.h"

#define PYSH_CUDA_AMO_BOXES 16                        /* requests to the kernel that stays, under way at one time */
#define PYSH_CUDA_AMO_SLOTS (2 * PYSH_CUDA_AMO_BOXES) /* all that are polled: the others go by a stream */

/* One that is polled. */
typedef struct pysh_cuda_amo_slot {
    bool used, by_stream;
    int op, type, polls;
    uint64_t number; /* of a request to the kernel; by a stream: what it stores in `completion` behind it */
    uint64_t value, cond;
    CUdeviceptr address;
} pysh_cuda_amo_slot_t;

/* In memory that host and GPU share. Words of boxes and cells carry the phase of their request in the top byte. */
typedef struct pysh_cuda_amo_shared {
    uint64_t box[PYSH_CUDA_AMO_BOXES][4];     /* requests: see post() */
    uint64_t cell[PYSH_CUDA_AMO_BOXES][2];    /* replies: the old bits */
    uint64_t here, gone;                      /* by the kernel: its life; its life, and whom it has not served */
    uint64_t completion[PYSH_CUDA_AMO_SLOTS]; /* by the stream */
    uint64_t word[PYSH_CUDA_AMO_SLOTS];       /* where it leaves old bits */
    uint64_t own, spare, nowhere;             /* of the host's calls; for the first run to read; what nobody wants */
} pysh_cuda_amo_shared_t;

typedef struct pysh_cuda_amo {
    CUmodule module;
    CUfunction function, server;
    pysh_cuda_amo_shared_t *shared;
    CUdeviceptr device_shared;      /* the same for the GPU */
    CUstream stream, server_stream; /* of those that are polled, and of the kernel that stays */
    uint64_t life;                  /* of such kernels so far */
    bool stays;                     /* the last of them has not been seen to go */
    uint64_t posted, left;          /* requests; while none stays: those below need no kernel any more */
    uint64_t completions;           /* by the stream */
    int in_boxes, in_stream;        /* under way */
    bool wanted;                    /* one that needs the kernel was refused for what goes by the stream */
    int64_t last_ns;                /* when the last began */
    pysh_cuda_amo_slot_t slot[PYSH_CUDA_AMO_SLOTS]; /* [request % BOXES], and behind them the stream's */
} pysh_cuda_amo_t;

/* In the current context. Loads the module and runs it once, so that nothing is loaded later, when a
 * kernel that waits for this very operation may fill the GPU. */
int pysh_cuda_amo_open(pysh_cuda_amo_t *amo, CUstream stream);
/* False when a launch has not returned: what that uses is left where it is, and the context has to stay too. */
bool pysh_cuda_amo_close(pysh_cuda_amo_t *amo);
/* One caller at a time; complete on return. */
int pysh_cuda_amo_run(pysh_cuda_amo_t *amo, CUstream stream, int op, int type, CUdeviceptr address, uint64_t value,
                      uint64_t cond, uint64_t *fetched_p);
/* In the order of a stream; the old bits go to an element of the type at `fetched`, unless it is 0. */
int pysh_cuda_amo_on_stream(pysh_cuda_amo_t *amo, CUstream stream, int op, int type, CUdeviceptr address,
                            uint64_t value, uint64_t cond, CUdeviceptr fetched);
int pysh_cuda_amo_case(int op, int type); /* of the kernels */
int pysh_cuda_amo_failed(CUresult result, int op, CUdeviceptr address);

/* An address of the shared memory for the GPU. */
static inline CUdeviceptr pysh_cuda_amo_at(const pysh_cuda_amo_t *amo, const void *place) {
    return amo->device_shared + (CUdeviceptr)((const char *)place - (const char *)amo->shared);
}
