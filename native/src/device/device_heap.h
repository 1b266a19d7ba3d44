/* SPDX-License-Identifier: BSD-3-Clause
 * The device heap as kernels see it. */
#pragma once

#include <stdint.h>

#include "ishmemx.h"

/* `tables`: flags and stages of kernels' collectives on the host arena; NULL: on the device arena. */
int pysh_device_heap_open(const ishmemx_config_t *config, char *tables);
int pysh_device_heap_serve(void);           /* once all PEs have opened theirs */
void pysh_device_heap_close(int64_t block); /* as detach of the accelerator */
