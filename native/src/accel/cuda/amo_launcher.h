/* SPDX-License-Identifier: BSD-3-Clause
 * A thread that launches kernels for atomic operations. A launch waits for whatever the program waits for in the
 * driver, such as a copy behind a kernel of its own, and the proxy's thread has more to do than to wait with it. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "accel/cuda/driver.h"

typedef CUresult (*pysh_cuda_launch_t)(void *of, uint64_t first, uint64_t life);

typedef struct pysh_cuda_launcher {
    pthread_mutex_t mutex; /* for all of it; none holds it in the driver */
    pthread_cond_t changed;
    pthread_t thread;
    bool runs, asked;
    unsigned ended; /* threads so far that have been told to end; one ends when this is not what it was */
    pysh_cuda_launch_t launch;
    void *of;
    uint64_t first, life; /* arguments of the launch that is asked for */
    CUresult failed;      /* of a launch; 0: none has */
} pysh_cuda_launcher_t;

#define PYSH_CUDA_LAUNCHER {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}

/* Asks for launch(of, ...), with the current GPU's context; one at a time. The thread is started by the first.
 * Returns: as the next. */
int pysh_cuda_launcher_ask(pysh_cuda_launcher_t *launcher, pysh_cuda_launch_t launch, void *of, uint64_t first,
                           uint64_t life);
/* The result of a launch that has failed; 0: none has. */
int pysh_cuda_launcher_failed(pysh_cuda_launcher_t *launcher);
/* Ends the thread; what it is asked for and has not begun is left out. False when the driver keeps it for too long: it
 * is left behind, and whatever it launches with has to stay. The launcher may be used again in either case. */
bool pysh_cuda_launcher_stop(pysh_cuda_launcher_t *launcher);
