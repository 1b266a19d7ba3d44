/* SPDX-License-Identifier: BSD-3-Clause
 * Static and global variables of a C program as symmetric memory: one more arena, over the writable data of the
 * executable. See docs/decisions/0009-static-variables.md. Here: the pages of this process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PYSH_STATICS_AUTO, PYSH_STATICS_MAP, PYSH_STATICS_CONDUIT, PYSH_STATICS_NONE }; /* of PYSHMEM_STATICS */

typedef struct pysh_static_segment { /* of this process */
    bool wanted;                     /* C's shmem_init began the job */
    uint64_t layout;                 /* equal in processes of the same executable; 0: no such memory */
    char *pages;                     /* whole pages ... */
    size_t pages_nbytes;
    char *base; /* ... with the variables in them */
    size_t nbytes;
    int fd; /* the memory file behind the pages; -1: they are this process's own */
} pysh_static_segment_t;
extern pysh_static_segment_t pysh_static_segment;

/* First step of C's shmem_init: puts the variables on memory that the other PEs can map. What prevents it is no
 * failure: the PEs then choose another way in pysh_statics_open(). */
void pysh_statics_adopt(int n_pes, bool several_hosts);
