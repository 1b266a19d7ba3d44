/* SPDX-License-Identifier: BSD-3-Clause
 * Static variables of other PEs by copies that the kernel makes between processes; see pysh_transport_t. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int pysh_static_put(int arena, int64_t dest, const void *source, size_t nbytes, int pe, bool nbi);
int pysh_static_get(int arena, void *dest, int64_t source, size_t nbytes, int pe, bool nbi);
int pysh_static_amo(int arena, int op, int type, int64_t dest, uint64_t value, uint64_t cond, int pe,
                    uint64_t *fetched_p);
bool pysh_static_reaches(const void *address, size_t nbytes, int pe);
