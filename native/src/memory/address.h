/* SPDX-License-Identifier: BSD-3-Clause
 * Where an address lies: on which heap or among the static variables. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Which heap [address, address + nbytes) of the calling PE lies in, for an address that a program gives; ARGUMENT when
 * in none, when it leaves the heap, or begins in the system region, which is the library's. In checking mode it must
 * stay inside of a block. `what` ("dest", "source", ...) goes into the message. */
int pysh_heap_find(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p);
/* The same for the library's own calls, those of kernels' collectives among them, which may be in the system region. */
int pysh_own_heap_find(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p);
/* The same, and it may lie in a block that is not allocated even in checking mode. */
int pysh_heap_locate(const void *address, size_t nbytes, const char *what, int *heap_p, int64_t *offset_p);
