/* SPDX-License-Identifier: BSD-3-Clause
 * The PE's GPU: what the files of this folder share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "accel/accel.h"
#include "accel/cuda/amo.h"
#include "accel/cuda/driver.h"
#include "accel/cuda/peers.h"

#define PYSH_CUDA_ALLOCATION_UNIT (2 * 1024 * 1024) /* so that no arena shares an allocation of the driver's */

typedef struct pysh_cuda_gpu {
    int ordinal;
    CUdevice device;
    CUcontext context; /* primary, retained; NULL: not attached */
    CUstream stream, nbi_stream;
    CUdeviceptr base;
    int64_t nbytes;
    CUipcMemHandle *handles; /* [n_pes] of the PEs' arenas */
    CUdeviceptr *opened;     /* [n_pes] mappings of the peers' arenas; 0: none */
    _Atomic uint64_t nbi_started, nbi_finished;
    pysh_cuda_amo_t amo;
    pthread_mutex_t amo_lock;       /* for slot 0, held while a host call waits */
    pthread_mutex_t amo_slots_lock; /* for the others: no wait under it */
} pysh_cuda_gpu_t;
extern pysh_cuda_gpu_t pysh_gpu;

typedef struct pysh_cuda_visit {
    bool pushed;
    int mode;
} pysh_cuda_visit_t;

/* Around the driver's calls of a thread of the program: our context, and relaxed capture mode. */
pysh_cuda_visit_t pysh_cuda_enter(void);
void pysh_cuda_leave(pysh_cuda_visit_t visit);
/* card.c: makes the GPU's primary context current; *card is for the other PEs to know it by. */
int pysh_cuda_open_card(int ordinal, int count, pysh_cuda_card_t *card);
/* card.c: share and join of the accelerator. */
int pysh_cuda_share(pysh_engine_map_t *map, int *fd_p);
int pysh_cuda_join(const pysh_engine_map_t *map, int fd, char **base);
/* Those of the accelerator. */
int pysh_cuda_shared_alloc(size_t nbytes, void **host_p, void **device_p);
void pysh_cuda_shared_free(void *host);
/* clock.c: that of the accelerator. */
int pysh_cuda_clock(int64_t *offset_ns_p, int64_t *within_ns_p);
