/* SPDX-License-Identifier: BSD-3-Clause
 * Blocks that their owners dropped. A PE's garbage collector releases when it likes; the block is freed
 * in a collective call, once every PE has released it. */
#include "memory/release.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agree/agree.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/allocator.h"
#include "memory/heap.h"
#include "memory/retired.h"
#include "memory/usage.h"
#include "node/node.h"

typedef struct released {
    uint64_t ordinal;
    int heap;
    int64_t offset;
} released_t;

/* Guarded by pysh_heaps.mutex; sorted by ordinal. */
static released_t *released;
static size_t n_released, capacity;
static _Atomic size_t pending; /* n_released, for those without the mutex */
static bool all_pending;       /* as of the last pysh_heap_barrier */

/* What a PE tells in an agreement: its lowest released ordinals above those dealt with. */
#define PER_ROUND   (PYSH_EXCHANGE_BYTES / sizeof(uint64_t) - 2)
#define FIRST_ROUND 14 /* of them in the first round: mostly there are no more */
typedef struct offer {
    uint64_t n, more; /* more: it has further ones */
    uint64_t ordinal[PER_ROUND];
} offer_t;

/* An agreement that was ended in one of its rounds, by a handler or a deadline. The next goes on there, with the same
 * offer: the others wait in that round, and only the same call comes here then, as teams/resume.h sees to. */
static struct {
    bool ended;
    uint64_t done; /* ordinals, by the rounds before */
    size_t most, freed;
    offer_t mine;
} last;

static size_t first_above(uint64_t ordinal) {
    size_t low = 0, high = n_released;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (released[middle].ordinal <= ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void set_count(size_t count) {
    n_released = count;
    atomic_store_explicit(&pending, count, memory_order_relaxed);
}

bool pysh_release_has(uint64_t ordinal) {
    size_t above = first_above(ordinal);
    return above > 0 && released[above - 1].ordinal == ordinal;
}

int64_t pysh_release_count(int heap) {
    int64_t count = 0;

    for (size_t i = 0; i < n_released; i++)
        count += released[i].heap == heap;
    return count;
}

void pysh_release_forget(void) {
    free(released);
    released = NULL;
    capacity = 0;
    set_count(0);
    all_pending = false;
    last.ended = false;
}

bool pysh_release_pending(void) {
    return atomic_load_explicit(&pending, memory_order_relaxed) > 0;
}

int ishmemx_release(void *block) {
    pysh_block_t found;
    size_t at;
    int heap, status;

    if (pysh_retired_release(block))
        return ISHMEMX_OK;
    /* Not pysh_enter(): a fault or an abort is no reason to keep the block. */
    if (!pysh.ready)
        return pysh_fail(ISHMEMX_ERR_STATE, "release: the heaps are gone, pyshmem is not initialised");
    if (!block)
        return ISHMEMX_OK;
    if ((status = pysh_heap_block(block, "release", &heap, &found)))
        return status;
    pthread_mutex_lock(&pysh_heaps.mutex);
    if (n_released == capacity) {
        size_t wanted = capacity ? 2 * capacity : 64;
        released_t *grown = realloc(released, wanted * sizeof *grown);
        if (!grown) {
            pthread_mutex_unlock(&pysh_heaps.mutex);
            return pysh_fail(ISHMEMX_ERR_MEMORY, "release: no memory to note %zu blocks", wanted);
        }
        released = grown;
        capacity = wanted;
    }
    if (!pysh_release_has(found.ordinal)) { /* another thread may have come first */
        at = first_above(found.ordinal);
        memmove(released + at + 1, released + at, (n_released - at) * sizeof *released);
        released[at] = (released_t){.ordinal = found.ordinal, .heap = heap, .offset = found.offset};
        set_count(n_released + 1);
    }
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return ISHMEMX_OK;
}

/* ---- agreement ---- */

static size_t offer_nbytes(size_t most) {
    return offsetof(offer_t, ordinal) + most * sizeof(uint64_t);
}

static void offer_fill(offer_t *offer, uint64_t done, size_t most) {
    size_t first, n;

    memset(offer, 0, offer_nbytes(most));
    pthread_mutex_lock(&pysh_heaps.mutex);
    first = first_above(done);
    n = n_released - first;
    offer->more = n > most;
    offer->n = offer->more ? most : n;
    for (size_t i = 0; i < offer->n; i++)
        offer->ordinal[i] = released[first + i].ordinal;
    pthread_mutex_unlock(&pysh_heaps.mutex);
}

static bool offered(const offer_t *offer, uint64_t ordinal) {
    for (size_t low = 0, high = offer->n; low < high;) {
        size_t middle = (low + high) / 2;
        if (offer->ordinal[middle] == ordinal)
            return true;
        if (offer->ordinal[middle] < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static void free_released(uint64_t ordinal) {
    size_t at;
    released_t gone;

    pthread_mutex_lock(&pysh_heaps.mutex);
    at = first_above(ordinal) - 1;
    gone = released[at];
    memmove(released + at, released + at + 1, (n_released - at - 1) * sizeof *released);
    set_count(n_released - 1);
    pthread_mutex_unlock(&pysh_heaps.mutex);
    pysh_heap_give(gone.heap, gone.offset);
}

/* What `pe` told in a round of so many ordinals. */
static const offer_t *offer_of(int pe, size_t most) {
    return (const offer_t *)(const void *)((const char *)pysh_heaps.gathered + (size_t)pe * offer_nbytes(most));
}

int pysh_release_agree(const char *what, size_t *freed_p) {
    uint64_t done = last.ended ? last.done : 0;
    size_t most = last.ended ? last.most : FIRST_ROUND;
    offer_t *mine = &last.mine; /* the team of all PEs is claimed: one thread is here */
    int status;

    *freed_p = last.ended ? last.freed : 0;
    for (; done != UINT64_MAX; most = PER_ROUND) {
        uint64_t bound = UINT64_MAX; /* beyond it some PE has not told all */

        if (!last.ended)
            offer_fill(mine, done, most);
        last.ended = false;
        if ((status = pysh.agree->exchange(what, mine, pysh_heaps.gathered, offer_nbytes(most)))) {
            last.ended = status == ISHMEMX_ERR_INTERRUPTED || status == ISHMEMX_ERR_TIMEOUT;
            last.done = done;
            last.most = most;
            last.freed = *freed_p;
            return status;
        }
        for (int pe = 0; pe < pysh.n_pes; pe++)
            if (offer_of(pe, most)->more && offer_of(pe, most)->ordinal[most - 1] < bound)
                bound = offer_of(pe, most)->ordinal[most - 1];
        for (size_t i = 0; i < mine->n && mine->ordinal[i] <= bound; i++) {
            bool everywhere = true;
            for (int pe = 0; pe < pysh.n_pes && everywhere; pe++)
                everywhere = offered(offer_of(pe, most), mine->ordinal[i]);
            if (everywhere) {
                free_released(mine->ordinal[i]);
                ++*freed_p;
            }
        }
        done = bound;
    }
    pysh_usage_update();
    return ISHMEMX_OK;
}

int pysh_heap_barrier(const char *what) {
    return pysh.agree->barrier(what, pysh_release_pending(), &all_pending);
}

int pysh_heap_drain_if_pending(void) {
    size_t freed;
    int status;

    if (!all_pending)
        return ISHMEMX_OK;
    status = pysh_release_agree("drain", &freed);
    all_pending = last.ended;
    return status;
}
