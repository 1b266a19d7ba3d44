/* SPDX-License-Identifier: BSD-3-Clause
 * The PEs of one host: how they meet, the segment that they share, and their arenas, which each maps. All PEs of a job
 * on one host, and those of each host of a job on several. PE numbers are the job's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"
#include "node/control.h"

typedef struct pysh_host {
    int pe;         /* the caller */
    const int *pes; /* [n] of this host, in order; NULL: all of the job are */
    int n;
    pysh_control_t *control;   /* slots of all PEs of the job, of which those of this host are in use; NULL: not open */
    pysh_control_slot_t *slot; /* own */
} pysh_host_t;
extern pysh_host_t pysh_host;

/* Meets the n PEs, of which the caller is the one at `index`; collective among them. `pes` is the caller's until close.
 */
int pysh_host_open(const ishmemx_config_t *config, const int *pes, int n, int index);
/* Fills in pysh_node what is of the host, and watches its processes. */
int pysh_host_watch(void);
/* PEER with the reason once a PE of this host died or the job is being aborted. */
int pysh_host_liveness(void);
/* Of a transport's table. */
void pysh_host_leave(void);
void pysh_host_close(const int64_t *blocks);
void pysh_host_give_back(void *base, size_t nbytes);
int pysh_host_arena(int heap, int64_t nbytes, char **base_p, char **peer);
int pysh_host_arena_file(int heap, int64_t *stride_p);
/* In place of close, where the job has not come about behind open. */
void pysh_host_open_failed(void);
