/* SPDX-License-Identifier: BSD-3-Clause
 * What the rings have done, for reports and for ishmemx_proxy_stats(). Read while they are at it: figures of one call
 * may be a few requests apart. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "am/am.h"
#include "host_proxy/proxy.h"
#include "host_proxy/rings.h"
#include "ishmemx.h"
#include "node/enter.h"

static const char *const awaited[] = {
    [PYSH_AWAITS_CREDIT] = "room for its request",
    [PYSH_AWAITS_CELL] = "the kernel that has not read the reply before its own",
    [PYSH_AWAITS_REPLY] = "its reply",
    [PYSH_AWAITS_COPY] = "the end of its copy",
    [PYSH_AWAITS_QUIET] = "the requests below it",
};

/* Not whether it was slow a moment ago, but whether what it waits for is still to come, as far as the host knows that.
 */
bool pysh_ring_waits(const pysh_ring_t *ring, pysh_ring_waiter_t *waiter) {
    uint64_t ticket, head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t tag;

    *waiter = pysh_ring_waiter(ring->control);
    ticket = waiter->ticket;
    switch (waiter->awaits) {
    case PYSH_AWAITS_CREDIT:
        return ticket >= __atomic_load_n(&ring->control->consumed, __ATOMIC_RELAXED) + ring->n &&
               pysh_ring_last_skipped(ring, ticket) <= ticket;
    case PYSH_AWAITS_CELL: /* its request is behind that wait */
        return ticket >= head && pysh_ring_last_skipped(ring, ticket) <= ticket;
    case PYSH_AWAITS_REPLY: /* a later tag: it has been read */
        tag = __atomic_load_n(&ring->control->cell[ticket & ring->mask].tag, __ATOMIC_RELAXED);
        return (int32_t)(tag - (uint32_t)(ticket + 1)) < 0;
    case PYSH_AWAITS_COPY:
        return ticket >= head || atomic_load_explicit(&ring->in_flight, memory_order_relaxed);
    case PYSH_AWAITS_QUIET:
        return __atomic_load_n(&ring->control->acked, __ATOMIC_RELAXED) < ticket;
    default:
        return false;
    }
}

void pysh_ring_waiter_describe(const pysh_ring_t *ring, const pysh_ring_waiter_t *waiter, char *text, size_t capacity) {
    bool handler = atomic_load_explicit(&ring->calls, memory_order_relaxed) == PYSH_RING_CALLS;
    char place[48] = "a kernel";

    if (waiter->block >= 0)
        snprintf(place, sizeof place, "block %lld, thread %d", (long long)waiter->block, waiter->thread);
    snprintf(text, capacity, "%s (ticket %llu) waits for %s%s", place, (unsigned long long)waiter->ticket,
             awaited[waiter->awaits], handler ? "; a handler of the program is running" : "");
}

/* A ring that no kernel has used yet says nothing. */
static bool is_idle(pysh_ring_t *ring, unsigned long long asked) {
    pysh_ring_waiter_t waiter;

    return !ring->head && !ring->in_flight && !asked && !pysh_ring_waits(ring, &waiter);
}

void pysh_proxy_describe_used(char *text, size_t capacity) {
    int n_rings;
    pysh_ring_t *rings = pysh_proxy_rings(&n_rings);
    bool used = false;

    for (int k = 0; k < n_rings; k++)
        used |= !is_idle(&rings[k], pysh_ring_wanted(&rings[k]));
    text[0] = '\0';
    if (used)
        pysh_proxy_describe(text, capacity);
    else
        pysh_am_describe(text, capacity);
}

void pysh_proxy_describe(char *text, size_t capacity) {
    pysh_ring_waiter_t waiter;
    char who[224];
    size_t used = 0;
    int n_rings;
    pysh_ring_t *rings = pysh_proxy_rings(&n_rings);

    text[0] = '\0';
    for (int k = 0; k < n_rings && used < capacity; k++) {
        pysh_ring_t *ring = &rings[k];
        unsigned long long served = ring->head, given_up = ring->given_up, flying = ring->in_flight;
        unsigned long long asked = pysh_ring_wanted(ring);
        unsigned long long acked = __atomic_load_n(&ring->control->acked, __ATOMIC_RELAXED);
        bool waits = pysh_ring_waits(ring, &waiter);

        if (!given_up && !flying && !asked && !waits)
            continue; /* what it has served is the news of waits, or over */
        used += (size_t)snprintf(text + used, capacity - used,
                                 "%s"
                                 "ring %d: %llu requests served, %llu of them given up, %llu copies under way, "
                                 "quiet asked %llu, reached %llu",
                                 used ? "; " : "", k, served, given_up, flying, asked, acked);
        if (used < capacity && waits) {
            pysh_ring_waiter_describe(ring, &waiter, who, sizeof who);
            used += (size_t)snprintf(text + used, capacity - used, ", %s", who);
        }
    }
    if (used < capacity)
        pysh_am_describe(text + used, capacity - used);
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
    pysh_am_figures(&stats->far_messages, &stats->far_bytes);
    return ISHMEMX_OK;
}
