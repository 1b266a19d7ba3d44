/* SPDX-License-Identifier: BSD-3-Clause
 * Which PEs' GPUs reach each other, and memory that they lend each other one by one. */
#pragma once

#include "accel/accel.h"
#include "accel/cuda/driver.h"

/* How a PE's GPU is known to the others; ordinals differ between processes. */
typedef struct pysh_cuda_card {
    CUuuid uuid;
    char bus[20];
} pysh_cuda_card_t;

/* Collective, in the routine `what`: a failure on one PE becomes a failure on all, with its text. */
int pysh_cuda_agree(const char *what, int status);
/* Collective: OK on all PEs, or the same UNSUPPORTED that lists every pair without peer access. Notes in pysh.by_owner
 * to whom the link has no native atomic operations. */
int pysh_cuda_check_matrix(CUdevice device, const pysh_cuda_card_t *mine);
/* Those of the accelerator: memory of cudaMalloc, by CUDA IPC. */
int pysh_cuda_lend(const void *address, size_t nbytes, pysh_lent_t *lent);
int pysh_cuda_borrow(pysh_lent_t *lent, int pe, char **here_p);
void pysh_cuda_give_back(pysh_lent_t *lent);
