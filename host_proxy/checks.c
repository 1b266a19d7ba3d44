/* SPDX-License-Identifier: BSD-3-Clause
 * What a request says, checked as a whole before any of it is done: one that fails has moved nothing, here or at the
 * PE that it is for. Of no time: some comparisons each. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/elements.h"
#include "base/extent.h"
#include "base/state.h"
#include "base/status.h"
#include "host_proxy/ring.h"
#include "host_proxy/rings.h"
#include "memory/address.h"
#include "memory/place.h"

#define FIRST_ADDRESS 4096         /* below is where null pointers lead */
#define LAST_ADDRESS  (1ULL << 57) /* no process has memory above, on any machine with 64 bits */
#define MOST_WIDTH    16           /* bytes of an element of a strided copy */
#define MOST_VALUE    8            /* bytes of an element that a request or a reply holds */

static inline void *check_address(uint64_t word) {
    return (void *)(uintptr_t)word;
}

/* Kernels may name a heap's first bytes only where their collectives meet: the rest is other PEs' flags and lists. */
static int check_kept(int heap, uint64_t offset, uint64_t nbytes, const char *what) {
    if (pysh_place_wrong(heap, offset, nbytes) != PYSH_WRONG_SYSTEM)
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                     "%s: %" PRIu64 " bytes from byte %" PRIu64 " of the %s heap: its first %" PRIi64
                     " are the library's own",
                     what, nbytes, offset, heap == ISHMEMX_HEAP_HOST ? "host" : "device", pysh.arena[heap].system);
}

/* The side that is the calling PE's: any memory of the process, but where it is on a heap it stays there. */
static int check_local(uint64_t place, uint64_t nbytes, const char *what) {
    int status;

    if (place < FIRST_ADDRESS || place > LAST_ADDRESS || nbytes > LAST_ADDRESS - place)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: %" PRIu64 " bytes at %#" PRIx64 " are no memory of PE %d", what,
                         nbytes, place, pysh.pe);
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++) {
        uint64_t base = (uint64_t)(uintptr_t)pysh.arena[heap].base, size = (uint64_t)pysh.arena[heap].nbytes;
        bool begins = pysh.arena[heap].base && place - base < size;
        bool leaves = begins && pysh_place_wrong(heap, place - base, nbytes) == PYSH_WRONG_RANGE;

        if (pysh.arena[heap].base && (leaves || base - place - 1 < nbytes - 1))
            return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                             "%s: %" PRIu64 " bytes at %#" PRIx64 " are in part on the %s heap, which has %" PRIu64
                             " bytes from %#" PRIx64,
                             what, nbytes, place, heap == ISHMEMX_HEAP_HOST ? "host" : "device", pysh_place_bytes(heap),
                             base);
        if (begins && (status = check_kept(heap, place - base, nbytes, what)))
            return status;
    }
    return ISHMEMX_OK;
}

/* The side that is another PE's: all of it on a heap, and the program's. */
static int check_remote(uint64_t place, uint64_t nbytes, const char *what) {
    int64_t offset;
    int heap, status = pysh_own_heap_find(check_address(place), nbytes, what, &heap, &offset);

    return status ? status : check_kept(heap, (uint64_t)offset, nbytes, what);
}

/* Both sides of a transfer of some bytes, each from its first to its last. */
static int check_sides(const pysh_request_t *request, uint64_t dest_bytes, uint64_t source_bytes) {
    bool gets = pysh_request_op(request) == PYSH_OP_GET || pysh_request_op(request) == PYSH_OP_IGET;
    uint64_t dest = request->word[PYSH_WORD_DEST], source = request->word[PYSH_WORD_SOURCE];
    int status = gets ? check_remote(source, source_bytes, "source") : check_remote(dest, dest_bytes, "dest");

    if (status)
        return status;
    return gets ? check_local(dest, dest_bytes, "dest") : check_local(source, source_bytes, "source");
}

static int check_bytes(const pysh_request_t *request) {
    uint64_t nbytes = request->word[PYSH_WORD_VALUE];

    return nbytes ? check_sides(request, nbytes, nbytes) : ISHMEMX_OK;
}

static int check_signal(const pysh_request_t *request) {
    uint64_t place = request->word[PYSH_WORD_EXTRA];
    int op = pysh_request_high(request), status = check_remote(place, sizeof(uint64_t), "sig_addr");

    if (!status)
        status = pysh_type_check_aligned(ISHMEMX_TYPE_UINT64, check_address(place), "sig_addr");
    if (!status && op != ISHMEMX_SIGNAL_SET && op != ISHMEMX_SIGNAL_ADD)
        status = pysh_fail(ISHMEMX_ERR_ARGUMENT, "sig_op is %d, neither SIGNAL_SET (%d) nor SIGNAL_ADD (%d)", op,
                           ISHMEMX_SIGNAL_SET, ISHMEMX_SIGNAL_ADD);
    return status;
}

/* Blocks of elements, one every so many elements on each side; none, or empty ones, are nothing to do. */
static int check_blocks(const pysh_request_t *request) {
    const uint64_t *word = request->word;
    int64_t dest_stride = (int64_t)word[PYSH_WORD_EXTRA], source_stride = (int64_t)word[PYSH_WORD_EXTRA2];
    int64_t least = dest_stride < source_stride ? dest_stride : source_stride;
    size_t n = word[PYSH_WORD_VALUE], dest_bytes, source_bytes;
    uint32_t block = (uint32_t)pysh_request_high(request);
    int width = pysh_request_type(request);

    if (width < 1 || width > MOST_WIDTH)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "a strided copy of elements of %d bytes; give 1 to %d", width,
                         MOST_WIDTH);
    if (!n || !block)
        return ISHMEMX_OK;
    if (least < 1 || (n > 1 && least < (int64_t)block))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "strides of %" PRId64 " (dest) and %" PRId64 " (source) elements; give at least the %" PRIu32
                         " of a block",
                         dest_stride, source_stride, block);
    if (!pysh_extent(n, (size_t)dest_stride, block, (size_t)width, &dest_bytes) ||
        !pysh_extent(n, (size_t)source_stride, block, (size_t)width, &source_bytes))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "a strided copy of %zu blocks of %" PRIu32 " elements of %d bytes leaves every heap", n, block,
                         width);
    return check_sides(request, dest_bytes, source_bytes);
}

/* One element, which the request or its reply holds. */
static int check_value(const pysh_request_t *request) {
    bool gets = pysh_request_op(request) == PYSH_OP_G;
    int width = pysh_request_type(request);

    if (width < 1 || width > MOST_VALUE)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel's %s of %d bytes; give 1 to %d", gets ? "g" : "p", width,
                         MOST_VALUE);
    return check_remote(request->word[gets ? PYSH_WORD_SOURCE : PYSH_WORD_DEST], (uint64_t)width,
                        gets ? "source" : "dest");
}

/* SOURCE: where the old value goes, or 0. */
static int check_amo(const pysh_request_t *request) {
    uint64_t place = request->word[PYSH_WORD_DEST], fetch = request->word[PYSH_WORD_SOURCE];
    int type = pysh_request_type(request), status = pysh_amo_check(pysh_request_high(request), type);

    if (!status)
        status = check_remote(place, pysh_type_nbytes(type), "dest");
    if (!status)
        status = pysh_type_check_aligned(type, check_address(place), "dest");
    return status || !fetch ? status : check_local(fetch, pysh_type_nbytes(type), "fetch");
}

int pysh_request_check(const pysh_request_t *request) {
    int status;

    switch (pysh_request_op(request)) {
    case PYSH_OP_PUT:
    case PYSH_OP_GET:
    case PYSH_OP_SPREAD:
        return check_bytes(request);
    case PYSH_OP_PUT_SIGNAL:
        status = check_signal(request);
        return status ? status : check_bytes(request);
    case PYSH_OP_IPUT:
    case PYSH_OP_IGET:
        return check_blocks(request);
    case PYSH_OP_P:
    case PYSH_OP_G:
        return check_value(request);
    case PYSH_OP_AMO:
        return check_amo(request);
    case PYSH_OP_NULL: /* these name no memory */
    case PYSH_OP_PRINT:
    case PYSH_OP_ABORT:
    case PYSH_OP_CALL:
    case PYSH_OP_WAITING:
        return ISHMEMX_OK;
    default:
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel sent a request with the unknown operation %d",
                         pysh_request_op(request));
    }
}
