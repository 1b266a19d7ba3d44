/* SPDX-License-Identifier: BSD-3-Clause
 * The host's side of the ring, as native/ starts, asks and stops it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that the rings need near the kernels, see pysh_ring_device_t. */
int64_t pysh_proxy_device_nbytes(void);
/* Reads and checks the settings RINGS and RING_SLOTS; before the arenas are made. */
int pysh_proxy_configure(void);
/* Makes the rings, whose device parts begin at `device` (already zero). On GPUs a thread each is started; for the
 * simulator when the state block is asked for, without which no kernel runs: most of its jobs have none. */
int pysh_proxy_start(char *device);
/* Starts the threads that are not there yet. */
int pysh_proxy_wake(void);
/* Serves what is in the rings, for a bounded time, and ends the threads. No-op when not started. */
void pysh_proxy_stop(void);
/* Until all that finished kernels have told the rings is complete. Two loads a ring when nothing is under way. */
int pysh_proxy_drain(void);
void pysh_proxy_kernel_ends(void); /* one on the CPU has: waits a moment for what it has asked for */
/* Fills the words RINGS .. RING + 4 k of the state block. */
void pysh_proxy_state(int64_t *words);
/* A line on each ring, for reports. */
void pysh_proxy_describe(char *text, size_t capacity);
/* The same; of rings that no kernel has used yet nothing. */
void pysh_proxy_describe_used(char *text, size_t capacity);
