/* SPDX-License-Identifier: BSD-3-Clause */
#include "accel/cuda/word_kernels.h"

#include <stdbool.h>
#include <stdint.h>

#include "accel/cuda/driver.h"
#include "accel/cuda/gpu.h"
#include "accel/cuda/streams.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/system_region.h"

/* The two kernels, their names with `_suffix`. `_begin`, of those that start early: until the kernels in front have
 * ended; then the next one may be launched. The fence makes what was before on the stream visible ahead of the word:
 * with the store it is a release, which pairs with the acquire of a wait's loads, by which what the peer did ahead of
 * the word is visible behind the wait. A fence behind the loads would do the same and take 0.6 us more. A wait ends
 * too when the kernels' fault word says so; only every 256th poll looks. */
#define KERNELS(_suffix, _begin)                                                                 \
    ".visible .entry pysh_set" _suffix "(.param .u64 p_address, .param .u64 p_value)\n"          \
    "{\n"                                                                                        \
    "    .reg .b64 %a, %v;\n"                                                                    \
    "    ld.param.u64 %a, [p_address];\n"                                                        \
    "    ld.param.u64 %v, [p_value];\n" _begin "    fence.acq_rel.sys;\n"                        \
    "    st.relaxed.sys.u64 [%a], %v;\n"                                                         \
    "    ret;\n"                                                                                 \
    "}\n"                                                                                        \
    ".visible .entry pysh_wait" _suffix "(.param .u64 p_address, .param .u64 p_value,\n"         \
    "                          .param .u64 p_ends, .param .u32 p_equal, .param .u32 p_narrow)\n" \
    "{\n"                                                                                        \
    "    .reg .b64 %a, %v, %e, %s, %d;\n"                                                        \
    "    .reg .b32 %equal, %narrow, %polls, %low, %value;\n"                                     \
    "    .reg .pred %q, %n, %h, %p;\n"                                                           \
    "    ld.param.u64 %a, [p_address];\n"                                                        \
    "    ld.param.u64 %v, [p_value];\n"                                                          \
    "    ld.param.u64 %e, [p_ends];\n"                                                           \
    "    ld.param.u32 %equal, [p_equal];\n"                                                      \
    "    ld.param.u32 %narrow, [p_narrow];\n"                                                    \
    "    setp.ne.u32 %q, %equal, 0;\n"                                                           \
    "    setp.ne.u32 %n, %narrow, 0;\n"                                                          \
    "    cvt.u32.u64 %value, %v;\n"                                                              \
    "    mov.u32 %polls, 0;\n" _begin "poll:\n"                                                  \
    "    @%n ld.acquire.sys.u32 %low, [%a];\n"                                                   \
    "    @!%n ld.acquire.sys.u64 %s, [%a];\n"                                                    \
    "    @%n sub.s32 %low, %low, %value;\n"                                                      \
    "    @%n cvt.s64.s32 %d, %low;\n"                                                            \
    "    @!%n sub.s64 %d, %s, %v;\n"                                                             \
    "    setp.eq.s64 %h, %d, 0;\n"                                                               \
    "    @!%q setp.ge.s64 %h, %d, 0;\n"                                                          \
    "    @%h bra done;\n"                                                                        \
    "    add.u32 %polls, %polls, 1;\n"                                                           \
    "    and.b32 %low, %polls, 255;\n"                                                           \
    "    setp.ne.u32 %p, %low, 0;\n"                                                             \
    "    @%p bra poll;\n"                                                                        \
    "    ld.relaxed.sys.u64 %s, [%e];\n"                                                         \
    "    setp.eq.u64 %p, %s, 0;\n"                                                               \
    "    @%p bra poll;\n"                                                                        \
    "done:\n"                                                                                    \
    "    ret;\n"                                                                                 \
    "}\n"

static const char plain_text[] = ".version 7.0\n.target sm_70\n.address_size 64\n" KERNELS("", "");
static const char early_text[] = ".version 7.8\n.target sm_90\n.address_size 64\n" KERNELS(
    "_early", "    griddepcontrol.wait;\n    griddepcontrol.launch_dependents;\n");

typedef struct kernels {
    CUmodule module;
    CUfunction set, wait;
} kernels_t;

static kernels_t plain, early; /* the second has none where no kernel can start early */
static CUdeviceptr spare;      /* a word that is 0 */

static CUresult launch(const kernels_t *of, CUfunction function, void **arguments, void *stream) {
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value = {1}};
    CUlaunchConfig shape = {.gridDimX = 1,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = 1,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .hStream = stream,
                            .attrs = &attribute,
                            .numAttrs = 1};

    return of == &early ? pysh_cuda.LaunchKernelEx(&shape, function, arguments, NULL)
                        : pysh_cuda.LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

static CUresult set(const kernels_t *of, CUdeviceptr address, uint64_t value, void *stream) {
    void *arguments[] = {&address, &value};

    return launch(of, of->set, arguments, stream);
}

static CUresult wait(const kernels_t *of, CUdeviceptr address, int equal, uint64_t value, int narrow, CUdeviceptr ends,
                     void *stream) {
    void *arguments[] = {&address, &value, &ends, &equal, &narrow};

    return launch(of, of->wait, arguments, stream);
}

/* Runs them once too. */
static CUresult open_kernels(kernels_t *of, const char *text, const char *set_name, const char *wait_name,
                             CUdeviceptr zero, void *stream) {
    CUresult result = pysh_cuda.ModuleLoadData(&of->module, text);

    if (!result)
        result = pysh_cuda.ModuleGetFunction(&of->set, of->module, set_name);
    if (!result)
        result = pysh_cuda.ModuleGetFunction(&of->wait, of->module, wait_name);
    if (!result)
        result = set(of, zero, 0, stream);
    return result ? result : wait(of, zero, 1, 0, 0, zero, stream);
}

int pysh_cuda_words_open(int major, bool starts_early, void *stream, CUdeviceptr zero) {
    CUresult result;

    if (major < 7)
        return ISHMEMX_OK;
    spare = zero;
    result = open_kernels(&plain, plain_text, "pysh_set", "pysh_wait", zero, stream);
    if (!result && starts_early)
        result = open_kernels(&early, early_text, "pysh_set_early", "pysh_wait_early", zero, stream);
    if (!result)
        result = pysh_cuda.StreamSynchronize(stream);
    return result ? pysh_cuda_fail(result, "loading the kernels for words") : ISHMEMX_OK;
}

static void close_kernels(kernels_t *of) {
    if (of->module)
        pysh_cuda.ModuleUnload(of->module);
    *of = (kernels_t){0};
}

int pysh_cuda_words_start(const void *unused, CUstream stream) {
    (void)unused;
    return plain.set ? set(&plain, spare, 0, stream) : CUDA_ERROR_INVALID_VALUE;
}

void pysh_cuda_words_close(void) {
    close_kernels(&plain);
    close_kernels(&early);
}

static const kernels_t *kernels(bool early_start) {
    return early_start && early.set ? &early : &plain;
}

static int finish(CUresult result, pysh_cuda_visit_t visit, void *stream) {
    pysh_cuda_leave(visit);
    if ((uintptr_t)stream > 1)
        ishmemx_other_streams();
    return result ? pysh_cuda_fail(result, "launching a kernel for a word on stream %p", stream) : ISHMEMX_OK;
}

int pysh_cuda_store_by_kernel(void *address, uint64_t value, bool early_start, void *stream) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    pysh_cuda_visit_t visit;

    if (!plain.set)
        return pysh_cuda_streams.store(address, value, sizeof value, stream);
    visit = pysh_cuda_enter();
    return finish(set(kernels(early_start), at, value, stream), visit, stream);
}

int pysh_cuda_wait_by_kernel(const void *address, int cmp, uint64_t value, size_t nbytes, bool early_start,
                             void *stream) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
    CUdeviceptr ends = (CUdeviceptr)(uintptr_t)(pysh.arena[ISHMEMX_HEAP_DEVICE].base + PYSH_FAULT_CLAIM);
    pysh_cuda_visit_t visit;
    CUresult result;

    if (!plain.wait)
        return pysh_cuda_streams.wait(address, cmp, value, nbytes, stream);
    visit = pysh_cuda_enter();
    result = wait(kernels(early_start), at, cmp == ISHMEMX_CMP_EQ, value, nbytes == 4, ends, stream);
    return finish(result, visit, stream);
}
