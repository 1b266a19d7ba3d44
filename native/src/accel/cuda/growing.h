/* SPDX-License-Identifier: BSD-3-Clause
 * A device heap that grows (PYSHMEM_DEVICE_HEAP_GROWS): each PE reserves addresses for all that its heap and those of
 * its node may become, and maps memory there as it is asked for, all PEs in step. Measured on two H100s: to make,
 * export, import and map memory never waits for a kernel that runs, and takes 1 to 5 ms. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "accel/accel.h"

/* Has this job such a heap? */
bool pysh_cuda_grown(void);
/* Those of the accelerator, and arena() where the heap grows; a failure that is not one of waiting is one of all PEs,
 * and leaves nothing. */
int pysh_cuda_grown_arena(int64_t *nbytes_p, char **base_p, char **peer);
int pysh_cuda_grow(const char *what, int64_t upto);
int pysh_cuda_trim(const char *what, int64_t downto);
/* For detach(): the peers' memory goes; behind a barrier the own is put aside, for whoever releases it at last. */
void pysh_cuda_grown_leave(void);
void pysh_cuda_grown_close(void);
/* Releases a heap put aside; false: there is none that begins there. In any thread, with a context. */
bool pysh_cuda_grown_release(uintptr_t base);
/* The copy engine's process: reserves the addresses; maps what it is given, or fd -1: unmaps it. */
int pysh_cuda_grown_join(const pysh_engine_map_t *map, char **base);
int pysh_cuda_grown_take(int place, int64_t at, int64_t nbytes, int fd);
/* Gives that process what is mapped when it starts, and what comes then. */
int pysh_cuda_grown_hand_over(pysh_tell_part_t *to);
