/* SPDX-License-Identifier: BSD-3-Clause
 * Memory without a name that processes share by its descriptor. */
#pragma once

#include <stddef.h>

/* An empty file of memory, closed on exec; -1 with the reason as the last error. The caller closes it. */
int pysh_memory_file(const char *name);

/* Gives the file its size; -1 and errno if that cannot be. */
int pysh_memory_file_size(int fd, size_t nbytes);

/* What ``why``, an errno of the call above, means, for a message. */
const char *pysh_memory_file_reason(int why);

/* What to do about too few open files, with this process's limit. The text stays until the next call. */
const char *pysh_open_files_advice(void);
