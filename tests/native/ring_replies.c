/* SPDX-License-Identifier: BSD-3-Clause
 * Many senders on a ring that wraps around all the time: everybody gets the reply to his own request, and a quiet
 * completes what was told before it. Arguments: senders, requests of each. */
#include "kernel.h"

enum { WORDS = 64, SENDERS = 64, CALLS_PER_QUIET = 16 };

static uint64_t *cells, *blocks; /* on the device heap: a counter of each sender and the common one; a block of each */
static int mixer, n_requests;
static _Atomic uint64_t old_sum;

static int64_t mix(int64_t a, int64_t b, int64_t c, int64_t d) {
    return a * 1000003 + b + c + d;
}

static uint64_t copied_block(int me, int turn) {
    uint64_t *block = &blocks[(size_t)me * WORDS], source[WORDS];

    for (int i = 0; i < WORDS; i++)
        source[i] = (uint64_t)(me * 1000000 + turn * 100 + i);
    ask(put_of(block, source, sizeof source, PYSH_REQUEST_DONE));
    return !memcmp(block, source, sizeof source);
}

static void *sender(void *argument) {
    int me = (int)(intptr_t)argument;
    uint64_t told = 0;
    pysh_request_t request;

    for (int i = 0; i < n_requests; i++) {
        switch ((i + me) % 5) {
        case 0:
            CHECK(ask(call_of(mixer, me, i)) == (uint64_t)mix(me, i, 0, 0));
            break;
        case 1:
            atomic_fetch_add(&old_sum, ask(add_of(&cells[SENDERS], 1)));
            break;
        case 2:
            CHECK(copied_block(me, i));
            break;
        default:
            request = add_of(&cells[me], 1);
            tell(&request);
            told++;
        }
        if (i % CALLS_PER_QUIET)
            continue;
        quiet();
        CHECK(__atomic_load_n(&cells[me], __ATOMIC_ACQUIRE) == told);
    }
    quiet();
    CHECK(__atomic_load_n(&cells[me], __ATOMIC_ACQUIRE) == told);
    return NULL;
}

/* After 65,536 tickets without a reply the tag in the cell is that of a reply now due, but for its upper half. */
static void tags_are_longer_than_16_bits(void) {
    pysh_request_t nothing = request_of(PYSH_OP_NULL, 0, 0, 0, 0);
    uint64_t first = look(&kernel.device->ticket), next;
    uint32_t tag;

    ask(nothing);
    while ((next = look(&kernel.device->ticket)) < first + 65536)
        tell(&nothing);
    tag = kernel.control->cell[next & (kernel.n - 1)].tag;
    CHECK((uint16_t)tag == (uint16_t)(next + 1) && tag != (uint32_t)(next + 1));
    CHECK(ask(call_of(mixer, 7, 7)) == (uint64_t)mix(7, 7, 0, 0));
}

int main(int argc, char **argv) {
    int n_senders = count_of(argc, argv, 1, 16);
    ishmemx_proxy_stats_t stats;
    uint64_t n;

    n_requests = count_of(argc, argv, 2, 2000);
    kernel_begin();
    CHECK(n_senders <= SENDERS);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, (SENDERS + 1) * sizeof *cells, 0, 1, (void **)&cells));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, SENDERS * WORDS * sizeof *blocks, 0, 1, (void **)&blocks));
    MUST(ishmemx_register_handler(mix, &mixer));
    on_threads(n_senders, sender);
    n = cells[SENDERS];
    CHECK(n > 0 && old_sum == n * (n - 1) / 2); /* 0 .. n-1, each once */
    tags_are_longer_than_16_bits();
    MUST(ishmemx_quiet(&ishmemx_ctx_default));
    MUST(ishmemx_proxy_stats(&stats));
    CHECK(stats.requests[PYSH_OP_AMO] > (int64_t)n && stats.quiets > 0);
    CHECK(stats.bytes[PYSH_OP_PUT] == stats.requests[PYSH_OP_PUT] * WORDS * (int64_t)sizeof *blocks);
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
