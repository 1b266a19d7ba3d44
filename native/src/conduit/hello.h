/* SPDX-License-Identifier: BSD-3-Clause
 * What a PE says of itself when it joins, for the others to compare. */
#pragma once

#include <stdint.h>

#include "ishmemx.h"

#define PYSH_HELLO_MAGIC 0x4d485350u /* "PSHM"; it and `version` keep their place in all versions */

/* What a PE tells about itself. All but pe, pid and pid_namespace must agree. */
typedef struct pysh_hello {
    uint32_t magic;
    char version[60];
    int32_t pe, n_pes, accelerator, pid;
    int64_t heap_bytes, device_heap_bytes;
    uint64_t pid_namespace;
} pysh_hello_t;

void pysh_hello_fill(const ishmemx_config_t *config, pysh_hello_t *hello_p);
