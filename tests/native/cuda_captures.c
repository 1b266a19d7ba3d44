/* SPDX-License-Identifier: BSD-3-Clause
 * While a thread captures a stream in global mode, the library's calls on all other threads get through, and leave
 * these in the mode that they had. */
#include "fake_cuda.h"

enum { NBYTES = 4096 };

static char *dest, *source;

static void by_ring(void) {
    pysh_request_t request = put_of(dest, source, NBYTES, PYSH_REQUEST_DONE);

    memset(source, 1, NBYTES);
    ask(request);
    CHECK(dest[NBYTES - 1] == 1);
    source[0] = 2;
    request = put_of(dest, source, NBYTES, 0);
    tell(&request);
    quiet(); /* for which the proxy asks an event */
    CHECK(dest[0] == 2);
}

static void by_host(void) {
    uint64_t old = 0;
    char *more;

    MUST(ishmemx_put(&ishmemx_ctx_default, dest, source, NBYTES, 0));
    MUST(ishmemx_get_nbi(&ishmemx_ctx_default, source, dest, NBYTES, 0));
    MUST(ishmemx_put_on_stream(&ishmemx_ctx_default, dest, source, NBYTES, 0, NULL));
    MUST(ishmemx_atomic(&ishmemx_ctx_default, ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_UINT64, dest, 3, 0, 0, &old));
    MUST(ishmemx_atomic(&ishmemx_ctx_default, ISHMEMX_ATOMIC_SET, ISHMEMX_TYPE_UINT64, dest, 3, 0, 0, NULL));
    MUST(ishmemx_signal_fetch((uint64_t *)(void *)dest, &old));
    CHECK(old == 3);
    MUST(ishmemx_quiet(&ishmemx_ctx_default));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, NBYTES, 0, 1, (void **)&more));
    MUST(ishmemx_free(more));
    MUST(ishmemx_barrier_all());
}

static void checked(void (*body)(void), const char *what) {
    fake_cuda("fake_cuda_capture", 1);
    body();
    if (fake_cuda("fake_cuda_refused", 0))
        fail("%s: a call in global mode", what);
    CHECK(fake_cuda("fake_cuda_mode", 0) == 0);
    fake_cuda("fake_cuda_capture", 0);
}

static void begin(void) {
    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
}

static void end(void) {
    MUST(ishmemx_finalize());
}

int main(void) {
    int count;

    MUST(ishmemx_cuda_count(&count));
    checked(begin, "init");
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, NBYTES, 0, 1, (void **)&dest));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, NBYTES, 0, 1, (void **)&source));
    checked(by_ring, "the ring");
    checked(by_host, "the host");
    checked(end, "finalize"); /* with blocks still held: their memory outlives the job */
    puts("ok");
    return 0;
}
