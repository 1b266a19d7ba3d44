/* SPDX-License-Identifier: BSD-3-Clause
 * The GPU of PE 0 of 2 is lost: a host call of its own, or, with "kernel", a request of its kernel's, gets the driver's
 * error, and both PEs' next calls end with the reason. */
#include <unistd.h>

#include "fake_cuda.h"

enum { ECC_UNCORRECTABLE = 214 };

static void ends_with_the_reason(int status) {
    if (status != ISHMEMX_ERR_PEER || !strstr(ishmemx_error(), "PE 0") ||
        !strstr(ishmemx_error(), "CUDA_ERROR_ECC_UNCORRECTABLE") || !strstr(ishmemx_error(), "of the fake driver"))
        fail("status %d: %s", status, ishmemx_error());
}

int main(int argc, char **argv) {
    ishmemx_config_t config;
    uint64_t *cells, value = 7;

    MUST(ishmemx_config_from_environment(&config));
    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 64, 0, 1, (void **)&cells));
    MUST(ishmemx_barrier_all());
    if (config.pe == 0) {
        fake_cuda("fake_cuda_lose", ECC_UNCORRECTABLE);
        if (argc > 1 && !strcmp(argv[1], "kernel")) {
            pysh_request_t request = add_of(cells, 1);
            tell(&request);
            while (ishmemx_quiet(&ishmemx_ctx_default) == ISHMEMX_OK)
                usleep(1000);
        } else {
            CHECK(ishmemx_put(&ishmemx_ctx_default, cells, &value, 8, 0) == ISHMEMX_ERR_SYSTEM);
            CHECK(ishmemx_put(&ishmemx_ctx_default, cells, &value, 8, 0) != ISHMEMX_OK);
        }
        usleep(100000);
        /* What the proxy has recorded by now: the job may have ended before it. Its zeroing may fail too. */
        ishmemx_fault_take(&(ishmemx_fault_t){0});
    }
    ends_with_the_reason(ishmemx_barrier_all());
    puts("ended");
    fflush(stdout);
    _exit(0);
}
