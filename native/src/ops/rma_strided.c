/* SPDX-License-Identifier: BSD-3-Clause
 * Strided and block-strided put and get: blocks of elements, one every so many elements, on each side. */
#include <stdbool.h>
#include <string.h>

#include "accel/copy.h"
#include "am/am.h"
#include "base/extent.h"
#include "base/state.h"
#include "base/status.h"
#include "node/enter.h"
#include "node/wait.h"
#include "ops/rma.h"
#include "ops/store.h"

typedef struct strides {
    ptrdiff_t dest, source; /* bytes from block to block */
    size_t block;           /* bytes of a block */
    size_t n_blocks;
} strides_t;

static int stride_check(const char *name, ptrdiff_t stride, size_t block, size_t n_blocks) {
    if (stride < 1)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the %s stride is %td, not at least 1", name, stride);
    if (n_blocks > 1 && (size_t)stride < block)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the %s stride is %td; blocks of %zu elements would overlap", name,
                         stride, block);
    return ISHMEMX_OK;
}

/* Checks the arguments; the sizes in bytes of what is touched on each side go to *dest_p and *source_p. */
static int strides_check(ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t block, size_t n_blocks, size_t width,
                         strides_t *strides_p, size_t *dest_p, size_t *source_p) {
    int status = stride_check("dest", dest_stride, block, n_blocks);

    if (!status)
        status = stride_check("source", source_stride, block, n_blocks);
    if (status)
        return status;
    if (n_blocks == 1)
        dest_stride = source_stride = (ptrdiff_t)block; /* theirs, of any size, lead nowhere */
    strides_p->n_blocks = n_blocks;
    if (__builtin_mul_overflow(block, width, &strides_p->block) ||
        __builtin_mul_overflow(dest_stride, (ptrdiff_t)width, &strides_p->dest) ||
        __builtin_mul_overflow(source_stride, (ptrdiff_t)width, &strides_p->source) ||
        !pysh_extent(n_blocks, (size_t)dest_stride, block, width, dest_p) ||
        !pysh_extent(n_blocks, (size_t)source_stride, block, width, source_p))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%zu blocks of %zu elements of %zu bytes are more than any memory holds",
                         n_blocks, block, width);
    return ISHMEMX_OK;
}

/* A loop for each width, so that the compiler moves an element by a load and a store. */
#define COPY_BLOCKS(_nbytes)                                                       \
    for (size_t i = 0; i < s->n_blocks; i++, dest += s->dest, source += s->source) \
    memcpy(dest, source, _nbytes)

static void strided_copy_blocks(char *dest, const char *source, const strides_t *s) {
    switch (s->block) {
    case 1:
        COPY_BLOCKS(1);
        break;
    case 2:
        COPY_BLOCKS(2);
        break;
    case 4:
        COPY_BLOCKS(4);
        break;
    case 8:
        COPY_BLOCKS(8);
        break;
    case 16:
        COPY_BLOCKS(16);
        break;
    default:
        for (size_t i = 0; i < s->n_blocks; i++, dest += s->dest, source += s->source)
            pysh_store(dest, source, s->block);
    }
}

/* Is the whole of it memory the CPU loads and stores? Then *peer_p is where, for `pe`. */
static int reach(const void *address, size_t nbytes, const char *what, const void *local, int pe, char **peer_p) {
    int heap, status = pysh_peer_address(address, nbytes, pe, what, peer_p, &heap);

    if (!status && (!pysh.arena[heap].cpu_visible || pysh_on_gpu(local)))
        *peer_p = NULL;
    return status;
}

/* By messages, which take many blocks each. */
static int remote_blocks(int kind, const void *remote, void *local, int64_t remote_stride, int64_t local_stride,
                         const strides_t *s, int pe) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];
    pysh_am_op_t op = {.kind = kind,
                       .pe = pe,
                       .heap = ISHMEMX_HEAP_DEVICE,
                       .offset = (const char *)remote - arena->base,
                       .local = local,
                       .block = s->block,
                       .n_blocks = s->n_blocks,
                       .remote_stride = remote_stride,
                       .local_stride = local_stride,
                       .local_gpu = pysh_on_gpu(local)};

    return pysh_am_wait(&op, kind == PYSH_AM_PUT ? "iput" : "iget");
}

static bool is_remote(const void *address, int pe) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];

    return arena->base && !arena->peer[pe] && (uintptr_t)address - (uintptr_t)arena->base < (uintptr_t)arena->nbytes;
}

int pysh_iput(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t block,
              size_t n_blocks, size_t width, int pe) {
    size_t dest_bytes, source_bytes;
    strides_t s;
    char *peer;
    int status;

    if (!block || !n_blocks || !width)
        return ISHMEMX_OK;
    status = strides_check(dest_stride, source_stride, block, n_blocks, width, &s, &dest_bytes, &source_bytes);
    if (!status)
        status = reach(dest, dest_bytes, "dest", source, pe, &peer);
    if (status)
        return status;
    if (pysh.check && pe == pysh.pe && (status = pysh_check_overlap(dest, dest_bytes, source, source_bytes)))
        return status;
    if (is_remote(dest, pe))
        return remote_blocks(PYSH_AM_PUT, dest, (void *)(uintptr_t)source, s.dest, s.source, &s, pe);
    if (peer) {
        strided_copy_blocks(peer, source, &s);
        pysh_wake(pe);
    }
    for (size_t i = 0; !peer && !status && i < n_blocks; i++)
        status =
            pysh_put((char *)dest + (ptrdiff_t)i * s.dest, (const char *)source + (ptrdiff_t)i * s.source, s.block, pe);
    return status;
}

int ishmemx_iput(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                 size_t block, size_t n_blocks, size_t width, int pe) {
    int world, status;

    PYSH_ENTER();
    status = pysh_ctx_pe(ctx, pe, &world);
    return status ? status : pysh_iput(dest, source, dest_stride, source_stride, block, n_blocks, width, world);
}

int pysh_iget(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t block,
              size_t n_blocks, size_t width, int pe) {
    size_t dest_bytes, source_bytes;
    strides_t s;
    char *peer;
    int status;

    if (!block || !n_blocks || !width)
        return ISHMEMX_OK;
    status = strides_check(dest_stride, source_stride, block, n_blocks, width, &s, &dest_bytes, &source_bytes);
    if (!status)
        status = reach(source, source_bytes, "source", dest, pe, &peer);
    if (status)
        return status;
    if (pysh.check && pe == pysh.pe && (status = pysh_check_overlap(dest, dest_bytes, source, source_bytes)))
        return status;
    if (is_remote(source, pe))
        return remote_blocks(PYSH_AM_GET, source, dest, s.source, s.dest, &s, pe);
    if (peer)
        strided_copy_blocks(dest, peer, &s);
    for (size_t i = 0; !peer && !status && i < n_blocks; i++)
        status =
            pysh_get((char *)dest + (ptrdiff_t)i * s.dest, (const char *)source + (ptrdiff_t)i * s.source, s.block, pe);
    return status;
}

int ishmemx_iget(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                 size_t block, size_t n_blocks, size_t width, int pe) {
    int world, status;

    PYSH_ENTER();
    status = pysh_ctx_pe(ctx, pe, &world);
    return status ? status : pysh_iget(dest, source, dest_stride, source_stride, block, n_blocks, width, world);
}
