/* SPDX-License-Identifier: BSD-3-Clause
 * What kernels know of teams. */
#pragma once

#include <stdint.h>

int64_t pysh_device_tables_nbytes(int n_pes); /* flags and stages, in the arena that kernels and peers reach */
int64_t pysh_device_teams_nbytes(int n_pes);  /* the table of teams, in device memory */
int pysh_device_teams_open(char *symmetric, int heap, char *table); /* where those are; both zero */
void pysh_device_teams_close(void);
char *pysh_device_teams_table(void);
