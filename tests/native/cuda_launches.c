/* SPDX-License-Identifier: BSD-3-Clause
 * A launch of the library's that does not come back from the driver, with the fake driver, on 1 PE: finalize does not
 * wait for it, and the next job has a thread of its own. */
#include "fake_cuda.h"

static uint64_t *begin(void) {
    uint64_t *word;

    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 8, 0, 1, (void **)&word));
    *word = 0; /* the fake driver's device memory is the host's */
    return word;
}

int main(void) {
    uint64_t *word = begin();
    pysh_request_t add = add_of(word, 1);

    fake_cuda("fake_cuda_free", 1);
    tell(&add);
    CHECK(ishmemx_finalize() == ISHMEMX_ERR_TIMEOUT); /* the operation has not been done */
    fake_cuda("fake_cuda_free", 0);

    word = begin();
    add = add_of(word, 1);
    ask(add);
    CHECK(look(word) == 1);
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
