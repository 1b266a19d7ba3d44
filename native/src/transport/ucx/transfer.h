/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of the transport's table that reach PEs on other hosts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int pysh_ucx_put(int heap, int64_t dest, const void *source, size_t nbytes, int pe, bool nbi);
int pysh_ucx_get(int heap, void *dest, int64_t source, size_t nbytes, int pe, bool nbi);
int pysh_ucx_amo(int heap, int op, int type, int64_t dest, uint64_t value, uint64_t cond, int pe, uint64_t *fetched_p);
void pysh_ucx_raise(int64_t dest, uint64_t value, int pe);
void pysh_ucx_post(int64_t dest, const void *source, size_t nbytes, int pe, bool behind);
int pysh_ucx_flush(void);
bool pysh_ucx_outstanding(void);
/* At the end of a job: what nobody has waited for. */
void pysh_ucx_forget(void);
