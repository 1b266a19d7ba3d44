/* SPDX-License-Identifier: BSD-3-Clause
 * What kernels know of teams. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ishmemx_team;

int64_t pysh_device_tables_nbytes(int n_pes); /* flags and stages, in the arena that kernels and peers reach */
int64_t pysh_device_teams_nbytes(int n_pes);  /* the table of teams, in device memory */
int pysh_device_teams_open(char *symmetric, int heap, char *table); /* where those are; both zero */
void pysh_device_teams_close(void);
char *pysh_device_teams_table(void);
/* Do all members reach each other's device heaps by loads and stores? One answer on all of them. */
bool pysh_device_team_is_near(const struct ishmemx_team *team);
