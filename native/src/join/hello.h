/* SPDX-License-Identifier: BSD-3-Clause
 * What a PE says of itself when it joins, for the others to compare. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/process.h"
#include "ishmemx.h"

#define PYSH_HELLO_MAGIC 0x4d485350u /* "PSHM"; it and `version` keep their place in all versions */
#define PYSH_HELLO_PATH  256         /* a longer one loses its beginning */

/* "PYCTRL22": raised when the layout of node/control.h changes */
#define PYSH_CONTROL_MAGIC 0x33324c5254435950ULL
#define PYSH_MAX_PES       0x3ff /* of a host: a count of ten bits, see PYSH_ARRIVAL of node/control.h */

/* What a PE tells about itself. All but pe, process and path must agree. */
typedef struct pysh_hello {
    uint32_t magic;
    char version[60];
    int32_t pe, n_pes, accelerator;
    int64_t heap_bytes, device_heap_bytes;
    pysh_process_t process;
    char path[PYSH_HELLO_PATH]; /* of its library, for who is told that the versions differ */
} pysh_hello_t;

#define PYSH_HELLO_BYTES offsetof(pysh_hello_t, path) /* of what is compared */

/* `version` is the config's with the hash of the contract and the layout of the control segment behind it: two builds
 * of a version differ in these where they cannot meet. */
void pysh_hello_fill(const ishmemx_config_t *config, pysh_hello_t *hello_p);
/* Fails: `hello` is of another build than `first`, PE 0's; names both with their paths. */
int pysh_hello_mismatch(const pysh_hello_t *hello, const pysh_hello_t *first);
/* MISMATCH when it has another accelerator, or heaps of another size, than PE 0. */
int pysh_hello_heaps(const pysh_hello_t *hello, const pysh_hello_t *first);
