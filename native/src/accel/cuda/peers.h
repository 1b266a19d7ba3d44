/* SPDX-License-Identifier: BSD-3-Clause
 * Which PEs' GPUs reach each other. */
#pragma once

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
