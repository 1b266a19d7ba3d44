/* SPDX-License-Identifier: BSD-3-Clause
 * Put and get to peers that are not mapped, see pysh_transport_t. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int pysh_os_put(int heap, int64_t dest, const void *source, size_t nbytes, int pe, bool nbi);
int pysh_os_get(int heap, void *dest, int64_t source, size_t nbytes, int pe, bool nbi);
void pysh_os_raise(int64_t dest, uint64_t value, int pe);
void pysh_os_post(int64_t dest, const void *source, size_t nbytes, int pe, bool behind);
bool pysh_os_reaches(const void *address, size_t nbytes, int pe);
int pysh_os_flush(void);
bool pysh_os_outstanding(void);
