/* SPDX-License-Identifier: BSD-3-Clause
 * What wait_until and test, of one word and of sets, share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/wait.h"

/* An atomic load with acquire from the caller's own copy, on either heap. */
int pysh_load_own(int type, const void *address, const char *what, uint64_t *bits_p);
/* OK, or what is wrong with waiting for [ivar, +nbytes); *heap_p is where it lies. */
int pysh_wait_check(int type, const void *ivar, size_t nbytes, int cmp, const char *what, int *heap_p);
/* A relaxed load of nbytes, 4 or 8; whoever acts on it adds an acquire fence. */
int pysh_wait_load(int heap, const void *address, size_t nbytes, uint64_t *bits_p);
/* A value as reports have it. */
typedef struct pysh_number {
    char text[24];
} pysh_number_t;
pysh_number_t pysh_wait_number(int type, uint64_t bits);
bool pysh_wait_holds(int type, uint64_t seen, int cmp, uint64_t value);
/* Of a wait for one value that a word has passed, as counters do, what is to be told; else "". */
const char *pysh_wait_hint(int type, uint64_t seen, int cmp, uint64_t value);
