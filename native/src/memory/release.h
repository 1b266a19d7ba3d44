/* SPDX-License-Identifier: BSD-3-Clause
 * Blocks that their owners dropped. has, count and forget with the mutex of pysh_heaps held. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool pysh_release_has(uint64_t ordinal);
int64_t pysh_release_count(int heap);
void pysh_release_forget(void);
bool pysh_release_pending(void);
/* Collective: frees what every PE has released, in the order of allocation. */
int pysh_release_agree(const char *what, size_t *freed_p);
/* The barrier of the world team: agree->barrier that also tells the others whether this PE has
 * released blocks. */
int pysh_heap_barrier(const char *what);
/* Collective, right after pysh_heap_barrier: frees the blocks that every PE released. Costs nothing
 * unless every PE had something released when it entered that barrier. */
int pysh_heap_drain_if_pending(void);
