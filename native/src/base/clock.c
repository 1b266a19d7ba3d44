/* SPDX-License-Identifier: BSD-3-Clause
 * See clock.h. */
#include "base/clock.h"

#include <stdint.h>
#include <time.h>

int64_t pysh_now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}
