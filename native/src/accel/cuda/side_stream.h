/* SPDX-License-Identifier: BSD-3-Clause
 * Streams beside those that work is put on. */
#pragma once

/* fork and join of pysh_streams_t. */
int pysh_cuda_fork(void *stream, void **side_p);
int pysh_cuda_rejoin(void *stream, void *side);
/* The stream is idle and about to be destroyed. With the context current, as close, where all are idle. */
void pysh_cuda_side_forget(void *stream);
void pysh_cuda_side_close(void);
