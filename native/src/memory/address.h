/* SPDX-License-Identifier: BSD-3-Clause
 * Where an address lies: on which heap or among the static variables. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Which heap [address, address + nbytes) of the calling PE lies in; ARGUMENT when in none, or when it
 * leaves the heap; `what` ("dest", "source", ...) goes into the message. */
int pysh_heap_find(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p);
/* The same, and it may lie in a block that is not allocated even in checking mode. */
int pysh_heap_locate(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p);
