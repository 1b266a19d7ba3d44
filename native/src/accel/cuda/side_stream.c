/* SPDX-License-Identifier: BSD-3-Clause
 * A stream of ours beside each stream that asks for one: work that goes at the same time as what comes next there. Each
 * has one of its own, since two that shared one would wait for each other, on several PEs in a circle, and a capture of
 * one would take in the work of the other. */
#include "accel/cuda/side_stream.h"

#include <pthread.h>
#include <stdint.h>

#include "accel/cuda/driver.h"
#include "accel/cuda/gpu.h"
#include "ishmemx.h"

enum { MOST = 64, FIRST_REAL_STREAM = 3 };

typedef struct pair {
    CUstream stream, side; /* a handle that the driver gives out again finds the one of before, which is idle */
    CUevent forked, joined;
} pair_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pair_t pairs[MOST];
static int n_pairs;

static CUresult make(pair_t *pair, CUstream stream) {
    CUresult result = pysh_cuda.StreamCreate(&pair->side, CU_STREAM_NON_BLOCKING);

    if (!result)
        result = pysh_cuda.EventCreate(&pair->forked, CU_EVENT_DISABLE_TIMING);
    if (!result)
        result = pysh_cuda.EventCreate(&pair->joined, CU_EVENT_DISABLE_TIMING);
    pair->stream = stream;
    return result;
}

static void unmake(pair_t *pair) {
    if (pair->forked)
        pysh_cuda.EventDestroy(pair->forked);
    if (pair->joined)
        pysh_cuda.EventDestroy(pair->joined);
    if (pair->side)
        pysh_cuda.StreamDestroy(pair->side);
    *pair = (pair_t){0};
}

/* With the mutex held; NULL: there are as many as there can be, or it cannot be made. */
static pair_t *pair_of(CUstream stream) {
    for (int i = 0; i < n_pairs; i++)
        if (pairs[i].stream == stream)
            return &pairs[i];
    if (n_pairs == MOST)
        return NULL;
    if (make(&pairs[n_pairs], stream)) {
        unmake(&pairs[n_pairs]);
        return NULL;
    }
    return &pairs[n_pairs++];
}

static CUresult behind(CUevent event, CUstream first, CUstream second) {
    CUresult result = pysh_cuda.EventRecord(event, first);

    return result ? result : pysh_cuda.StreamWaitEvent(second, event, 0);
}

int pysh_cuda_fork(void *stream, void **side_p) {
    pysh_cuda_visit_t visit;
    CUresult result = 0;
    pair_t *pair;

    *side_p = stream;
    if ((uintptr_t)stream < FIRST_REAL_STREAM) /* one handle stands for a stream of each thread */
        return ISHMEMX_OK;
    visit = pysh_cuda_enter();
    pthread_mutex_lock(&mutex);
    if ((pair = pair_of(stream)) && !(result = behind(pair->forked, stream, pair->side)))
        *side_p = pair->side;
    pthread_mutex_unlock(&mutex);
    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "a stream beside stream %p", stream) : ISHMEMX_OK;
}

int pysh_cuda_rejoin(void *stream, void *side) {
    pysh_cuda_visit_t visit;
    CUresult result;

    if (side == stream)
        return ISHMEMX_OK;
    visit = pysh_cuda_enter();
    pthread_mutex_lock(&mutex);
    result = behind(pair_of(stream)->joined, side, stream);
    pthread_mutex_unlock(&mutex);
    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "joining a stream beside stream %p", stream) : ISHMEMX_OK;
}

void pysh_cuda_side_forget(void *stream) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < n_pairs; i++)
        if (pairs[i].stream == stream) {
            unmake(&pairs[i]);
            pairs[i] = pairs[--n_pairs];
            pairs[n_pairs] = (pair_t){0};
        }
    pthread_mutex_unlock(&mutex);
}

void pysh_cuda_side_close(void) {
    while (n_pairs)
        unmake(&pairs[--n_pairs]);
}
