/* SPDX-License-Identifier: BSD-3-Clause
 * The settings, PYSHMEM_*; those who ask for one call ishmemx_setting() and ishmemx_setting_number(). */
#pragma once

#ifndef PYSHMEM_VERSION
#define PYSHMEM_VERSION "unknown"
#endif
#ifndef PYSHMEM_MACHINE
#define PYSHMEM_MACHINE "unknown"
#endif

/* What the specification's SHMEM_VERSION and SHMEM_INFO ask for, to stdout. */
void pysh_settings_announce(void);
