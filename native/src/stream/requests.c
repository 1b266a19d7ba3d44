/* SPDX-License-Identifier: BSD-3-Clause
 * Operations on memory out of reach, in the order of a stream: a kernel of one thread sends a request to the ring and
 * waits for the answer, which says that it is complete at the owner. Only kernels post to a ring, so that a captured
 * request is as good again, and what they ask is ordered with what other kernels of the PE have asked before. */
#include <limits.h>
#include <stdint.h>

#include "am/am.h"
#include "base/elements.h"
#include "base/extent.h"
#include "base/state.h"
#include "base/status.h"
#include "host_proxy/ring.h"
#include "ishmemx.h"
#include "pysh_contract.h"
#include "stream/stream.h"

enum { TYPE_SHIFT = 8, FLAGS_SHIFT = 16 }; /* fields of the word KIND */
enum { MOST_WIDTH = 16 };                  /* of the elements of a strided request: wider ones go as several */

int ishmemx_has_far_pes(void) {
    return pysh.ready && pysh.accel && (!pysh.p2p || pysh_am_is_open());
}

/* The low `width` bytes of the answer go to `fetched`; NULL: nowhere. */
static int send_request(const pysh_request_t *request, void *fetched, size_t width, void *stream) {
    pysh_launch_t launch = {.n_words = 0};

    for (int i = 0; i < PYSH_WORD_COUNT; i++)
        pysh_words_int(&launch, (int64_t)request->word[i]);
    pysh_words_int(&launch, (int64_t)(intptr_t)fetched);
    pysh_words_int(&launch, fetched ? (int64_t)width : 0);
    return pysh_kernel_launch(&launch, pysh_kernel_key(ISHMEMX_KERNEL_REQUEST, 0, 0), 0, stream);
}

/* `type`: as the word KIND has it; `high`: the upper half of the word PE. */
static pysh_request_t request_of(int op, size_t type, const void *dest, const void *source, int pe, uint64_t high) {
    pysh_request_t request = {0};

    request.word[PYSH_WORD_DEST] = (uintptr_t)dest;
    request.word[PYSH_WORD_SOURCE] = (uintptr_t)source;
    request.word[PYSH_WORD_PE] = (uint32_t)pe | high << 32;
    request.word[PYSH_WORD_KIND] =
        (uint64_t)op | (uint64_t)type << TYPE_SHIFT | (uint64_t)PYSH_REQUEST_RELEASE << FLAGS_SHIFT;
    return request;
}

int pysh_stream_request_bytes(int op, void *dest, const void *source, size_t nbytes, int pe, void *stream) {
    pysh_request_t request = request_of(op, 0, dest, source, pe, 0);

    request.word[PYSH_WORD_VALUE] = nbytes;
    return send_request(&request, NULL, 0, stream);
}

int pysh_stream_request_blocks(int op, void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                               size_t block, size_t n_blocks, size_t width, int pe, void *stream) {
    size_t lowest = width & -width, unit = lowest < MOST_WIDTH ? lowest : MOST_WIDTH, parts, whole;
    pysh_request_t request;

    if (!width)
        return ISHMEMX_OK;
    parts = width / unit;
    if (!pysh_extent(1, 0, block, parts, &whole) || whole > INT_MAX)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "blocks of %zu elements of %zu bytes to PE %d, which loads and stores do not reach; give "
                         "blocks of at most %zu",
                         block, width, pe, INT_MAX / parts);
    if (n_blocks == 1) /* then the strides, of any size, lead nowhere */
        dest_stride = source_stride = (ptrdiff_t)block;
    request = request_of(op, unit, dest, source, pe, whole);
    request.word[PYSH_WORD_VALUE] = n_blocks;
    request.word[PYSH_WORD_EXTRA] = (uint64_t)dest_stride * parts;
    request.word[PYSH_WORD_EXTRA2] = (uint64_t)source_stride * parts;
    return send_request(&request, NULL, 0, stream);
}

int pysh_stream_request_p(void *dest, uint64_t value, size_t width, int pe, void *stream) {
    pysh_request_t request = request_of(PYSH_OP_P, width, dest, NULL, pe, 0);

    request.word[PYSH_WORD_VALUE] = value;
    return send_request(&request, NULL, 0, stream);
}

int pysh_stream_request_amo(int op, int type, void *dest, uint64_t value, uint64_t cond, int pe, void *fetched,
                            void *stream) {
    pysh_request_t request = request_of(PYSH_OP_AMO, (size_t)type, dest, NULL, pe, (uint64_t)op);

    request.word[PYSH_WORD_VALUE] = value;
    request.word[PYSH_WORD_EXTRA] = cond;
    return send_request(&request, fetched, pysh_type_nbytes(type), stream);
}

int pysh_stream_request_put_signal(void *dest, const void *source, size_t nbytes, uint64_t *sig_addr, uint64_t signal,
                                   int sig_op, int pe, void *stream) {
    pysh_request_t request = request_of(PYSH_OP_PUT_SIGNAL, 0, dest, source, pe, (uint64_t)sig_op);

    request.word[PYSH_WORD_VALUE] = nbytes;
    request.word[PYSH_WORD_EXTRA] = (uintptr_t)sig_addr;
    request.word[PYSH_WORD_EXTRA2] = signal;
    return send_request(&request, NULL, 0, stream);
}
