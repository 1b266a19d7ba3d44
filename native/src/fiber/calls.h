/* SPDX-License-Identifier: BSD-3-Clause
 * Which routine of its warp's or block's a thread is in, and what is told of threads that do not do the same. */
#pragma once

#include <string.h>

#include "fiber/fiber.h"

/* The name of the routine that a thread has called, which its group meets in now. */
static inline const char *pysh_call_of(const fiber_t *fiber) {
    return fiber->seen.call ? (const char *)(uintptr_t)fiber->seen.call : "a routine of pyshmem.device\0";
}

/* A routine has a name for each of the types that it is compiled for; NULL is the program's own barrier. */
static inline bool pysh_is_same_call(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

/* Do two threads give the routine that both are in different numbers? What one of them has left out is no difference.
 */
static inline bool pysh_gives_other(const fiber_t *a, const fiber_t *b) {
    uint64_t differ = 0;

    if (!a->seen.call || !b->seen.call)
        return false;
    for (int i = 0; i < ISHMEMX_CPU_NUMBERS; i++)
        differ |= (uint64_t)(a->seen.given[i] ^ b->seen.given[i]);
    if (!differ)
        return false;
    for (int i = 0; i < ISHMEMX_CPU_NUMBERS; i++)
        if (a->seen.given[i] != b->seen.given[i] && a->seen.given[i] != INT64_MIN && b->seen.given[i] != INT64_MIN)
            return true;
    return false;
}

/* Ends the launch: threads of a block, or of a warp of it (-1: none), are not all in a routine that is for all. */
void pysh_refuse(const block_t *block, int warp);
/* The same: these two give it different numbers. */
void pysh_refuse_given(const block_t *block, int warp, const fiber_t *a, const fiber_t *b);
void pysh_block_tell(const block_t *block, char *text, size_t capacity); /* who waits where */
