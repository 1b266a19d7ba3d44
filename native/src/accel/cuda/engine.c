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

typedef struct lane {
    CUstream stream;
    CUevent event;
    uint64_t started, finished, mark;
    uint64_t recorded; /* copies before the event; 0: it is not under way */
} lane_t;

static struct {
    pthread_mutex_t mutex; /* for the counts and events */
    lane_t *lane;          /* [lanes() + 1], by pysh_near_place(): the last is for stamps alone */
} engine = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int lanes(void) {
    return pysh.n_pes < ISHMEMX_MAX_NEAR_PES ? pysh.n_pes : ISHMEMX_MAX_NEAR_PES;
}

int pysh_cuda_engine_open(void) {
    engine.lane = calloc((size_t)lanes() + 1, sizeof *engine.lane);
    if (!engine.lane)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for streams to %d PEs", lanes());
    for (int i = 0; i <= lanes(); i++) {
        CUresult result = pysh_cuda.StreamCreate(&engine.lane[i].stream, CU_STREAM_NON_BLOCKING);
        if (!result)
            result = pysh_cuda.EventCreate(&engine.lane[i].event, CU_EVENT_DISABLE_TIMING);
        if (result)
            return pysh_cuda_fail(result, "making the streams of the copy engine");
    }
    return ISHMEMX_OK;
}

void pysh_cuda_engine_close(void) {
    for (int i = 0; engine.lane && i <= lanes(); i++) {
        if (engine.lane[i].stream)
            pysh_cuda.StreamDestroy(engine.lane[i].stream);
        if (engine.lane[i].event)
            pysh_cuda.EventDestroy(engine.lane[i].event);
    }
    free(engine.lane);
    engine.lane = NULL;
}

int pysh_cuda_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const pysh_stamp_t *stamps,
                          int n_stamps, uint64_t *token_p) {
    lane_t *lane = &engine.lane[pysh_near_place(pe)];
    CUresult result =
        pysh_cuda.MemcpyAsync((CUdeviceptr)(uintptr_t)dest, (CUdeviceptr)(uintptr_t)source, nbytes, lane->stream);

    if (result)
        return pysh_cuda_fail(result, "starting a copy of %zu bytes to or from PE %d for a kernel", nbytes, pe);
    /* A write of the stream comes after its copies, with a barrier between them. */
    for (int i = 0; !result && i < n_stamps; i++)
        result =
            pysh_cuda.StreamWriteValue64(lane->stream, (CUdeviceptr)(uintptr_t)stamps[i].address, stamps[i].value, 0);
    if (result)
        return pysh_cuda_fail(result, "telling a kernel of a copy of %zu bytes", nbytes);
    pthread_mutex_lock(&engine.mutex);
    *token_p = (uint64_t)pysh_near_place(pe) << TOKEN_PE_SHIFT | ++lane->started;
    pthread_mutex_unlock(&engine.mutex);
    return ISHMEMX_OK;
}

/* With the mutex held: how far the stream has come. */
static int look(lane_t *lane) {
    CUresult result = 0;

    if (lane->finished == lane->started)
        return ISHMEMX_OK;
    if (!lane->recorded) {
        result = pysh_cuda.EventRecord(lane->event, lane->stream);
        lane->recorded = lane->started;
    }
    if (!result)
        result = pysh_cuda.EventQuery(lane->event);
    if (result == CUDA_ERROR_NOT_READY)
        return ISHMEMX_OK;
    if (result)
        return pysh_cuda_fail(result, "a copy for a kernel failed");
    lane->finished = lane->recorded;
    lane->recorded = 0;
    return ISHMEMX_OK;
}

int pysh_cuda_engine_done(uint64_t token, bool *done_p) {
    lane_t *lane = &engine.lane[token >> TOKEN_PE_SHIFT];
    int status;

    pthread_mutex_lock(&engine.mutex);
    status = look(lane);
    *done_p = lane->finished >= (token & ((1ULL << TOKEN_PE_SHIFT) - 1));
    pthread_mutex_unlock(&engine.mutex);
    return status;
}

void pysh_cuda_engine_mark(void) {
    pthread_mutex_lock(&engine.mutex);
    for (int i = 0; i < lanes(); i++)
        engine.lane[i].mark = engine.lane[i].started;
    pthread_mutex_unlock(&engine.mutex);
}

int pysh_cuda_engine_finished(bool *marked_p, bool *all_p) {
    int status = ISHMEMX_OK;

    *marked_p = *all_p = true;
    pthread_mutex_lock(&engine.mutex);
    for (int i = 0; i < lanes(); i++) {
        lane_t *lane = &engine.lane[i];
        int looked = look(lane);
        status = status ? status : looked;
        *marked_p = *marked_p && lane->finished >= lane->mark;
        *all_p = *all_p && lane->finished == lane->started;
    }
    pthread_mutex_unlock(&engine.mutex);
    return status;
}

void pysh_cuda_engine_stamp(void *address, uint64_t value) {
    pysh_cuda.StreamWriteValue64(engine.lane[lanes()].stream, (CUdeviceptr)(uintptr_t)address, value, 0);
}
