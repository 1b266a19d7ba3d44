/* SPDX-License-Identifier: BSD-3-Clause */
#include "accel/cuda/engine.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "accel/accel.h"
#include "accel/cuda/driver.h"
#include "base/state.h"
#include "base/status.h"

#define TOKEN_PE_SHIFT 48 /* a token is the peer and the number of the copy on its stream */

typedef struct channel {
    CUstream stream;
    CUevent event;
    uint64_t started, finished, mark;
    uint64_t recorded; /* copies before the event; 0: it is not under way */
} channel_t;

static struct {
    pthread_mutex_t mutex; /* for the counts and events */
    channel_t *channel;    /* [channels() + 1], by pysh_near_place(): the last is for completions alone */
} engine = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int channels(void) {
    return pysh.n_pes < ISHMEMX_MAX_NEAR_PES ? pysh.n_pes : ISHMEMX_MAX_NEAR_PES;
}

int pysh_cuda_engine_open(void) {
    engine.channel = calloc((size_t)channels() + 1, sizeof *engine.channel);
    if (!engine.channel)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for streams to %d PEs", channels());
    for (int i = 0; i <= channels(); i++) {
        CUresult result = pysh_cuda.StreamCreate(&engine.channel[i].stream, CU_STREAM_NON_BLOCKING);
        if (!result)
            result = pysh_cuda.EventCreate(&engine.channel[i].event, CU_EVENT_DISABLE_TIMING);
        if (result)
            return pysh_cuda_fail(result, "making the streams of the copy engine");
    }
    return ISHMEMX_OK;
}

void pysh_cuda_engine_close(void) {
    for (int i = 0; engine.channel && i <= channels(); i++) {
        if (engine.channel[i].stream)
            pysh_cuda.StreamDestroy(engine.channel[i].stream);
        if (engine.channel[i].event)
            pysh_cuda.EventDestroy(engine.channel[i].event);
    }
    free(engine.channel);
    engine.channel = NULL;
}

int pysh_cuda_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const pysh_completion_t *completions,
                          int n_completions, uint64_t *token_p) {
    channel_t *channel = &engine.channel[pysh_near_place(pe)];
    CUresult result =
        pysh_cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)dest, (CUdeviceptr)(uintptr_t)source, nbytes, channel->stream);

    if (result)
        return pysh_cuda_fail(result, "starting a copy of %zu bytes to or from PE %d for a kernel", nbytes, pe);
    /* A write of the stream comes after its copies, with a barrier between them. */
    for (int i = 0; !result && i < n_completions; i++)
        result = pysh_cuda.StreamWriteValue64(channel->stream, (CUdeviceptr)(uintptr_t)completions[i].address,
                                              completions[i].value, 0);
    if (result)
        return pysh_cuda_fail(result, "telling a kernel of a copy of %zu bytes", nbytes);
    pthread_mutex_lock(&engine.mutex);
    *token_p = (uint64_t)pysh_near_place(pe) << TOKEN_PE_SHIFT | ++channel->started;
    pthread_mutex_unlock(&engine.mutex);
    return ISHMEMX_OK;
}

/* With the mutex held: how far the stream has come. */
static int look(channel_t *channel) {
    CUresult result = 0;

    if (channel->finished == channel->started)
        return ISHMEMX_OK;
    if (!channel->recorded) {
        result = pysh_cuda.EventRecord(channel->event, channel->stream);
        channel->recorded = channel->started;
    }
    if (!result)
        result = pysh_cuda.EventQuery(channel->event);
    if (result == CUDA_ERROR_NOT_READY)
        return ISHMEMX_OK;
    if (result)
        return pysh_cuda_fail(result, "a copy for a kernel failed");
    channel->finished = channel->recorded;
    channel->recorded = 0;
    return ISHMEMX_OK;
}

int pysh_cuda_engine_done(uint64_t token, bool *done_p) {
    channel_t *channel = &engine.channel[token >> TOKEN_PE_SHIFT];
    int status;

    pthread_mutex_lock(&engine.mutex);
    status = look(channel);
    *done_p = channel->finished >= (token & ((1ULL << TOKEN_PE_SHIFT) - 1));
    pthread_mutex_unlock(&engine.mutex);
    return status;
}

void pysh_cuda_engine_mark(void) {
    pthread_mutex_lock(&engine.mutex);
    for (int i = 0; i < channels(); i++)
        engine.channel[i].mark = engine.channel[i].started;
    pthread_mutex_unlock(&engine.mutex);
}

int pysh_cuda_engine_finished(bool *marked_p, bool *all_p) {
    int status = ISHMEMX_OK;

    *marked_p = *all_p = true;
    pthread_mutex_lock(&engine.mutex);
    for (int i = 0; i < channels(); i++) {
        channel_t *channel = &engine.channel[i];
        int looked = look(channel);
        status = status ? status : looked;
        *marked_p = *marked_p && channel->finished >= channel->mark;
        *all_p = *all_p && channel->finished == channel->started;
    }
    pthread_mutex_unlock(&engine.mutex);
    return status;
}

void pysh_cuda_engine_complete(void *address, uint64_t value) {
    pysh_cuda.StreamWriteValue64(engine.channel[channels()].stream, (CUdeviceptr)(uintptr_t)address, value, 0);
}
