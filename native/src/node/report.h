/* SPDX-License-Identifier: BSD-3-Clause
 * Where the PEs stand, for those who have waited too long; and the names of what kernels do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/node.h"

/* Where all PEs stand, and what their kernels wait for; the own rings too. */
void pysh_report(char *text, size_t capacity);
/* Is it time to report a wait that has lasted `waited_ns`? Then why, in words; else NULL. That is after
 * PYSHMEM_REPORT_AFTER, and sooner for one that is for words of memory when nobody is left to change them; *alone_ns, 0
 * to begin with, is since when that is so. */
const char *pysh_report_due(int64_t *alone_ns, int64_t waited_ns, bool for_words);
/* Writes the report to stderr on behalf of a wait that goes on, in `what` since `since_ns`: unless a PE of this host
 * has done so since then, whose report shows this wait. */
/* A kernel's, by what it has posted. */
void pysh_report_kernel(const pysh_kernel_wait_t *wait, const char *why);
void pysh_report_long_wait(const char *what, const char *place, int64_t since_ns, const char *why);
/* The same for a loop of tests, in `name`. It may be for something else besides, so it is no matter how long it lasts
 * while a PE is left that could change what it looks at. */
const char *pysh_report_loop_due(int64_t *alone_ns, int64_t waited_ns);
void pysh_report_long_loop(const char *name, const char *place, int64_t since_ns, const char *why);
/* Who writes a line on each of this PE's rings; NULL: there are none. */
void pysh_report_rings(void (*describe)(char *text, size_t capacity));
/* The name of a kernel or device routine, or its number; see ishmemx_name_set(). */
void pysh_name_get(int kind, int64_t number, char *text, size_t capacity);
