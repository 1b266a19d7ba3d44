/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "accel/cuda/amo_launcher.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "accel/cuda/gpu.h"
#include "base/clock.h"
#include "base/say.h"
#include "base/state.h"
#include "base/thread.h"

#define STOP_TIMEOUT_NS (2 * 1000000000LL)
#define LOOK_NS         (100 * 1000L)

static void *run(void *argument) {
    pysh_cuda_launcher_t *launcher = argument;
    unsigned ended;

    pysh_cuda.CtxSetCurrent(pysh_gpu.context);
    pysh_cuda_relax();
    pthread_mutex_lock(&launcher->mutex);
    ended = launcher->ended;
    while (launcher->ended == ended) {
        uint64_t first = launcher->first, life = launcher->life;
        CUresult result;
        if (!launcher->asked) {
            pthread_cond_wait(&launcher->changed, &launcher->mutex);
            continue;
        }
        launcher->asked = false;
        pthread_mutex_unlock(&launcher->mutex);
        result = launcher->launch(launcher->of, first, life);
        pthread_mutex_lock(&launcher->mutex);
        if (launcher->ended == ended && !launcher->failed)
            launcher->failed = result;
    }
    pthread_mutex_unlock(&launcher->mutex);
    return NULL;
}

int pysh_cuda_launcher_ask(pysh_cuda_launcher_t *launcher, pysh_cuda_launch_t launch, void *of, uint64_t first,
                           uint64_t life) {
    CUresult result;

    pthread_mutex_lock(&launcher->mutex);
    launcher->launch = launch;
    launcher->of = of;
    launcher->first = first;
    launcher->life = life;
    launcher->asked = true;
    if (!launcher->runs && !(launcher->runs = pysh_thread_start(&launcher->thread, "pysh-amo", run, launcher) == 0))
        launcher->failed = CUDA_ERROR_OUT_OF_MEMORY; /* no thread is to be had */
    pthread_cond_signal(&launcher->changed);
    result = launcher->failed;
    pthread_mutex_unlock(&launcher->mutex);
    return result;
}

int pysh_cuda_launcher_failed(pysh_cuda_launcher_t *launcher) {
    CUresult failed;

    pthread_mutex_lock(&launcher->mutex);
    failed = launcher->failed;
    pthread_mutex_unlock(&launcher->mutex);
    return failed;
}

static bool joined(pthread_t thread) {
    struct timespec nap = {.tv_nsec = LOOK_NS};
    int64_t deadline = pysh_now_ns() + STOP_TIMEOUT_NS;

    while (pthread_tryjoin_np(thread, NULL)) {
        if (pysh_now_ns() > deadline) {
            pthread_detach(thread);
            pysh_sayf(
                STDERR_FILENO,
                "PE %d: the driver has not returned from the launch of a kernel for atomic operations; the thread "
                "that waits there is left behind\n",
                pysh.pe);
            return false;
        }
        nanosleep(&nap, NULL);
    }
    return true;
}

bool pysh_cuda_launcher_stop(pysh_cuda_launcher_t *launcher) {
    bool ran;

    pthread_mutex_lock(&launcher->mutex);
    ran = launcher->runs;
    launcher->ended++;
    launcher->runs = launcher->asked = false;
    launcher->failed = 0;
    pthread_cond_signal(&launcher->changed);
    pthread_mutex_unlock(&launcher->mutex);
    return !ran || joined(launcher->thread);
}
