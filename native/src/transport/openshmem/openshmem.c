/* SPDX-License-Identifier: BSD-3-Clause
 * See openshmem.h. */
#include "transport/openshmem/openshmem.h"

#include <pthread.h>

pysh_openshmem_t pysh_os = {.mutex = PTHREAD_MUTEX_INITIALIZER};
