/* SPDX-License-Identifier: BSD-3-Clause */
#include "accel/cuda/words.h"

#include <stdbool.h>
#include <stdint.h>

#include "accel/cuda/driver.h"
#include "accel/cuda/gpu.h"
#include "accel/cuda/streams.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/system_region.h"

/* `_wait` and `_next`: until the kernels in front have ended, and that the next one may be launched; empty below
 * sm_90. The fence makes what was before on the stream visible ahead of the word, and what the peer did ahead of the
 * word visible behind the wait. A wait ends too when the kernels' fault word says so; only every 256th poll looks. */
#define KERNELS(_target, _wait, _next)                                                                    \
    _target "\n.address_size 64\n"                                                                        \
            ".visible .entry pysh_set(.param .u64 p_address, .param .u64 p_value)\n"                      \
            "{\n"                                                                                         \
            "    .reg .b64 %a, %v;\n"                                                                     \
            "    ld.param.u64 %a, [p_address];\n"                                                         \
            "    ld.param.u64 %v, [p_value];\n" _wait _next "    fence.acq_rel.sys;\n"                    \
            "    st.relaxed.sys.u64 [%a], %v;\n"                                                          \
            "    ret;\n"                                                                                  \
            "}\n"                                                                                         \
            ".visible .entry pysh_wait(.param .u64 p_address, .param .u64 p_value, .param .u64 p_ends,\n" \
            "                          .param .u32 p_equal, .param .u32 p_narrow)\n"                      \
            "{\n"                                                                                         \
            "    .reg .b64 %a, %v, %e, %s, %d;\n"                                                         \
            "    .reg .b32 %equal, %narrow, %polls, %low, %value;\n"                                      \
            "    .reg .pred %q, %n, %h, %p;\n"                                                            \
            "    ld.param.u64 %a, [p_address];\n"                                                         \
            "    ld.param.u64 %v, [p_value];\n"                                                           \
            "    ld.param.u64 %e, [p_ends];\n"                                                            \
            "    ld.param.u32 %equal, [p_equal];\n"                                                       \
            "    ld.param.u32 %narrow, [p_narrow];\n"                                                     \
            "    setp.ne.u32 %q, %equal, 0;\n"                                                            \
            "    setp.ne.u32 %n, %narrow, 0;\n"                                                           \
            "    cvt.u32.u64 %value, %v;\n"                                                               \
            "    mov.u32 %polls, 0;\n" _wait "poll:\n"                                                    \
            "    @%n ld.relaxed.sys.u32 %low, [%a];\n"                                                    \
            "    @!%n ld.relaxed.sys.u64 %s, [%a];\n"                                                     \
            "    @%n sub.s32 %low, %low, %value;\n"                                                       \
            "    @%n cvt.s64.s32 %d, %low;\n"                                                             \
            "    @!%n sub.s64 %d, %s, %v;\n"                                                              \
            "    setp.eq.s64 %h, %d, 0;\n"                                                                \
            "    @!%q setp.ge.s64 %h, %d, 0;\n"                                                           \
            "    @%h bra done;\n"                                                                         \
            "    add.u32 %polls, %polls, 1;\n"                                                            \
            "    and.b32 %low, %polls, 255;\n"                                                            \
            "    setp.ne.u32 %p, %low, 0;\n"                                                              \
            "    @%p bra poll;\n"                                                                         \
            "    ld.relaxed.sys.u64 %s, [%e];\n"                                                          \
            "    setp.eq.u64 %p, %s, 0;\n"                                                                \
            "    @%p bra poll;\n"                                                                         \
            "done:\n" _next "    fence.acq_rel.sys;\n"                                                    \
            "    ret;\n"                                                                                  \
            "}\n"

static const char plain[] = KERNELS(".version 7.0\n.target sm_70", "", "");
static const char early[] =
    KERNELS(".version 7.8\n.target sm_90", "    griddepcontrol.wait;\n", "    griddepcontrol.launch_dependents;\n");

static struct {
    CUmodule module;
    CUfunction set, wait; /* NULL: there are none */
    bool starts_early;
} words;

static CUresult launch(CUfunction function, void **arguments, void *stream) {
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value = {1}};
    CUlaunchConfig shape = {.gridDimX = 1,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = 1,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .hStream = stream,
                            .attrs = &attribute,
                            .numAttrs = words.starts_early};

    return pysh_cuda.LaunchKernelEx(&shape, function, arguments, NULL);
}

static CUresult set(CUdeviceptr address, uint64_t value, void *stream) {
    void *arguments[] = {&address, &value};

    return launch(words.set, arguments, stream);
}

static CUresult wait(CUdeviceptr address, int equal, uint64_t value, int narrow, CUdeviceptr ends, void *stream) {
    void *arguments[] = {&address, &value, &ends, &equal, &narrow};

    return launch(words.wait, arguments, stream);
}

int pysh_cuda_words_open(int major, bool starts_early, void *stream, CUdeviceptr zero) {
    CUresult result;

    if (!pysh_cuda.LaunchKernelEx || major < 7)
        return ISHMEMX_OK;
    words.starts_early = starts_early;
    result = pysh_cuda.ModuleLoadData(&words.module, major < 9 ? plain : early);
    if (!result)
        result = pysh_cuda.ModuleGetFunction(&words.set, words.module, "pysh_set");
    if (!result)
        result = pysh_cuda.ModuleGetFunction(&words.wait, words.module, "pysh_wait");
    if (!result)
        result = set(zero, 0, stream);
    if (!result)
        result = wait(zero, 1, 0, 0, zero, stream);
    if (!result)
        result = pysh_cuda.StreamSynchronize(stream);
    return result ? pysh_cuda_fail(result, "loading the kernels for words") : ISHMEMX_OK;
}

void pysh_cuda_words_close(void) {
    if (words.module)
        pysh_cuda.ModuleUnload(words.module);
    words.module = NULL;
    words.set = words.wait = NULL;
}

static int finish(CUresult result, pysh_cuda_visit_t visit, void *stream) {
    pysh_cuda_leave(visit);
    if ((uintptr_t)stream > 1)
        ishmemx_other_streams();
    return result ? pysh_cuda_fail(result, "launching a kernel for a word on stream %p", stream) : ISHMEMX_OK;
}

int pysh_cuda_store_by_kernel(void *address, uint64_t value, void *stream) {
    pysh_cuda_visit_t visit;

    if (!words.set)
        return pysh_cuda_streams.store(address, value, sizeof value, stream);
    visit = pysh_cuda_enter();
    return finish(set((CUdeviceptr)(uintptr_t)address, value, stream), visit, stream);
}

int pysh_cuda_wait_by_kernel(const void *address, int cmp, uint64_t value, size_t nbytes, void *stream) {
    CUdeviceptr ends = (CUdeviceptr)(uintptr_t)(pysh.arena[ISHMEMX_HEAP_DEVICE].base + PYSH_FAULT_CLAIM);
    pysh_cuda_visit_t visit;

    if (!words.wait)
        return pysh_cuda_streams.wait(address, cmp, value, nbytes, stream);
    visit = pysh_cuda_enter();
    return finish(wait((CUdeviceptr)(uintptr_t)address, cmp == ISHMEMX_CMP_EQ, value, nbytes == 4, ends, stream), visit,
                  stream);
}
