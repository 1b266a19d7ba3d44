/* SPDX-License-Identifier: BSD-3-Clause
 * Static variables of other PEs by copies that the kernel makes between processes; see pysh_transport_t. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int pysh_static_put(int arena, int64_t dest, const void *source, size_t nbytes, int pe, bool nbi);
int pysh_static_get(int arena, void *dest, int64_t source, size_t nbytes, int pe, bool nbi);
int pysh_static_amo(int arena, int op, int type, int64_t dest, uint64_t value, uint64_t cond, int pe,
                    uint64_t *fetched_p);
bool pysh_static_reaches(const void *address, size_t nbytes, int pe);

/* nbytes from or to another process of this user, by the kernel; false with errno: it does not let us, or the process
 * has no such memory. */
bool pysh_copy_to_process(pid_t pid, const void *own, uintptr_t there, size_t nbytes);
bool pysh_copy_from_process(pid_t pid, void *own, uintptr_t there, size_t nbytes);
/* Does the kernel copy from and to it, and is it the process that has `value` at `sign`? Its number may mean another
 * process in another name space. */
bool pysh_process_is(pid_t pid, uintptr_t sign, uint64_t value);
