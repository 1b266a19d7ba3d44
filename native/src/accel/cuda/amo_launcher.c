/* SPDX-License-Identifier: BSD-3-Clause */
#include "accel/cuda/amo_launcher.h"

#include "accel/cuda/gpu.h"
#include "base/thread.h"

static void *run(void *argument) {
    pysh_cuda_launcher_t *launcher = argument;

    pysh_cuda.CtxSetCurrent(pysh_gpu.context);
    pysh_cuda_relax();
    pthread_mutex_lock(&launcher->mutex);
    while (!launcher->ends) {
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
        launcher->failed = launcher->failed ? launcher->failed : result;
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
    if (!launcher->runs && !(launcher->runs = pysh_thread_start(&launcher->thread, run, launcher) == 0))
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

void pysh_cuda_launcher_stop(pysh_cuda_launcher_t *launcher) {
    bool runs;

    pthread_mutex_lock(&launcher->mutex);
    launcher->ends = true;
    runs = launcher->runs;
    pthread_cond_signal(&launcher->changed);
    pthread_mutex_unlock(&launcher->mutex);
    if (runs)
        pthread_join(launcher->thread, NULL);
    launcher->runs = launcher->ends = launcher->asked = false;
    launcher->failed = 0;
}
