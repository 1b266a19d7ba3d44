/* SPDX-License-Identifier: BSD-3-Clause
 * How much of the device heap the library keeps for itself, printed by PE 0. */
#include "kernel.h"

#include <inttypes.h>

int main(void) {
    int64_t state[ISHMEMX_STATE_WORDS];
    ishmemx_config_t config;
    char *first;

    MUST(ishmemx_config_from_environment(&config));
    kernel_begin();
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8, 0, 1, (void **)&first)); /* the first block behind all of that */
    MUST(ishmemx_device_state(state));
    MUST(ishmemx_finalize());
    if (config.pe == 0)
        printf("%" PRId64 "\n", (int64_t)(intptr_t)first - state[ISHMEMX_STATE_HEAP_BASE]);
    return 0;
}
