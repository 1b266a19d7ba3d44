/* SPDX-License-Identifier: BSD-3-Clause
 * For programs that send wrong requests and messages among right ones, with the library's own parts linked in: random
 * numbers that a seed repeats, a model of the memory that right ones change, and sums that do not wrap. */
#pragma once

#include "base/elements.h"
#include "base/state.h"
#include "kernel.h"
#include "memory/system_region.h"

typedef unsigned __int128 wide_t;

static uint64_t seed_now;

static inline uint64_t draw(void) { /* xorshift64* */
    seed_now ^= seed_now >> 12;
    seed_now ^= seed_now << 25;
    seed_now ^= seed_now >> 27;
    return seed_now * 0x2545f4914f6cdd1dULL;
}

static inline uint64_t below(uint64_t n) {
    return draw() % n;
}

/* Memory of PE 1's that PE 0's right operations change, or of PE 0's own, and what has to stand there. */
enum { REGION_BYTES = 2048 };
typedef struct region {
    char *base;
    unsigned char model[REGION_BYTES];
} region_t;

enum { THERE_DEVICE, THERE_HOST, THERE_COUNT };
enum { HERE_DEVICE, HERE_HOST, HERE_PRIVATE, HERE_COUNT };
static region_t there[THERE_COUNT], here[HERE_COUNT];

static inline bool in_region(const region_t *region, wide_t place, wide_t nbytes) {
    wide_t base = (uintptr_t)region->base;

    return place >= base && place + nbytes <= base + REGION_BYTES;
}

/* The one of n regions that has all of it, or NULL. */
static inline region_t *region_of(region_t *region, int n, wide_t place, wide_t nbytes) {
    for (int i = 0; i < n; i++)
        if (in_region(&region[i], place, nbytes))
            return &region[i];
    return NULL;
}

static inline unsigned char *model_at(region_t *region, wide_t place) {
    return region->model + (size_t)(place - (uintptr_t)region->base);
}

static inline void regions_make(void) {
    static _Alignas(64) char private[REGION_BYTES];

    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, REGION_BYTES, 64, 1, (void **)&there[THERE_DEVICE].base));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_HOST, REGION_BYTES, 64, 1, (void **)&there[THERE_HOST].base));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, REGION_BYTES, 64, 1, (void **)&here[HERE_DEVICE].base));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_HOST, REGION_BYTES, 64, 1, (void **)&here[HERE_HOST].base));
    here[HERE_PRIVATE].base = private;
}

/* By PE 0: the memory is what the right operations alone have made of it. */
static inline void regions_check(const char *when) {
    static unsigned char seen[REGION_BYTES];

    for (int i = 0; i < THERE_COUNT; i++) {
        MUST(ishmemx_get(&ishmemx_ctx_default, seen, there[i].base, REGION_BYTES, 1));
        if (memcmp(seen, there[i].model, REGION_BYTES))
            fail("%s: memory %d of PE 1 is not what right operations have made of it", when, i);
    }
    for (int i = 0; i < HERE_COUNT; i++)
        if (memcmp(here[i].base, here[i].model, REGION_BYTES))
            fail("%s: memory %d of PE 0 is not what right operations have made of it", when, i);
}

/* In the first bytes of a heap, the library's own, of which others may name only where kernels' collectives meet? */
static inline bool is_kept(int heap, wide_t offset, wide_t nbytes) {
    wide_t system = (wide_t)pysh.arena[heap].system, tables = (wide_t)pysh.arena[heap].tables;

    if (tables && offset + nbytes <= PYSH_SYNC_EPOCH)
        return false;
    return heap < ISHMEMX_HEAP_COUNT && offset < system &&
           (offset < tables || offset + nbytes > (wide_t)pysh.arena[heap].tables_end);
}

/* Is all of it on one heap, and may others name it? */
static inline bool on_heap(wide_t place, wide_t nbytes) {
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++) {
        wide_t base = (uintptr_t)pysh.arena[heap].base, end = base + (wide_t)pysh.arena[heap].nbytes;
        if (place >= base && place < end)
            return place + nbytes <= end && !is_kept(heap, place - base, nbytes);
    }
    return false;
}

/* Numbers at the edges of what is right. */
static inline uint64_t edge(uint64_t old) {
    int heap = (int)below(ISHMEMX_HEAP_COUNT);
    uint64_t base = (uintptr_t)pysh.arena[heap].base, end = base + (uint64_t)pysh.arena[heap].nbytes;

    switch (below(14)) {
    case 0:
        return below(20);
    case 1:
        return -below(300);
    case 2:
        return 1ULL << below(64);
    case 3:
        return (1ULL << below(64)) - 1;
    case 4:
        return old ^ 1ULL << below(64);
    case 5:
        return old + below(64) - 32;
    case 6:
        return base + below(2) - below(40);
    case 7:
        return end + below(2) - below(40);
    case 8:
        return -old;
    case 9:
        return old << below(32);
    case 10:
        return (1ULL << 63) / (1 + below(64));
    case 11:
        return base + below((uint64_t)pysh.arena[heap].system + 64) / 8 * 8;
    case 12:
        return below((uint64_t)pysh.arena[heap].system + 64) / 8 * 8;
    default:
        return draw();
    }
}

/* The arithmetic of atomics on 4 and 8 bytes of integers, as the model does it; the old value. */
static inline uint64_t model_amo(unsigned char *place, int op, size_t width, uint64_t value, uint64_t cond) {
    uint64_t mask = width == 8 ? UINT64_MAX : UINT32_MAX, old = 0, new;

    memcpy(&old, place, width);
    new = op == ISHMEMX_ATOMIC_ADD                                   ? old + value
          : op == ISHMEMX_ATOMIC_SET || op == ISHMEMX_ATOMIC_SWAP    ? value
          : op == ISHMEMX_ATOMIC_AND                                 ? old &value
          : op == ISHMEMX_ATOMIC_OR                                  ? old | value
          : op == ISHMEMX_ATOMIC_XOR                                 ? old ^ value
          : op == ISHMEMX_ATOMIC_COMPARE_SWAP &&old == (cond & mask) ? value
                                                                     : old;
    memcpy(place, &new, width);
    return old;
}

static inline void begin(int argc, char **argv, uint64_t *n_p) {
    ishmemx_config_t config;

    MUST(ishmemx_config_from_environment(&config));
    if (argc != 3)
        fail("how many, and a seed");
    *n_p = strtoull(argv[1], NULL, 0);
    seed_now = strtoull(argv[2], NULL, 0);
    if (!config.pe)
        printf("seed %llu\n", (unsigned long long)seed_now);
    kernel_begin();
    regions_make();
    MUST(ishmemx_barrier_all());
}

static inline int end(uint64_t wrong, uint64_t right) {
    ishmemx_fault_t fault;

    MUST(ishmemx_fault_take(&fault));
    MUST(ishmemx_barrier_all()); /* PE 1 is here all the time, and lives */
    if (!pysh.pe)
        printf("%llu wrong, %llu right: ok\n", (unsigned long long)wrong, (unsigned long long)right);
    MUST(ishmemx_finalize());
    return 0;
}
