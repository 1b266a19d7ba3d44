/* SPDX-License-Identifier: BSD-3-Clause
 * The fake driver's kernels: that for atomic operations, and those of a test's libraries. */
#include "fake_cuda_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fake_run_kernel(const work_t *work) { /* case numbers of the kernel: see accel/cuda/amo.c */
    uint64_t old = 0, *wide = (uint64_t *)(uintptr_t)work->dest, *result = &old;
    uint32_t *narrow = (uint32_t *)(uintptr_t)work->dest, cond = (uint32_t)work->cond;
    uint64_t cond_wide = work->cond;

    __atomic_add_fetch(&fake.atomics, 1, __ATOMIC_SEQ_CST);
    switch (work->number) {
    case 1:
    case 2:
        *result = __atomic_exchange_n(narrow, (uint32_t)work->value, __ATOMIC_SEQ_CST);
        break;
    case 3:
        __atomic_compare_exchange_n(narrow, &cond, (uint32_t)work->value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        *result = cond;
        break;
    case 4:
        *result = __atomic_fetch_add(narrow, (uint32_t)work->value, __ATOMIC_SEQ_CST);
        break;
    case 8:
        *result = __atomic_load_n(wide, __ATOMIC_SEQ_CST);
        break;
    case 9:
    case 10:
        *result = __atomic_exchange_n(wide, work->value, __ATOMIC_SEQ_CST);
        break;
    case 11:
        __atomic_compare_exchange_n(wide, &cond_wide, work->value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        *result = cond_wide;
        break;
    case 12:
        *result = __atomic_fetch_add(wide, work->value, __ATOMIC_SEQ_CST);
        break;
    case 15:
        *result = __atomic_fetch_xor(wide, work->value, __ATOMIC_SEQ_CST);
        break;
    case 16: {
        float sum, more;
        *result = *narrow;
        memcpy(&sum, narrow, sizeof sum);
        memcpy(&more, &work->value, sizeof more);
        sum += more;
        memcpy(narrow, &sum, sizeof sum);
        break;
    }
    default:
        fprintf(stderr, "fake_cuda: kernel case %d is not there\n", work->number);
        abort();
    }
    if (work->narrow)
        *(uint32_t *)(uintptr_t)work->result = (uint32_t)old;
    else
        *(uint64_t *)(uintptr_t)work->result = old;
}

/* Words of a box, once both show the phase. */
static bool load_two(const uint64_t *box, uint64_t phase, uint64_t *word) {
    for (int i = 0; i < 2; i++)
        word[i] = __atomic_load_n(&box[i], __ATOMIC_ACQUIRE);
    return word[0] >> 56 == phase && word[1] >> 56 == phase;
}

/* The kernel that stays: as its text in accel/cuda/amo_ptx.c. */
void fake_run_server(const work_t *work) {
    uint64_t *boxes = (uint64_t *)(uintptr_t)work->dest, *cells = (uint64_t *)(uintptr_t)work->source;
    uint64_t n = work->value, old, word[4], *here = (uint64_t *)(uintptr_t)work->result;

    __atomic_store_n(here, work->cond, __ATOMIC_RELEASE);
    for (int looks = 0; looks < work->number;) {
        const uint64_t *box = &boxes[4 * (n % 16)];
        uint64_t phase = (n >> 4) % 255 + 1;
        work_t one = {.result = (uintptr_t)&old};
        if (!load_two(box, phase, word)) {
            looks++;
            for (volatile int i = 0; i < 100; i++)
                continue;
            continue;
        }
        one.dest = word[0] << 16 >> 16;
        one.value = (uint64_t)((int64_t)(word[1] << 8) >> 8);
        one.number = (int)(word[0] >> 48 & 31);
        if (word[0] >> 55 & 1) {
            while (!load_two(box + 2, phase, word + 2))
                continue;
            one.dest |= (word[3] & 255) << 48;
            one.value = word[1] << 8 >> 8 | (word[3] >> 8 & 255) << 56;
            one.cond = word[2] << 8 >> 8 | (word[3] >> 16 & 255) << 56;
        }
        fake_run_kernel(&one);
        __atomic_store_n(&cells[2 * (n % 16) + 1], old >> 56 | phase << 56, __ATOMIC_RELEASE);
        __atomic_store_n(&cells[2 * (n % 16)], old << 8 >> 8 | phase << 56, __ATOMIC_RELEASE);
        looks = 0;
        n++;
    }
    __atomic_store_n(&here[1], work->cond | n, __ATOMIC_RELEASE);
}

/* What a kernel of a test does: adds the words up, and keeps them. */
void fake_run_library_kernel(const work_t *work) {
    memcpy(fake.launched_words, work->words, sizeof fake.launched_words);
    fake.launched_blocks = work->number;
    fake.launched_cooperative = work->narrow;
    __atomic_add_fetch(&fake.launched, 1, __ATOMIC_SEQ_CST);
}

/* ---- libraries ---- */

CUresult cuLibraryLoadData(library_t **library, const void *image, void *a, void *b, unsigned c, void *d, void *e,
                           unsigned f) {
    UNSAFE();
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    *library = calloc(1, sizeof **library);
    (*library)->n_words = atoi(image);
    return SUCCESS;
}
CUresult cuLibraryGetKernel(library_t **kernel, library_t *library, const char *name) {
    if (strcmp(name, "entry"))
        return INVALID_VALUE;
    *kernel = library;
    return SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *nbytes, library_t *library, const char *name) {
    if (strncmp(name, "pyshmem_state_", 14))
        return INVALID_VALUE;
    *address = (CUdeviceptr)(uintptr_t)library->state;
    *nbytes = sizeof library->state;
    return SUCCESS;
}
CUresult cuKernelGetFunction(library_t **function, library_t *kernel) {
    *function = kernel;
    return SUCCESS;
}
CUresult cuFuncLoad(library_t *function) {
    UNSAFE();
    function->loaded = true;
    fake.last_library = function;
    return SUCCESS;
}
typedef struct {
    int id, pad, value[16];
} attribute_t;
typedef struct {
    unsigned grid[3], block[3], shared;
    stream_t *stream;
    attribute_t *attributes;
    unsigned n_attributes;
} launch_t;
/* The arguments of the kernels for words. A wait is one thing with the driver's here, but for the room that it needs.
 */
static CUresult launch_word(stream_t *stream, void *function, void **argument) {
    CUdeviceptr address = *(CUdeviceptr *)argument[0];
    uint64_t value = *(uint64_t *)argument[1];

    __atomic_add_fetch(&fake.word_kernels, 1, __ATOMIC_SEQ_CST);
    if (function == FAKE_SET)
        return fake_enqueue(stream, (work_t){.kind = STORE, .dest = address, .value = value, .nbytes = 8});
    return fake_enqueue(stream, (work_t){.kind = WAIT,
                                         .source = address,
                                         .value = value,
                                         .nbytes = *(int *)argument[4] ? 4 : 8,
                                         .number = *(int *)argument[3]});
}

/* A kernel that another library has loaded: it takes an address, an int and, at a multiple of 8, an address. */
CUresult cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *nbytes) {
    static const size_t places[] = {0, 8, 16}, widths[] = {8, 4, 8};

    if (function != FAKE_FOREIGN || index >= sizeof places / sizeof *places)
        return INVALID_VALUE;
    *offset = places[index];
    *nbytes = widths[index];
    return SUCCESS;
}
static CUresult launch_foreign(const launch_t *launch, void **argument) {
    work_t work = {.kind = LIBRARY_KERNEL,
                   .number = (int)(launch->grid[0] * launch->grid[1] * launch->grid[2]),
                   .narrow = (int)launch->n_attributes};

    work.words[0] = (int64_t)(*(uint64_t *)argument[0] - *(uint64_t *)argument[2]);
    work.words[1] = *(int *)argument[1];
    work.words[2] = launch->block[0];
    work.words[3] = launch->shared;
    for (unsigned i = 0; i < launch->n_attributes; i++)
        work.words[4 + i] = launch->attributes[i].id;
    return fake_enqueue(launch->stream, work);
}

/* A kernel that is not loaded, or finds no job in its state block, is a mistake of the library. */
CUresult cuLaunchKernelEx(const launch_t *launch, library_t *function, void **argument, void **extra) {
    work_t work = {.kind = LIBRARY_KERNEL,
                   .library = function,
                   .number = (int)launch->grid[0],
                   .narrow = launch->n_attributes == 1 && launch->attributes[0].id == 2};

    (void)extra;
    if ((void *)function == FAKE_SET || (void *)function == FAKE_WAIT)
        return launch_word(launch->stream, function, argument);
    if ((void *)function == FAKE_FOREIGN)
        return launch_foreign(launch, argument);
    if (!function->loaded || !function->state[STATE_ABI] || launch->block[0] < 1 || launch->block[0] > 1024)
        return INVALID_VALUE;
    for (int i = 0; i < function->n_words; i++)
        work.words[i] = *(int64_t *)argument[i];
    return fake_enqueue(launch->stream, work);
}
CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, stream_t *stream, void **argument, void **extra) {
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    if (function == FAKE_SET || function == FAKE_WAIT)
        return launch_word(stream, function, argument);
    if (function == FAKE_SERVER)
        return fake_enqueue(stream, (work_t){.kind = SERVER,
                                             .dest = *(CUdeviceptr *)argument[0],
                                             .source = *(CUdeviceptr *)argument[1],
                                             .result = *(CUdeviceptr *)argument[2],
                                             .value = *(uint64_t *)argument[3],
                                             .cond = *(uint64_t *)argument[4],
                                             .number = *(int *)argument[5]});
    return fake_enqueue(stream, (work_t){.kind = KERNEL,
                                         .dest = *(CUdeviceptr *)argument[0],
                                         .value = *(uint64_t *)argument[1],
                                         .cond = *(uint64_t *)argument[2],
                                         .result = *(CUdeviceptr *)argument[3],
                                         .number = *(int *)argument[4],
                                         .narrow = *(int *)argument[5]});
}
