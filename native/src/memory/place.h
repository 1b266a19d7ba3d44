/* SPDX-License-Identifier: BSD-3-Clause
 * Places on this PE's arenas as other PEs name them: an arena by number, and an offset there. What they say is looked
 * at here by who carries it out, before anything moves: a wrong request of one PE must not end another. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/state.h"
#include "ishmemx.h"

/* What is wrong with it. The number travels back to who asked, who has the words: 0 is nothing. */
enum pysh_wrong {
    PYSH_RIGHT,
    PYSH_WRONG_KIND,
    PYSH_WRONG_HEAP,
    PYSH_WRONG_BLOCKS,
    PYSH_WRONG_STRIDE,
    PYSH_WRONG_RANGE,
    PYSH_WRONG_ATOMIC,
    PYSH_WRONG_ALIGNMENT,
    PYSH_WRONG_SIGNAL,
    PYSH_WRONG_PES,
    PYSH_WRONG_SYSTEM,
    PYSH_WRONG_COUNT
};

/* "it leaves the heap": behind the name of who refused; for any number. */
const char *pysh_wrong_text(int wrong);
/* Bytes of the own arena `heap` that anybody may name: of one that grows those it has memory for by now, not its
 * addresses. */
static inline uint64_t pysh_place_bytes(int heap) {
    const pysh_arena_t *arena = &pysh.arena[heap];

    return (uint64_t)(arena->grows ? atomic_load_explicit(&arena->mapped, memory_order_acquire) : arena->nbytes);
}
/* Of nbytes at `offset` of the own arena `heap`: HEAP, RANGE, SYSTEM or RIGHT. */
enum pysh_wrong pysh_place_wrong(int heap, uint64_t offset, size_t nbytes);
/* Of an atomic operation there: ATOMIC, HEAP, RANGE, SYSTEM, ALIGNMENT or RIGHT. */
enum pysh_wrong pysh_amo_wrong(int op, int type, int heap, uint64_t offset);
/* The status that another PE has told. Numbers that are none have meanings here, such as "not yet". */
static inline int pysh_status_told(uint32_t status) {
    return status <= ISHMEMX_ERR_LEFT ? (int)status : ISHMEMX_ERR_STATE;
}
