/* SPDX-License-Identifier: BSD-3-Clause
 * Launches, and what a thread of one reads and prints. */
#pragma once

#include "fiber/fiber.h"

/* Runs a launch: `launch` is an ishmemx_cpu_launch_t. Returns its `code`; what else became of it is in it. */
int32_t pysh_cpu_run(int64_t launch, pysh_kernel_t kernel, void *arguments);
/* The calling thread's, which is constant. */
ishmemx_cpu_thread_t *pysh_cpu_self(void);
/* The thread has an index that `what`, an array in a line of the program, has not: the launch ends. */
void pysh_cpu_out_of_bounds(const char *what, int64_t index, int64_t axis, int64_t size) __attribute__((noreturn));
void pysh_cpu_print(const ishmemx_cpu_word_t *words, int64_t count);
