/* SPDX-License-Identifier: BSD-3-Clause */
#include "accel/cuda/amo.h"

#include <stdint.h>

#include "accel/accel.h"
#include "accel/cuda/driver.h"
#include "base/elements.h"
#include "ishmemx.h"

#define ADD_FLOAT  16 /* case numbers: op for 4 bytes, 8 + op for 8 bytes, then the two float sums */
#define ADD_DOUBLE 17

/* Each operation is sequentially consistent at system scope: fence.sc, then acq_rel. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry pysh_amo(.param .u64 p_address, .param .u64 p_value, .param .u64 p_cond,\n"
    "                         .param .u64 p_result, .param .u32 p_case, .param .u32 p_narrow)\n"
    "{\n"
    "    .reg .b32 %v, %c, %o, %case, %narrow;\n"
    "    .reg .pred %n;\n"
    "    .reg .b64 %a, %V, %C, %O, %r;\n"
    "    .reg .f32 %f;\n"
    "    .reg .f64 %d;\n"
    "    ld.param.u64 %a, [p_address];\n"
    "    ld.param.u64 %V, [p_value];\n"
    "    ld.param.u64 %C, [p_cond];\n"
    "    ld.param.u64 %r, [p_result];\n"
    "    ld.param.u32 %case, [p_case];\n"
    "    ld.param.u32 %narrow, [p_narrow];\n"
    "    setp.ne.u32 %n, %narrow, 0;\n"
    "    cvt.u32.u64 %v, %V;\n"
    "    cvt.u32.u64 %c, %C;\n"
    "    mov.b32 %f, %v;\n"
    "    mov.b64 %d, %V;\n"
    "    fence.sc.sys;\n"
    "cases: .branchtargets L0, L1, L1, L3, L4, L5, L6, L7, L8, L9, L9, L11, L12, L13, L14, L15, L16, L17;\n"
    "    brx.idx %case, cases;\n"
    "L0: ld.acquire.sys.u32 %o, [%a]; bra wide;\n"
    "L1: atom.acq_rel.sys.exch.b32 %o, [%a], %v; bra wide;\n"
    "L3: atom.acq_rel.sys.cas.b32 %o, [%a], %c, %v; bra wide;\n"
    "L4: atom.acq_rel.sys.add.u32 %o, [%a], %v; bra wide;\n"
    "L5: atom.acq_rel.sys.and.b32 %o, [%a], %v; bra wide;\n"
    "L6: atom.acq_rel.sys.or.b32 %o, [%a], %v; bra wide;\n"
    "L7: atom.acq_rel.sys.xor.b32 %o, [%a], %v; bra wide;\n"
    "L8: ld.acquire.sys.u64 %O, [%a]; bra done;\n"
    "L9: atom.acq_rel.sys.exch.b64 %O, [%a], %V; bra done;\n"
    "L11: atom.acq_rel.sys.cas.b64 %O, [%a], %C, %V; bra done;\n"
    "L12: atom.acq_rel.sys.add.u64 %O, [%a], %V; bra done;\n"
    "L13: atom.acq_rel.sys.and.b64 %O, [%a], %V; bra done;\n"
    "L14: atom.acq_rel.sys.or.b64 %O, [%a], %V; bra done;\n"
    "L15: atom.acq_rel.sys.xor.b64 %O, [%a], %V; bra done;\n"
    "L16: atom.acq_rel.sys.add.f32 %f, [%a], %f; mov.b32 %o, %f; bra wide;\n"
    "L17: atom.acq_rel.sys.add.f64 %d, [%a], %d; mov.b64 %O, %d; bra done;\n"
    "wide: cvt.u64.u32 %O, %o;\n"
    "    @%n bra narrow;\n"
    "done: st.relaxed.sys.u64 [%r], %O;\n" /* the host reads it after cuStreamSynchronize */
    "    ret;\n"
    "narrow: st.relaxed.sys.u32 [%r], %o;\n" /* an element of an array, with others beside it */
    "    ret;\n"
    "}\n";

static int case_of(int op, int type) {
    if (op == ISHMEMX_ATOMIC_ADD && type == ISHMEMX_TYPE_FLOAT)
        return ADD_FLOAT;
    if (op == ISHMEMX_ATOMIC_ADD && type == ISHMEMX_TYPE_DOUBLE)
        return ADD_DOUBLE;
    return pysh_type_nbytes(type) == 4 ? op : ISHMEMX_ATOMIC_COUNT + op;
}

static CUresult launch(pysh_cuda_amo_t *amo, CUstream stream, int number, CUdeviceptr address, uint64_t value,
                       uint64_t cond, CUdeviceptr result, int narrow) {
    void *arguments[] = {&address, &value, &cond, &result, &number, &narrow};

    return pysh_cuda.LaunchKernel(amo->function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

/* Loads and stores go by the copy engine: it moves an aligned word whole, and needs no room on a GPU
 * that is full of kernels waiting for this word. */
static CUresult start(pysh_cuda_amo_t *amo, CUstream stream, int slot, int op, int type, CUdeviceptr address,
                      uint64_t value, uint64_t cond, bool fetches) {
    CUdeviceptr word = amo->device_word + (CUdeviceptr)slot * sizeof *amo->word;
    size_t nbytes = pysh_type_nbytes(type);

    amo->word[slot] = op == ISHMEMX_ATOMIC_SET ? value : 0;
    if (op == ISHMEMX_ATOMIC_SET && !fetches)
        return pysh_cuda.MemcpyAsync(address, word, nbytes, stream);
    if (op == ISHMEMX_ATOMIC_FETCH)
        return pysh_cuda.MemcpyAsync(word, address, nbytes, stream);
    return launch(amo, stream, case_of(op, type), address, value, cond, word, 0);
}

static int failed(CUresult result, int op, CUdeviceptr address) {
    return pysh_cuda_fail(result, "atomic operation %d on GPU memory %p", op, (void *)(uintptr_t)address);
}

int pysh_cuda_amo_run(pysh_cuda_amo_t *amo, CUstream stream, int op, int type, CUdeviceptr address, uint64_t value,
                      uint64_t cond, uint64_t *fetched_p) {
    CUresult result = start(amo, stream, 0, op, type, address, value, cond, fetched_p != NULL);

    if (!result)
        result = pysh_cuda.StreamSynchronize(stream);
    if (result)
        return failed(result, op, address);
    if (fetched_p)
        *fetched_p = *(volatile uint64_t *)amo->word;
    return ISHMEMX_OK;
}

int pysh_cuda_amo_on_stream(pysh_cuda_amo_t *amo, CUstream stream, int op, int type, CUdeviceptr address,
                            uint64_t value, uint64_t cond, CUdeviceptr fetched) {
    CUdeviceptr nowhere = amo->device_word + PYSH_CUDA_AMO_SLOTS * sizeof *amo->word;
    int narrow = fetched && pysh_type_nbytes(type) == 4;
    CUresult result =
        op == ISHMEMX_ATOMIC_FETCH
            ? pysh_cuda.MemcpyAsync(fetched, address, pysh_type_nbytes(type), stream)
            : launch(amo, stream, case_of(op, type), address, value, cond, fetched ? fetched : nowhere, narrow);

    return result ? failed(result, op, address) : ISHMEMX_OK;
}

int pysh_cuda_amo_begin(pysh_cuda_amo_t *amo, int op, int type, CUdeviceptr address, uint64_t value, uint64_t cond,
                        int *slot_p) {
    CUresult result;
    int slot = 1;

    while (slot < PYSH_CUDA_AMO_SLOTS && amo->used[slot])
        slot++;
    if (slot == PYSH_CUDA_AMO_SLOTS)
        return PYSH_ENGINE_FULL;
    result = start(amo, amo->stream, slot, op, type, address, value, cond, false);
    if (!result)
        result = pysh_cuda.EventRecord(amo->event[slot], amo->stream);
    if (result)
        return failed(result, op, address);
    amo->used[slot] = true;
    *slot_p = slot;
    return ISHMEMX_OK;
}

int pysh_cuda_amo_poll(pysh_cuda_amo_t *amo, int slot, bool *done_p, uint64_t *fetched_p) {
    CUresult result = pysh_cuda.EventQuery(amo->event[slot]);

    *done_p = result != CUDA_ERROR_NOT_READY;
    if (!*done_p)
        return ISHMEMX_OK;
    amo->used[slot] = false;
    *fetched_p = ((volatile uint64_t *)amo->word)[slot];
    return result ? pysh_cuda_fail(result, "an atomic operation on GPU memory for a kernel") : ISHMEMX_OK;
}

int pysh_cuda_amo_open(pysh_cuda_amo_t *amo, CUstream stream) {
    const size_t spare = PYSH_CUDA_AMO_SLOTS; /* a word for the first run to read, behind the slots' */
    void *word = NULL;
    CUresult result = pysh_cuda.MemHostAlloc(&word, (spare + 1) * sizeof *amo->word,
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result)
        return pysh_cuda_fail(result, "allocating pinned memory");
    amo->word = word;
    amo->word[spare] = 0;
    result = pysh_cuda.MemHostGetDevicePointer(&amo->device_word, word, 0);
    if (!result)
        result = pysh_cuda.StreamCreate(&amo->stream, CU_STREAM_NON_BLOCKING);
    for (int slot = 1; !result && slot < PYSH_CUDA_AMO_SLOTS; slot++)
        result = pysh_cuda.EventCreate(&amo->event[slot], CU_EVENT_DISABLE_TIMING);
    if (!result)
        result = pysh_cuda.ModuleLoadData(&amo->module, ptx);
    if (!result)
        result = pysh_cuda.ModuleGetFunction(&amo->function, amo->module, "pysh_amo");
    if (!result)
        result = launch(amo, stream, case_of(ISHMEMX_ATOMIC_FETCH, ISHMEMX_TYPE_UINT64),
                        amo->device_word + spare * sizeof *amo->word, 0, 0, amo->device_word, 0);
    if (!result)
        result = pysh_cuda.StreamSynchronize(stream);
    return result ? pysh_cuda_fail(result, "loading the kernel for atomic operations") : ISHMEMX_OK;
}

void pysh_cuda_amo_close(pysh_cuda_amo_t *amo) {
    if (amo->stream)
        pysh_cuda.StreamDestroy(amo->stream);
    for (int slot = 1; slot < PYSH_CUDA_AMO_SLOTS; slot++)
        if (amo->event[slot])
            pysh_cuda.EventDestroy(amo->event[slot]);
    if (amo->module)
        pysh_cuda.ModuleUnload(amo->module);
    if (amo->word)
        pysh_cuda.MemFreeHost(amo->word);
    *amo = (pysh_cuda_amo_t){0};
}
