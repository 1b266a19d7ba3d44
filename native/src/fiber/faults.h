/* SPDX-License-Identifier: BSD-3-Clause
 * Signals while kernels run. */
#pragma once

#include "fiber/fiber.h"

void pysh_faults_begin(worker_t *worker, bool interruptible);
void pysh_faults_end(worker_t *worker, bool interruptible);
void pysh_thread_faults_begin(worker_t *worker); /* of a worker's own thread */
void pysh_thread_faults_end(worker_t *worker);
