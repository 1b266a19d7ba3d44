/* SPDX-License-Identifier: BSD-3-Clause
 * The copy engine that the proxies use: the accelerator's, on the calling thread, or one in a process of its own that
 * maps all device heaps (PYSHMEM_ENGINE=process). There no lock of the driver that this process holds, for a free or a
 * load that waits for a kernel, and no stream capture stops a copy. What is not on a device heap goes by the thread,
 * but for pieces: host memory that the process maps too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accel/accel.h"

/* Bytes of a piece. */
#define PYSH_ENGINE_PIECE ((size_t)256 * 1024)

/* Starts the process where the settings ask for it; the device heap is open. Waits until it serves. */
int pysh_engine_start(const ishmemx_config_t *config);
/* Ends it; copies have been completed. Before the heaps are unmapped. */
void pysh_engine_stop(void);
/* Who hears of a copy that the process has begun and failed to do: the host's next call, the kernel that waits for the
 * last completion, both by pysh_engine_failure(); or who started it and asks pysh_engine_look() until it is done. */
enum pysh_engine_told { PYSH_ENGINE_HOST, PYSH_ENGINE_KERNEL, PYSH_ENGINE_CALLER };
/* Starts a copy to or from `pe`, which then stores the completions, in order: OK, FULL or an error. *copy_p is for
 * pysh_engine_done() and pysh_engine_look(). */
int pysh_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const pysh_completion_t *completions,
                     int n_completions, enum pysh_engine_told told, uint64_t *copy_p);
/* Is that copy complete, as far as one can tell? Those of the process only while they are among the last ones. */
bool pysh_engine_done(uint64_t copy);
/* The same for a copy whose caller is told: OK while it is under way, then once what it failed of, however late. */
int pysh_engine_look(uint64_t copy, bool *done_p);
/* Does the process copy between its pieces and this memory? */
bool pysh_engine_reaches(const void *address, size_t nbytes);
/* A piece that is the caller's until it gives it back; NULL: none is free. */
char *pysh_engine_piece(void);
void pysh_engine_piece_back(const char *piece);
/* Are the copies started before the last mark complete, and all of them? */
void pysh_engine_mark(void);
int pysh_engine_finished(bool *marked_p, bool *all_p);
/* Takes the next copy of the process that has failed, but for those whose callers ask; false: there is none. *status_p
 * and pysh_fail()'s text say why; reply_p->address is NULL when no kernel waits for a reply, else where that goes. */
bool pysh_engine_failure(pysh_completion_t *reply_p, int *status_p);
