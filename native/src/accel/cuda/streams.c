/* SPDX-License-Identifier: BSD-3-Clause
 * Calls come from any thread, with any context current, and beside captures: each visits our context, as those of
 * accel_cuda.c do. Where a stream is captured, what is started here becomes nodes of its graph. */
#include "accel/cuda/streams.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "accel/accel.h"
#include "accel/cuda/amo.h"
#include "accel/cuda/driver.h"
#include "accel/cuda/gpu.h"
#include "accel/cuda/kept_launches.h"
#include "accel/cuda/side_stream.h"
#include "accel/cuda/word_kernels.h"
#include "base/status.h"

#define FIRST_REAL_STREAM 3 /* below: NULL, the legacy and the per-thread default stream, which need no look */

static CUstream filling;    /* state blocks are filled on it: it waits for no other stream */
static int multiprocessors; /* a block on each is what a cooperative launch may always have */
static bool starts_early;   /* the GPU and the driver, in graphs too, can let a kernel start before others end */

typedef struct graph {
    CUgraphExec executable;
} graph_t;

static CUdeviceptr at(const void *address) {
    return (CUdeviceptr)(uintptr_t)address;
}

/* Kernels have the wait for that from sm_90 on (leaf/cuda/threads.py); FuncLoad came with the driver of 12.4. */
static CUresult find_early_starts(int *major_p) {
    int64_t wanted = 0;
    CUresult result =
        pysh_cuda.DeviceGetAttribute(major_p, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, pysh_gpu.device);

    starts_early = *major_p >= 9 && pysh_cuda.FuncLoad && !ishmemx_setting_number("STREAM_OVERLAP", &wanted) && wanted;
    return result;
}

int pysh_cuda_streams_open(void) {
    CUdeviceptr zero = pysh_cuda_amo_at(&pysh_gpu.amo, &pysh_gpu.amo.shared->spare);
    int major = 0, status;
    CUresult result = pysh_cuda.StreamCreate(&filling, CU_STREAM_NON_BLOCKING);

    if (!result)
        result =
            pysh_cuda.DeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, pysh_gpu.device);
    if (!result)
        result = find_early_starts(&major);
    if (result)
        return pysh_cuda_fail(result, "making a stream for state blocks");
    status = pysh_cuda_words_open(major, starts_early, filling, zero);
    if (!status)
        pysh_cuda_kept_open(pysh_cuda_words_start);
    return status;
}

void pysh_cuda_streams_close(void) {
    pysh_cuda_kept_close();
    pysh_cuda_side_close();
    pysh_cuda_words_close();
    if (filling)
        pysh_cuda.StreamDestroy(filling);
    filling = NULL;
}

int ishmemx_cuda_capability(int *capability) {
    int major = 0, minor = 0;
    CUresult result;

    if (!pysh_gpu.context)
        return pysh_fail(ISHMEMX_ERR_STATE, "this PE has no GPU: initialise with device cuda");
    result = pysh_cuda.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, pysh_gpu.device);
    if (!result)
        result = pysh_cuda.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, pysh_gpu.device);
    if (result)
        return pysh_cuda_fail(result, "the compute capability of GPU %d", pysh_gpu.ordinal);
    *capability = 10 * major + minor;
    return ISHMEMX_OK;
}

/* ---- streams ---- */

static int create(void **stream_p) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = pysh_cuda.StreamCreate((CUstream *)stream_p, CU_STREAM_NON_BLOCKING);

    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "making a stream") : ISHMEMX_OK;
}

static int destroy(void *stream) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result;

    pysh_cuda_side_forget(stream);
    result = pysh_cuda.StreamDestroy(stream);
    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "destroying stream %p", stream) : ISHMEMX_OK;
}

static int check(void *stream) {
    CUcontext context = NULL;
    CUresult result;

    if ((uintptr_t)stream < FIRST_REAL_STREAM)
        return ISHMEMX_OK;
    result = pysh_cuda.StreamGetCtx(stream, &context);
    if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        return pysh_cuda_fail(result, "stream %p, whose capture failed and has not been ended", stream);
    if (result)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "stream %p is no stream of CUDA, or has been destroyed (CUDA error %d)",
                         stream, result);
    if (context != pysh_gpu.context)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "stream %p belongs to another GPU, or another context, than this PE's device heap; make it "
                         "with this PE's GPU current",
                         stream);
    return ISHMEMX_OK;
}

static int finished(void *stream, bool *finished_p) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = pysh_cuda.StreamQuery(stream);

    pysh_cuda_leave(visit);
    *finished_p = result != CUDA_ERROR_NOT_READY;
    return result && *finished_p ? pysh_cuda_fail(result, "the work on stream %p", stream) : ISHMEMX_OK;
}

static int drain(void) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = pysh_cuda.CtxSynchronize();

    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "the work of this process on the GPU") : ISHMEMX_OK;
}

static int capturing(void *stream, bool *capturing_p) {
    int status = 0;
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = pysh_cuda.StreamIsCapturing(stream, &status);

    pysh_cuda_leave(visit);
    *capturing_p = status != 0;
    return result ? pysh_cuda_fail(result, "asking whether stream %p is captured", stream) : ISHMEMX_OK;
}

/* ---- work ---- */

static int copy(void *dest, const void *source, size_t nbytes, void *stream) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = pysh_cuda.MemcpyAsync(at(dest), at(source), nbytes, stream);

    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "copying %zu bytes on stream %p", nbytes, stream) : ISHMEMX_OK;
}

static int copy_blocks(const pysh_blocks_t *blocks, void *stream) {
    CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = at(blocks->source),
                           .srcPitch = blocks->source_stride,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = at(blocks->dest),
                           .dstPitch = blocks->dest_stride,
                           .WidthInBytes = blocks->nbytes,
                           .Height = blocks->n_blocks};
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = pysh_cuda.Memcpy2DAsync(&plane, stream);

    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "copying %zu blocks of %zu bytes on stream %p", blocks->n_blocks,
                                   blocks->nbytes, stream)
                  : ISHMEMX_OK;
}

static int store(void *address, uint64_t value, size_t nbytes, void *stream) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result;

    if (nbytes == 8)
        result = pysh_cuda.StreamWriteValue64(stream, at(address), value, 0);
    else if (nbytes == 4)
        result = pysh_cuda.StreamWriteValue32(stream, at(address), (uint32_t)value, 0);
    else if (nbytes == 2)
        result = pysh_cuda.MemsetD16Async(at(address), (unsigned short)value, 1, stream);
    else
        result = pysh_cuda.MemsetD8Async(at(address), (unsigned char)value, 1, stream);
    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "storing %zu bytes on stream %p", nbytes, stream) : ISHMEMX_OK;
}

static int wait(const void *address, int cmp, uint64_t value, size_t nbytes, void *stream) {
    unsigned flags = cmp == ISHMEMX_CMP_EQ ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ;
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = nbytes == 8 ? pysh_cuda.StreamWaitValue64(stream, at(address), value, flags)
                                  : pysh_cuda.StreamWaitValue32(stream, at(address), (uint32_t)value, flags);

    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "waiting on stream %p", stream) : ISHMEMX_OK;
}

static int amo(int op, int type, void *address, uint64_t value, uint64_t cond, void *fetched, void *stream) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    int status = pysh_cuda_amo_on_stream(&pysh_gpu.amo, stream, op, type, at(address), value, cond, at(fetched));

    pysh_cuda_leave(visit);
    return status;
}

/* ---- kernels ---- */

static int count_multiprocessors(void) {
    return multiprocessors;
}

static int blocks_of(const pysh_launch_t *launch) {
    return launch->kernel->cooperative && launch->blocks > multiprocessors ? multiprocessors : launch->blocks;
}

/* `early_start`: the kernel waits by itself for what is in front of it. */
static CUresult start_kernel(const pysh_launch_t *launch, bool early_start, CUstream stream) {
    CUlaunchAttribute attribute = {.id = early_start ? CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
                                                     : CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                   .value = {1}};
    CUlaunchConfig shape = {.gridDimX = (unsigned)blocks_of(launch),
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = (unsigned)launch->threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .hStream = stream,
                            .attrs = &attribute,
                            .numAttrs = early_start || launch->kernel->cooperative};
    void *arguments[PYSH_STREAM_WORDS];

    for (int i = 0; i < launch->n_words; i++)
        arguments[i] = (void *)(uintptr_t)&launch->words[i]; /* the driver copies what they point to */
    return pysh_cuda.LaunchKernelEx(&shape, launch->kernel->function, arguments, NULL);
}

/* In a graph of its own nothing is in front of it. */
static CUresult start_alone(const void *work, CUstream stream) {
    return start_kernel(work, false, stream);
}

static int launch(const pysh_launch_t *launch, void *stream) {
    pysh_cuda_same_t same = {.function = launch->kernel->function,
                             .stream = stream,
                             .shape = (int64_t)blocks_of(launch) << 32 | launch->threads,
                             .words = launch->words,
                             .n_words = launch->n_words};
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result;

    /* A graph of a cooperative kernel cannot be made of another one's. */
    if (launch->kernel->cooperative || !pysh_cuda_launched_again(&same, start_alone, launch, &result))
        result = start_kernel(launch, launch->early && starts_early, stream);
    pysh_cuda_leave(visit);
    if ((uintptr_t)stream > 1)
        ishmemx_other_streams();
    return result ? pysh_cuda_fail(result, "launching a kernel on stream %p", stream) : ISHMEMX_OK;
}

static CUresult fill(CUlibrary library, const int64_t *state) {
    CUdeviceptr symbol = 0;
    size_t nbytes = 0;
    CUresult result = pysh_cuda.LibraryGetGlobal(&symbol, &nbytes, library, "pyshmem_state_" ISHMEMX_CONTRACT_TEXT);

    if (!result && nbytes != ISHMEMX_STATE_WORDS * sizeof *state)
        return CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = pysh_cuda.MemcpyAsync(symbol, at(state), nbytes, filling);
    return result ? result : pysh_cuda.StreamSynchronize(filling);
}

/* Never lowered: what runs may need more. */
static CUresult reserve_stack(size_t stack) {
    size_t limit = 0;
    CUresult result = pysh_cuda.CtxGetLimit(&limit, CU_LIMIT_STACK_SIZE);

    return result || limit >= stack ? result : pysh_cuda.CtxSetLimit(CU_LIMIT_STACK_SIZE, (stack + 15) / 16 * 16);
}

static int load(const void *image, const char *name, const int64_t *state, size_t stack, pysh_kernel_t *kernel) {
    CUlibrary library = NULL;
    CUkernel found = NULL;
    pysh_cuda_visit_t visit;
    CUresult result;

    if (!pysh_cuda.LaunchKernelEx || !pysh_cuda.LibraryLoadData)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "kernels on streams need an NVIDIA driver of CUDA 12.0 or later");
    visit = pysh_cuda_enter();
    result = pysh_cuda.LibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0);

    if (!result)
        result = reserve_stack(stack);
    if (!result)
        result = pysh_cuda.LibraryGetKernel(&found, library, name);
    if (!result)
        result = pysh_cuda.KernelGetFunction((CUfunction *)&kernel->function, found);
    if (!result && pysh_cuda.FuncLoad) /* else the first launch loads it, which waits for the running kernels */
        result = pysh_cuda.FuncLoad(kernel->function);
    if (!result)
        result = fill(library, state);
    kernel->library = library;
    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "loading kernel %s", name) : ISHMEMX_OK;
}

static int refill(const pysh_kernel_t *kernel, const int64_t *state) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = fill(kernel->library, state);

    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "filling the state block of a kernel") : ISHMEMX_OK;
}

/* ---- graphs ---- */

static int capture_begin(void *stream) {
    CUresult result = pysh_cuda.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);

    return result ? pysh_cuda_fail(result, "capturing stream %p", stream) : ISHMEMX_OK;
}

static int capture_end(void *stream, void **graph_p) {
    graph_t *graph = calloc(1, sizeof *graph);
    CUgraph captured = NULL;
    pysh_cuda_visit_t visit;
    CUresult result;

    if (!graph)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a graph");
    visit = pysh_cuda_enter();
    result = pysh_cuda.StreamEndCapture(stream, &captured);
    if (!result && captured)
        result = pysh_cuda.GraphInstantiate(&graph->executable, captured, 0);
    if (captured)
        pysh_cuda.GraphDestroy(captured);
    pysh_cuda_leave(visit);
    if (!result && graph->executable) {
        *graph_p = graph;
        return ISHMEMX_OK;
    }
    free(graph);
    return pysh_cuda_fail(result, "the graph of what was captured on stream %p", stream);
}

static int replay(void *graph, void *stream) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUresult result = pysh_cuda.GraphLaunch(((graph_t *)graph)->executable, stream);

    pysh_cuda_leave(visit);
    if ((uintptr_t)stream > 1)
        ishmemx_other_streams();
    return result ? pysh_cuda_fail(result, "launching a graph on stream %p", stream) : ISHMEMX_OK;
}

static void drop(void *graph) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();

    pysh_cuda.GraphExecDestroy(((graph_t *)graph)->executable);
    pysh_cuda_leave(visit);
    free(graph);
}

static void close_streams(void) {}

/* Kernels that other libraries have loaded on this PE's GPU: do they take `count` arguments of these bytes, one behind
 * the other, and no more? False where the driver, before that of CUDA 12.4, cannot say. */
static bool takes_arguments(void *function, int count, const size_t *nbytes) {
    size_t end = 0, offset, size;
    bool same = pysh_cuda.FuncGetParamInfo != NULL && pysh_cuda.LaunchKernelEx != NULL;
    pysh_cuda_visit_t visit = pysh_cuda_enter();

    for (int i = 0; same && i < count; i++) {
        size_t place = (end + nbytes[i] - 1) / nbytes[i] * nbytes[i]; /* each at a multiple of its size */
        same = !pysh_cuda.FuncGetParamInfo(function, (size_t)i, &offset, &size) && offset == place && size == nbytes[i];
        end = place + nbytes[i];
    }
    same = same && pysh_cuda.FuncGetParamInfo(function, (size_t)count, &offset, &size);
    pysh_cuda_leave(visit);
    return same;
}

static int launch_loaded(const ishmemx_loaded_t *kernel, void **arguments, void *stream) {
    CUlaunchAttribute attributes[2];
    CUlaunchConfig shape = {.gridDimX = kernel->grid[0],
                            .gridDimY = kernel->grid[1],
                            .gridDimZ = kernel->grid[2],
                            .blockDimX = kernel->threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .sharedMemBytes = kernel->shared,
                            .hStream = stream,
                            .attrs = attributes};
    pysh_cuda_visit_t visit;
    CUresult result;

    if (kernel->early)
        attributes[shape.numAttrs++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value = {1}};
    if (kernel->cooperative)
        attributes[shape.numAttrs++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {1}};
    visit = pysh_cuda_enter();
    result = pysh_cuda.LaunchKernelEx(&shape, (CUfunction)kernel->function, arguments, NULL);
    pysh_cuda_leave(visit);
    return result ? pysh_cuda_fail(result, "launching a kernel on stream %p", stream) : ISHMEMX_OK;
}

const pysh_streams_t pysh_cuda_streams = {
    .create = create,
    .destroy = destroy,
    .check = check,
    .finished = finished,
    .drain = drain,
    .capturing = capturing,
    .copy = copy,
    .fork = pysh_cuda_fork,
    .join = pysh_cuda_rejoin,
    .copy_blocks = copy_blocks,
    .store = store,
    .wait = wait,
    .store_by_kernel = pysh_cuda_store_by_kernel,
    .wait_by_kernel = pysh_cuda_wait_by_kernel,
    .amo = amo,
    .launch = launch,
    .takes = takes_arguments,
    .launch_loaded = launch_loaded,
    .multiprocessors = count_multiprocessors,
    .load = load,
    .refill = refill,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .replay = replay,
    .drop = drop,
    .close = close_streams,
};
