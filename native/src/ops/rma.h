/* SPDX-License-Identifier: BSD-3-Clause
 * Put and get to a world PE that has been checked, and what all operations ask of their arguments. */
#pragma once

#include <stddef.h>

#include "ishmemx.h"

/* Where the caller can reach [address, +nbytes) of `pe`: `peer_p` is NULL when only the transport can. The address is a
 * program's. */
int pysh_peer_address(const void *address, size_t nbytes, int pe, const char *what, char **peer_p, int *heap_p);
/* The world PE of PE `pe` of a context; ARGUMENT for an invalid context or PE. */
int pysh_ctx_pe(ishmemx_ctx_t ctx, int pe, int *world_p);
/* Blocking put and get to a world PE that has been checked. */
int pysh_put(void *dest, const void *source, size_t nbytes, int pe);
int pysh_get(void *dest, const void *source, size_t nbytes, int pe);
/* The same with an address of the library's own, which may be in the system region: see memory/address.h. */
int pysh_own_peer_address(const void *address, size_t nbytes, int pe, const char *what, char **peer_p, int *heap_p);
int pysh_own_put(void *dest, const void *source, size_t nbytes, int pe);
int pysh_own_get(void *dest, const void *source, size_t nbytes, int pe);
/* Strided and block-strided; strides in elements of `width` bytes. */
int pysh_iput(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t block,
              size_t n_blocks, size_t width, int pe);
int pysh_iget(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride, size_t block,
              size_t n_blocks, size_t width, int pe);
