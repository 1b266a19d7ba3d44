/* SPDX-License-Identifier: BSD-3-Clause
 * What the rings have done, for reports and for ishmemx_proxy_stats(). Read while they are at it: figures of one call
 * may be a few requests apart. */
#include <stdint.h>
#include <stdio.h>

#include "far/far.h"
#include "host_proxy/proxy.h"
#include "host_proxy/rings.h"
#include "ishmemx.h"
#include "job/enter.h"

void pysh_proxy_describe(char *text, size_t capacity) {
    size_t used = 0;
    int n_rings;
    pysh_ring_t *rings = pysh_proxy_rings(&n_rings);

    text[0] = '\0';
    for (int k = 0; k < n_rings && used < capacity; k++) {
        pysh_ring_t *ring = &rings[k];
        unsigned long long served = ring->head, given_up = ring->given_up, flying = ring->in_flight;
        unsigned long long asked = pysh_ring_wanted(ring);
        unsigned long long acked = __atomic_load_n(&ring->control->acked, __ATOMIC_RELAXED);
        used += (size_t)snprintf(text + used, capacity - used,
                                 "%s"
                                 "ring %d: %llu requests served, %llu of them given up, %llu copies under way, "
                                 "quiet asked %llu, reached %llu",
                                 k ? "; " : "", k, served, given_up, flying, asked, acked);
    }
    if (used < capacity)
        pysh_far_describe(text + used, capacity - used);
}

static void add_up(int64_t *sum, const int64_t *of_ring) {
    *sum += __atomic_load_n(of_ring, __ATOMIC_RELAXED); /* pairs with pysh_ring_count(); orders nothing */
}

int ishmemx_proxy_stats(ishmemx_proxy_stats_t *stats) {
    int n_rings;
    pysh_ring_t *rings = pysh_proxy_rings(&n_rings);

    PYSH_ENTER();
    *stats = (ishmemx_proxy_stats_t){.rings = n_rings};
    for (int k = 0; k < n_rings; k++) {
        const ishmemx_proxy_stats_t *one = &rings[k].stats;
        for (int op = 0; op < ISHMEMX_RING_OPS; op++) {
            add_up(&stats->requests[op], &one->requests[op]);
            add_up(&stats->bytes[op], &one->bytes[op]);
            add_up(&stats->ns[op], &one->ns[op]);
        }
        add_up(&stats->credits, &one->credits);
        add_up(&stats->stalls, &one->stalls);
        add_up(&stats->quiets, &one->quiets);
    }
    pysh_far_figures(&stats->far_messages, &stats->far_bytes);
    return ISHMEMX_OK;
}
