/* SPDX-License-Identifier: BSD-3-Clause
 * Which fiber of a worker runs next. */
#pragma once

#include "fiber/fiber.h"

/* One turn of a wait: the others run first. */
void pysh_cpu_yield(void);
/* A wait has seen what it waited for. */
void pysh_cpu_went_on(void);
void pysh_cpu_no_state(void);

/* The worker of this thread of the process; NULL outside a launch. */
extern _Thread_local worker_t *pysh_worker;

void pysh_wait_in(fiber_t *fiber, int at); /* returns when another puts it on its worker's line `ready` */
void pysh_worker_run(worker_t *worker);
void pysh_grid_stop(grid_t *grid, int end);
void pysh_leave(void) __attribute__((noreturn)); /* from a fiber of a grid that is stopped to its scheduler */
