/* SPDX-License-Identifier: BSD-3-Clause
 * Signals while kernels run. */
#pragma once

#include "fiber/fiber.h"

void pysh_faults_begin(worker_t *worker, bool interruptible);
void pysh_faults_end(worker_t *worker, bool interruptible);
void pysh_thread_faults_begin(worker_t *worker); /* of a worker's own thread */
void pysh_thread_faults_end(worker_t *worker);

/* The list of workers: while it is locked no launch begins or ends. */
void pysh_faults_lock(void);
void pysh_faults_unlock(void);
/* The next worker of the launch, from place `*at` of the list on; NULL: there is none. */
worker_t *pysh_faults_worker(const ishmemx_cpu_launch_t *launch, int *at);
/* Is that a kernel's code, and no library's? */
bool pysh_in_kernel(uintptr_t place);
