/* SPDX-License-Identifier: BSD-3-Clause
 * Static and global variables of a C program as symmetric memory: one more arena, over the writable data of the
 * executable. See docs/decisions/0009-static-variables.md. */
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

/* ---- static_segment.c ---- */
/* First step of C's shmem_init: puts the variables on memory that the other PEs can map. What prevents it is no
 * failure: the PEs then choose another way in pysh_statics_open(). */
void pysh_statics_adopt(int n_pes);

/* ---- static_share.c ---- */
/* Collective, once the host arena is there: opens the arena PYSH_STATICS, or leaves it closed. */
int pysh_statics_open(void);
void pysh_statics_close(void);
/* Why `address` is not symmetric, for a message; "" when it is no static variable at all. */
const char *pysh_statics_why_not(const void *address);
typedef struct pysh_static_peer {
    pid_t pid;
    uintptr_t base; /* of its variables, in its own addresses */
    uintptr_t sign; /* where it keeps `value`, to be known by */
    uint64_t value;
} pysh_static_peer_t;
extern pysh_static_peer_t *pysh_static_peers; /* [n_pes] while the arena is open */

/* ---- static_copy.c: by copies that the kernel makes between processes; see pysh_conduit_t ---- */
int pysh_static_put(int arena, int64_t dest, const void *source, size_t nbytes, int pe);
int pysh_static_get(int arena, void *dest, int64_t source, size_t nbytes, int pe);
int pysh_static_amo(int arena, int op, int type, int64_t dest, uint64_t value, uint64_t cond, int pe,
                    uint64_t *fetched_p);
bool pysh_static_reaches(const void *address, size_t nbytes, int pe);
