/* SPDX-License-Identifier: BSD-3-Clause
 * Heaps of jobs that are over. A program may still look at arrays that it has not freed, be it to print
 * them in an error message: such a heap stays where it is until the last of them is dropped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*pysh_unmap_func_t)(void *base, size_t nbytes);

/* Unmaps [base, +nbytes) now, or after as many pysh_retired_release() as there are blocks in use. */
void pysh_retire(void *base, size_t nbytes, int64_t blocks, pysh_unmap_func_t unmap);
/* The caller will not use this block again; false: it is not of a job that is over. */
bool pysh_retired_release(const void *block);
