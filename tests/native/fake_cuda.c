/* SPDX-License-Identifier: BSD-3-Clause
 * A libcuda.so.1 for tests without a GPU: its device memory is memory of the host, its streams are lists that one
 * thread works off. It knows the rules that the library has to live with: stream captures in global mode forbid other
 * threads' calls, a free that waits for a kernel stops other threads' copies and launches, a GPU full of kernels runs
 * no other. A test turns these on by the fake_cuda_ functions; each process has its own.
 * Here are the switches, the devices and the contexts; beside it its streams, kernels and memory. */
#include "fake_cuda_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_t fake = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
__thread int fake_mode = MODE_GLOBAL;
__thread void *fake_context;
static size_t stack_limit = 1024;

/* ---- what tests turn on and ask ---- */

static void turn(bool *what, int on) {
    pthread_mutex_lock(&fake.mutex);
    *what = on;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.mutex);
}

void fake_cuda_capture(int on) { /* a capture in global mode, on a thread that does nothing else */
    turn(&fake.capturing, on);
}
void fake_cuda_free(int on) { /* a free that waits for a kernel */
    turn(&fake.freeing, on);
}
void fake_cuda_fill(int on) { /* a kernel that leaves no room for another */
    turn(&fake.full, on);
}
void fake_cuda_lose(int result) { /* the GPU, with that error */
    fake.lost = result;
}
void fake_cuda_slow(int us) { /* how long a copy takes */
    fake.slow_us = us;
}
int fake_cuda_refused(void) { /* calls that a capture has forbidden */
    return __atomic_load_n(&fake.refused, __ATOMIC_SEQ_CST);
}
int fake_cuda_mode(void) {
    return fake_mode;
}
int fake_cuda_has_job(void) { /* the state block of the library loaded last */
    return fake.last_library->state[STATE_ABI] != 0;
}
int fake_cuda_launched(void) { /* kernels of libraries that have run */
    return __atomic_load_n(&fake.launched, __ATOMIC_SEQ_CST);
}
int fake_cuda_atomics(void) { /* kernels for atomic operations that have run */
    return __atomic_load_n(&fake.atomics, __ATOMIC_SEQ_CST);
}
int fake_cuda_word_kernels(void) { /* kernels that store a word or wait for one, launched */
    return __atomic_load_n(&fake.word_kernels, __ATOMIC_SEQ_CST);
}
int fake_cuda_graphs(int more) { /* that have been launched */
    return __atomic_add_fetch(&fake.graphs, more, __ATOMIC_SEQ_CST);
}
int fake_cuda_word(int at) { /* of the last one */
    return (int)fake.launched_words[at];
}
int fake_cuda_shape(int cooperative) {
    return cooperative ? fake.launched_cooperative : fake.launched_blocks;
}
int fake_cuda_stack(void) {
    return (int)stack_limit;
}

bool fake_forbidden(void) {
    bool yes;

    pthread_mutex_lock(&fake.mutex);
    yes = fake.capturing && fake_mode == MODE_GLOBAL;
    if (yes)
        __atomic_add_fetch(&fake.refused, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&fake.mutex);
    return yes;
}

/* ---- the rest: one GPU a PE, and nothing to load ---- */

CUresult cuInit(unsigned flags) {
    (void)flags;
    return SUCCESS;
}
CUresult cuGetErrorName(CUresult result, const char **name) {
    *name = result == CAPTURE_UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
            : result == ECC_UNCORRECTABLE ? "CUDA_ERROR_ECC_UNCORRECTABLE"
                                          : "an error";
    return SUCCESS;
}
CUresult cuGetErrorString(CUresult result, const char **text) {
    (void)result;
    *text = "of the fake driver";
    return SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
    *count = 4;
    return SUCCESS;
}
CUresult cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return SUCCESS;
}
CUresult cuDeviceGetName(char *name, int capacity, int device) {
    snprintf(name, (size_t)capacity, "fake %d", device);
    return SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *nbytes, int device) {
    (void)device;
    *nbytes = (size_t)1 << 30;
    return SUCCESS;
}
CUresult cuDeviceGetUuid_v2(char *uuid, int device) {
    memset(uuid, 0, 16);
    uuid[0] = (char)device;
    return SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char *text, int capacity, int device) {
    snprintf(text, (size_t)capacity, "0000:0%d:00.0", device);
    return SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int *can, int device, int peer) {
    (void)device, (void)peer;
    *can = 1;
    return SUCCESS;
}
/* 1: access, 3: native atomic operations, which no link of the GPU in the variable has. */
CUresult cuDeviceGetP2PAttribute(int *value, int attribute, int device, int peer) {
    const char *apart = getenv("FAKE_CUDA_WITHOUT_ATOMICS");

    *value = attribute != 3 || !apart || (device != atoi(apart) && peer != atoi(apart));
    return SUCCESS;
}
static char contexts[8];

int fake_device(void) {
    return (int)((char *)fake_context - contexts);
}
CUresult cuDevicePrimaryCtxRetain(void **context, int device) {
    UNSAFE();
    *context = &contexts[device];
    return SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(int device) {
    UNSAFE();
    (void)device;
    return SUCCESS;
}
CUresult cuCtxGetCurrent(void **context) {
    *context = fake_context;
    return SUCCESS;
}
CUresult cuCtxSetCurrent(void *context) {
    fake_context = context;
    return SUCCESS;
}
CUresult cuCtxPushCurrent_v2(void *context) { /* one deep: enough for visits */
    fake_context = context;
    return SUCCESS;
}
CUresult cuCtxPopCurrent_v2(void **context) {
    *context = fake_context;
    fake_context = NULL;
    return SUCCESS;
}
CUresult cuModuleLoadData(void **module, const void *image) {
    UNSAFE();
    (void)image;
    *module = &fake.mutex;
    return SUCCESS;
}
CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
    UNSAFE();
    (void)module;
    *function = !strncmp(name, "pysh_set", 8)      ? FAKE_SET
                : !strncmp(name, "pysh_wait", 9)   ? FAKE_WAIT
                : !strcmp(name, "pysh_amo_server") ? FAKE_SERVER
                                                   : (void *)&fake.mutex;
    return SUCCESS;
}
CUresult cuModuleUnload(void *module) {
    UNSAFE();
    (void)module;
    return SUCCESS;
}
CUresult cuCtxGetLimit(size_t *value, int limit) {
    *value = stack_limit;
    return limit ? INVALID_VALUE : SUCCESS;
}
CUresult cuCtxSetLimit(int limit, size_t value) {
    stack_limit = value;
    return limit ? INVALID_VALUE : SUCCESS;
}
/* With FAKE_CUDA_WITHOUT_DESCRIPTORS=1 GPU 1 shares no memory by them. */
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    const char *without = getenv("FAKE_CUDA_WITHOUT_DESCRIPTORS");

    *value = attribute == 75 ? 9 : attribute == 16 ? 132 : attribute == 103 && !(without && atoi(without) == device);
    return SUCCESS;
}
