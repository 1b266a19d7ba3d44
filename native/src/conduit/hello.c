/* SPDX-License-Identifier: BSD-3-Clause
 * See hello.h. */
#include "conduit/hello.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ishmemx.h"

void pysh_hello_fill(const ishmemx_config_t *config, pysh_hello_t *hello_p) {
    struct stat namespace;

    memset(hello_p, 0, sizeof *hello_p);
    hello_p->magic = PYSH_HELLO_MAGIC;
    snprintf(hello_p->version, sizeof hello_p->version, "%s", config->version ? config->version : "unknown");
    hello_p->pe = config->pe;
    hello_p->n_pes = config->n_pes;
    hello_p->accelerator = config->accelerator;
    hello_p->pid = getpid();
    hello_p->heap_bytes = config->heap_bytes;
    hello_p->device_heap_bytes = config->device_heap_bytes;
    hello_p->pid_namespace = stat("/proc/self/ns/pid", &namespace) == 0 ? namespace.st_ino : 0;
}
