/* SPDX-License-Identifier: BSD-3-Clause
 * Requests that are wrong: the kernel gets a status, or the host's next call the reason; the proxy goes on. */
#include "kernel.h"

static void asked(pysh_request_t request, int expected, const char *reason) {
    pysh_request_t nothing = request_of(PYSH_OP_NULL, 0, 0, 0, 0);
    char why[512];
    int status;

    request.word[PYSH_WORD_KIND] |= PYSH_REQUEST_REPLY << 16;
    await_reply(send_request(&request), request.word[PYSH_WORD_KIND] >> 16 & PYSH_REQUEST_DONE, &status);
    MUST(ishmemx_proxy_error(why, sizeof why));
    if (status != expected || !strstr(why, reason))
        fail("status %d, not %d, or no '%s' in: %s", status, expected, reason, why);
    CHECK(ask(nothing) == 0);
    MUST(ishmemx_quiet(&ishmemx_ctx_default));
}

static void told(pysh_request_t request, const char *reason) {
    ishmemx_fault_t fault;
    char why[512];

    tell(&request);
    quiet();
    CHECK(ishmemx_quiet(&ishmemx_ctx_default) == ISHMEMX_ERR_FAULT);
    MUST(ishmemx_proxy_error(why, sizeof why));
    MUST(ishmemx_fault_take(&fault));
    CHECK(fault.kind == ISHMEMX_FAULT_PROXY && fault.a != ISHMEMX_OK && strstr(why, reason));
    MUST(ishmemx_fault_take(&fault));
    CHECK(fault.kind == ISHMEMX_FAULT_NONE);
    MUST(ishmemx_quiet(&ishmemx_ctx_default));
}

int main(void) {
    pysh_request_t request;
    uint64_t *cell, here = 5;

    kernel_begin();
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, 64, 0, 1, (void **)&cell));
    asked(request_of(99, 0, 0, 0, 0), ISHMEMX_ERR_ARGUMENT, "unknown operation 99");
    asked(request_of(PYSH_OP_COUNT, 0, 0, 0, 0), ISHMEMX_ERR_ARGUMENT, "unknown operation");
    asked(request_of(0, 0, 0, 0, 0), ISHMEMX_ERR_ARGUMENT, "unknown operation 0");
    asked(call_of(9, 0, 0), ISHMEMX_ERR_ARGUMENT, "handler 9, which is not registered");
    request = put_of(cell, &here, 8, 0);
    request.word[PYSH_WORD_PE] = (uint32_t)-1;
    asked(request, ISHMEMX_ERR_ARGUMENT, "pe -1 is outside");
    request.word[PYSH_WORD_PE] = 1;
    asked(request, ISHMEMX_ERR_ARGUMENT, "pe 1 is outside");
    asked(put_of(&here, cell, 8, 0), ISHMEMX_ERR_ARGUMENT, "symmetric");
    asked(put_of(&here, cell, 8, PYSH_REQUEST_DONE), ISHMEMX_ERR_ARGUMENT, "symmetric");
    asked(put_of(cell, &here, 8, 0), ISHMEMX_ERR_ARGUMENT, "ask with DONE");
    request = add_of(cell, 1);
    request.word[PYSH_WORD_KIND] |= 0xff << 8;
    asked(request, ISHMEMX_ERR_TYPE, "type number 255");
    request = request_of(PYSH_OP_G, 9, 0, 0, 0);
    asked(request, ISHMEMX_ERR_ARGUMENT, "9 bytes");
    told(put_of(&here, cell, 8, 0), "symmetric");
    told(request_of(77, 0, 0, 0, 0), "unknown operation 77");
    CHECK(*cell == 0);
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
