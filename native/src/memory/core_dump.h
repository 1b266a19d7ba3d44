/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <stddef.h>

/* Keeps an arena out of core dumps, unless the user wants it there: a PE that aborts would write out every heap that
 * it maps. */
void pysh_arena_no_dump(void *base, size_t nbytes);
