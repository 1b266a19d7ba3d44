/* SPDX-License-Identifier: BSD-3-Clause
 * How far the GPU's clock, %globaltimer, is from the host's: a kernel of one thread stores it in pinned memory, between
 * two looks at the host's clock. Of several tries the one that took least says most. */
#include <stdint.h>

#include "accel/cuda/gpu.h"
#include "base/clock.h"
#include "base/status.h"

#define TRIES       32
#define DEADLINE_NS (1000 * 1000000LL) /* for a launch behind which nothing moves: a GPU full of kernels that wait */

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry pysh_clock(.param .u64 p_word)\n"
                          "{\n"
                          "    .reg .b64 %a, %t;\n"
                          "    ld.param.u64 %a, [p_word];\n"
                          "    mov.u64 %t, %globaltimer;\n"
                          "    st.relaxed.sys.u64 [%a], %t;\n" /* the host polls it */
                          "    ret;\n"
                          "}\n";

/* False: the kernel did not run in time, or could not be launched. */
static bool look(CUfunction function, CUstream stream, volatile uint64_t *word, CUdeviceptr seen, int64_t *offset_p,
                 int64_t *within_p) {
    void *arguments[] = {&seen};
    int64_t begin = pysh_now_ns(), end = begin;
    uint64_t gpu;

    *word = 0;
    if (pysh_cuda.LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL))
        return false;
    while (!(gpu = *word) && end - begin < DEADLINE_NS)
        end = pysh_now_ns();
    end = pysh_now_ns();
    *offset_p = begin + (end - begin) / 2 - (int64_t)gpu;
    *within_p = (end - begin) / 2;
    return gpu != 0;
}

static int measure(CUmodule module, CUstream stream, int64_t *offset_p, int64_t *within_p) {
    void *word = NULL, *seen = NULL;
    CUfunction function;
    CUresult result = pysh_cuda.ModuleGetFunction(&function, module, "pysh_clock");
    int64_t offset, within;
    int status, good = 0;

    if (result)
        return pysh_cuda_fail(result, "loading the kernel that reads the GPU's clock");
    if ((status = pysh_cuda_shared_alloc(sizeof(uint64_t), &word, &seen)))
        return status;
    for (int i = 0; i < TRIES; i++) {
        if (!look(function, stream, word, (CUdeviceptr)(uintptr_t)seen, &offset, &within))
            break;
        if (good++ == 0 || within < *within_p) {
            *offset_p = offset;
            *within_p = within;
        }
    }
    if (good < TRIES) /* its kernel may still come to store the word, which therefore stays */
        return pysh_fail(ISHMEMX_ERR_TIMEOUT, "the GPU's clock was not read within a second: do kernels wait on it?");
    pysh_cuda.StreamSynchronize(stream);
    pysh_cuda_shared_free(word);
    return ISHMEMX_OK;
}

int pysh_cuda_clock(int64_t *offset_ns_p, int64_t *within_ns_p) {
    pysh_cuda_visit_t visit = pysh_cuda_enter();
    CUmodule module;
    CUstream stream;
    CUresult result = pysh_cuda.ModuleLoadData(&module, ptx);
    int status = ISHMEMX_OK;

    if (!result && !(result = pysh_cuda.StreamCreate(&stream, CU_STREAM_NON_BLOCKING))) {
        status = measure(module, stream, offset_ns_p, within_ns_p);
        pysh_cuda.StreamDestroy(stream);
    }
    if (result)
        status = pysh_cuda_fail(result, "preparing to read the GPU's clock");
    else if (!status)
        pysh_cuda.ModuleUnload(module);
    pysh_cuda_leave(visit);
    return status;
}
