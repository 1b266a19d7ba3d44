/* SPDX-License-Identifier: BSD-3-Clause
 * How a routine fails: a status, and the text of the last failure of the thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int pysh_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "1.5 GiB": bytes for messages; the text lives in a ring of thread-local buffers. */
const char *pysh_bytes_text(int64_t nbytes);

/* OK, or ARGUMENT naming the team's size. */
int pysh_check_pe(int pe, int n_pes);
/* The same of an argument of another name. */
int pysh_check_pe_as(const char *name, int pe, int n_pes);
/* OK, or ARGUMENT when n blocks span more than any memory holds: pysh_extent() of extent.h. */
int pysh_check_extent(size_t n, size_t stride, size_t block, size_t width, size_t *nbytes_p);
/* OK, or ARGUMENT when the two ranges share a byte. */
int pysh_check_overlap(const void *dest, size_t dest_bytes, const void *source, size_t source_bytes);
/* The same. `name`: of the other array; `width`: bytes of an element, 0: not known; `in_place`: where dest may be. */
int pysh_check_overlap_of(const void *dest, size_t dest_bytes, const char *name, const void *source,
                          size_t source_bytes, size_t width, const char *in_place);
/* Has a call with this status ended before it was done: by a handler, or a deadline? */
bool pysh_is_unfinished(int status);
