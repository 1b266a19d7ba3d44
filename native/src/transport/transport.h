/* SPDX-License-Identifier: BSD-3-Clause
 * How bytes reach memory that this PE does not map. All of OpenSHMEM is built above this table, once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ishmemx.h"

typedef struct pysh_transport {
    const char *name;
    /* Joins the job: it fills in pysh_node and pysh.agree, so after it pe, n_pes, exchange and barrier work. */
    int (*open)(const ishmemx_config_t *config, int *pe_p, int *n_pes_p);
    /* blocks[heap]: how many of its arena the program still holds; then the mapping outlives the job,
     * see memory/retired.h. */
    void (*close)(const int64_t *blocks);
    /* Tells the others that this PE has left; everything stays mapped. For a PE that cannot finalize. */
    void (*leave)(void);
    /* Makes the host arena (heap = ISHMEMX_HEAP_HOST) or, for an accelerator that wants memory which
     * CPU and simulated kernels share, the device arena; collective. peer[pe] is NULL where `pe` can
     * be reached only by the calls below. The transport owns the memory. */
    int (*arena)(int heap, int64_t nbytes, char **base_p, char **peer);
    /* The file that has the arenas of all PEs, and from one to the next; NULL: there is none. */
    int (*arena_file)(int heap, int64_t *stride_p);
    /* Gives the pages of [base, +nbytes) of the own arena back to the system: they read as zero from there on. NULL:
     * its memory is not this transport's to give. */
    void (*give_back)(void *base, size_t nbytes);
    /* Only for peers whose arena is not mapped. Offsets are into the arena `heap`. `nbi`: the own side is in use until
     * flush; else it is not when the call returns. amo returns old bits in *fetched_p when it is not NULL. */
    int (*put)(int heap, int64_t dest, const void *source, size_t nbytes, int pe, bool nbi);
    int (*get)(int heap, void *dest, int64_t source, size_t nbytes, int pe, bool nbi);
    int (*amo)(int heap, int op, int type, int64_t dest, uint64_t value, uint64_t cond, int pe, uint64_t *fetched_p);
    /* Stores a flag in the host arena, after all that were stored in that PE's before, without an answer. */
    void (*raise)(int64_t dest, uint64_t value, int pe);
    /* A put to the host arena that is complete some time later, without flush; the source stays until the PE has
     * answered. `behind`: it arrives after all that was posted to that PE before. Waits for nobody, and cannot fail. */
    void (*post)(int64_t dest, const void *source, size_t nbytes, int pe, bool behind);
    /* All that was started is in its PE's memory, or here; the order of fence comes by it too. NULL: it always is. */
    int (*flush)(void);
    bool in_order; /* what is put, added or posted to a PE arrives there in the order of the calls: fence waits for
                      nobody */
    bool (*outstanding)(void); /* is there something for flush to complete? NULL: never */
    /* Do these calls reach [address, +nbytes) of the caller's static variables at `pe`? */
    bool (*reaches)(const void *address, size_t nbytes, int pe);
} pysh_transport_t;
