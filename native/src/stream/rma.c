/* SPDX-License-Identifier: BSD-3-Clause
 * Put, get, atomics and signals on a stream: copies, stored words, and the kernel for atomic operations; requests to
 * the ring where the peer is out of reach. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/elements.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/registered.h"
#include "node/enter.h"
#include "ops/amo.h"
#include "ops/amo_by_owner.h"
#include "ops/rma.h"
#include "pysh_contract.h"
#include "stream/stream.h"

/* First of all: the stream, and the world PE of PE `pe` of a context. */
static int rma_begin(ishmemx_ctx_t ctx, int pe, void *stream, int *world_p) {
    int status;

    PYSH_ENTER();
    status = pysh_ctx_pe(ctx, pe, world_p);
    return status ? status : pysh_stream_check(stream);
}

/* Where put and get reach a peer's part: also of registered memory. */
static int reach_bytes(const void *address, size_t nbytes, int world, const char *what, char **peer_p) {
    const pysh_registered_t *one = pysh_may_be_registered(address) ? pysh_registered_find(address, nbytes) : NULL;

    return one ? pysh_registered_reach(one, address, world, what, peer_p)
               : pysh_stream_reach(address, nbytes, world, what, peer_p);
}

int ishmemx_put_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe, void *stream) {
    char *peer = NULL;
    int world = 0, status = rma_begin(ctx, pe, stream, &world);

    if (status || !nbytes)
        return status;
    if ((status = reach_bytes(dest, nbytes, world, "dest", &peer)) || (status = pysh_stream_local(source, "source")))
        return status;
    return peer ? pysh.accel->streams->copy(peer, source, nbytes, stream)
                : pysh_stream_request_bytes(PYSH_OP_PUT, dest, source, nbytes, world, stream);
}

int ishmemx_get_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe, void *stream) {
    char *peer = NULL;
    int world = 0, status = rma_begin(ctx, pe, stream, &world);

    if (status || !nbytes)
        return status;
    if ((status = reach_bytes(source, nbytes, world, "source", &peer)) || (status = pysh_stream_local(dest, "dest")))
        return status;
    return peer ? pysh.accel->streams->copy(dest, peer, nbytes, stream)
                : pysh_stream_request_bytes(PYSH_OP_GET, dest, source, nbytes, world, stream);
}

int ishmemx_p_on_stream(ishmemx_ctx_t ctx, void *dest, const void *value, size_t nbytes, int pe, void *stream) {
    char *peer = NULL;
    int world = 0, status = rma_begin(ctx, pe, stream, &world);

    if (!status)
        status = reach_bytes(dest, nbytes, world, "dest", &peer);
    for (size_t done = 0; !status && done < nbytes; done += 8) {
        size_t piece = nbytes - done < 8 ? nbytes - done : 8;
        uint64_t bits = 0;
        memcpy(&bits, (const char *)value + done, piece);
        status = peer ? pysh.accel->streams->store(peer + done, bits, piece, stream)
                      : pysh_stream_request_p((char *)dest + done, bits, piece, world, stream);
    }
    return status;
}

/* ---- strided ---- */

/* The bytes that they span on each side. */
typedef struct spans {
    size_t dest, source;
} spans_t;

static int blocks_of(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t block,
                     size_t n_blocks, size_t width, pysh_blocks_t *blocks, spans_t *spans) {
    int status;

    if (dest_stride < 1 || source_stride < 1 ||
        (n_blocks > 1 && ((size_t)dest_stride < block || (size_t)source_stride < block)))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "strides of %td and %td; give at least 1, and at least the %zu elements of a block",
                         dest_stride, source_stride, block);
    if ((status = pysh_check_extent(n_blocks, (size_t)dest_stride, block, width, &spans->dest)) ||
        (status = pysh_check_extent(n_blocks, (size_t)source_stride, block, width, &spans->source)))
        return status;
    *blocks = (pysh_blocks_t){.dest = dest, .source = source, .n_blocks = n_blocks};
    if (!spans->dest)
        return ISHMEMX_OK;
    if (n_blocks == 1) /* theirs, of any size, lead nowhere */
        dest_stride = source_stride = (ptrdiff_t)block;
    blocks->dest_stride = (size_t)dest_stride * width;
    blocks->source_stride = (size_t)source_stride * width;
    blocks->nbytes = block * width;
    return ISHMEMX_OK;
}

int ishmemx_iput_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                           ptrdiff_t source_stride, size_t block, size_t n_blocks, size_t width, int pe, void *stream) {
    pysh_blocks_t blocks;
    spans_t spans;
    char *peer = NULL;
    int world = 0, status = rma_begin(ctx, pe, stream, &world);

    if (!status)
        status = blocks_of(dest, source, dest_stride, source_stride, block, n_blocks, width, &blocks, &spans);
    if (status || !spans.dest)
        return status;
    if ((status = pysh_stream_reach(dest, spans.dest, world, "dest", &peer)) ||
        (status = pysh_stream_local(source, "source")))
        return status;
    if (!peer)
        return pysh_stream_request_blocks(PYSH_OP_IPUT, dest, source, dest_stride, source_stride, block, n_blocks,
                                          width, world, stream);
    blocks.dest = peer;
    return pysh.accel->streams->copy_blocks(&blocks, stream);
}

int ishmemx_iget_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                           ptrdiff_t source_stride, size_t block, size_t n_blocks, size_t width, int pe, void *stream) {
    pysh_blocks_t blocks;
    spans_t spans;
    char *peer = NULL;
    int world = 0, status = rma_begin(ctx, pe, stream, &world);

    if (!status)
        status = blocks_of(dest, source, dest_stride, source_stride, block, n_blocks, width, &blocks, &spans);
    if (status || !spans.dest)
        return status;
    if ((status = pysh_stream_reach(source, spans.source, world, "source", &peer)) ||
        (status = pysh_stream_local(dest, "dest")))
        return status;
    if (!peer)
        return pysh_stream_request_blocks(PYSH_OP_IGET, dest, source, dest_stride, source_stride, block, n_blocks,
                                          width, world, stream);
    blocks.source = peer;
    return pysh.accel->streams->copy_blocks(&blocks, stream);
}

/* ---- atomics ---- */

/* The peer's proxy cannot be asked in the order of a stream. */
static int check_link(int op, int world) {
    if (!pysh_amo_is_by_owner(op, ISHMEMX_HEAP_DEVICE, world))
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                     "the link to the GPU of PE %d has no native atomic operations, and a stream cannot ask that PE "
                     "for one; call it without a stream, or from a kernel",
                     world);
}

static int stream_amo(int op, int type, void *dest, uint64_t value, uint64_t cond, int world, const char *what,
                      void *fetched, void *stream) {
    size_t nbytes = pysh_type_nbytes(type);
    char *peer = NULL;
    int status = pysh_amo_check(op, type);

    if (!status)
        status = pysh_stream_reach(dest, nbytes, world, what, &peer);
    if (!status)
        status = pysh_type_check_aligned(type, dest, what);
    if (!status && fetched)
        status = pysh_stream_local(fetched, "fetched");
    if (status)
        return status;
    if (!peer)
        return pysh_stream_request_amo(op, type, dest, value, cond, world, fetched, stream);
    if (op == ISHMEMX_ATOMIC_FETCH)
        return pysh.accel->streams->copy(fetched, peer, nbytes, stream);
    if (op == ISHMEMX_ATOMIC_SET)
        return pysh.accel->streams->store(peer, value, nbytes, stream);
    if ((status = check_link(op, world)))
        return status;
    return pysh.accel->streams->amo(op, type, peer, value, cond, fetched, stream);
}

int ishmemx_atomic_on_stream(ishmemx_ctx_t ctx, int op, int type, void *dest, uint64_t value, uint64_t cond, int pe,
                             void *fetched, void *stream) {
    int world = 0, status = rma_begin(ctx, pe, stream, &world);

    if (!status && op == ISHMEMX_ATOMIC_FETCH && !fetched)
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "a fetch on a stream needs an array for the value");
    return status ? status : stream_amo(op, type, dest, value, cond, world, "dest", fetched, stream);
}

/* ---- signals ---- */

static int signal_check(int sig_op) {
    if (sig_op == ISHMEMX_SIGNAL_SET || sig_op == ISHMEMX_SIGNAL_ADD)
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_ARGUMENT, "sig_op is %d, neither SIGNAL_SET (%d) nor SIGNAL_ADD (%d)", sig_op,
                     ISHMEMX_SIGNAL_SET, ISHMEMX_SIGNAL_ADD);
}

static int signal_send(uint64_t *sig_addr, uint64_t signal, int sig_op, int world, void *stream) {
    int status = signal_check(sig_op);

    if (status)
        return status;
    return stream_amo(sig_op == ISHMEMX_SIGNAL_SET ? ISHMEMX_ATOMIC_SET : ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_UINT64,
                      sig_addr, signal, 0, world, "sig_addr", NULL, stream);
}

int ishmemx_signal_op_by_driver(ishmemx_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                                void *stream) {
    int world = 0, status = rma_begin(ctx, pe, stream, &world);

    return status ? status : signal_send(sig_addr, signal, sig_op, world, stream);
}

int ishmemx_signal_op_on_stream(ishmemx_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                                void *stream) {
    char *word = NULL;
    int world = 0, way, status = rma_begin(ctx, pe, stream, &world);

    if (status)
        return status;
    if (sig_op != ISHMEMX_SIGNAL_SET || !(way = pysh_signal_way()))
        return signal_send(sig_addr, signal, sig_op, world, stream);
    if ((status = pysh_stream_reach(sig_addr, sizeof *sig_addr, world, "sig_addr", &word)) ||
        (status = pysh_type_check_aligned(ISHMEMX_TYPE_UINT64, sig_addr, "sig_addr")))
        return status;
    return word ? pysh.accel->streams->store_by_kernel(word, signal, way == ISHMEMX_SIGNALS_EARLY, stream)
                : signal_send(sig_addr, signal, sig_op, world, stream);
}

static int put_signal_by_proxy(void *dest, const void *source, size_t nbytes, uint64_t *sig_addr, uint64_t signal,
                               int sig_op, int world, void *stream) {
    int status = signal_check(sig_op);

    if (!status)
        status = pysh_stream_local(source, "source");
    if (!status)
        status = pysh_type_check_aligned(ISHMEMX_TYPE_UINT64, sig_addr, "sig_addr");
    return status ? status
                  : pysh_stream_request_put_signal(dest, source, nbytes, sig_addr, signal, sig_op, world, stream);
}

/* The stream orders the two: the stored word, or the kernel that adds, comes after the copy is complete there. Out of
 * reach it is one request. */
int ishmemx_put_signal_on_stream(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, uint64_t *sig_addr,
                                 uint64_t signal, int sig_op, int pe, void *stream) {
    char *word = NULL, *peer = NULL;
    int world = 0, status = rma_begin(ctx, pe, stream, &world);

    if (!status) /* before the data goes */
        status = pysh_stream_reach(sig_addr, sizeof *sig_addr, world, "sig_addr", &word);
    if (!status && sig_op == ISHMEMX_SIGNAL_ADD)
        status = check_link(ISHMEMX_ATOMIC_ADD, world);
    if (!status && nbytes && !(status = reach_bytes(dest, nbytes, world, "dest", &peer)) && !(peer && word))
        return put_signal_by_proxy(dest, source, nbytes, sig_addr, signal, sig_op, world, stream);
    if (!status)
        status = ishmemx_put_on_stream(ctx, dest, source, nbytes, pe, stream);
    return status ? status : signal_send(sig_addr, signal, sig_op, world, stream);
}
