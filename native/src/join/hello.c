/* SPDX-License-Identifier: BSD-3-Clause
 * See hello.h. */
#define _GNU_SOURCE
#include "join/hello.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "ishmemx.h"
#include "ishmemx_contract.h"

#define LAYOUT(_place) ((char)(PYSH_CONTROL_MAGIC >> (_place)))

static void fill_path(char path[PYSH_HELLO_PATH]) {
    Dl_info info;
    size_t length;

    if (!dladdr((void *)(uintptr_t)pysh_hello_fill, &info) || !info.dli_fname)
        return;
    length = strlen(info.dli_fname);
    snprintf(path, PYSH_HELLO_PATH, "%s",
             info.dli_fname + (length < PYSH_HELLO_PATH ? 0 : length - PYSH_HELLO_PATH + 1));
}

void pysh_hello_fill(const ishmemx_config_t *config, pysh_hello_t *hello_p) {
    memset(hello_p, 0, sizeof *hello_p);
    hello_p->magic = PYSH_HELLO_MAGIC;
    snprintf(hello_p->version, sizeof hello_p->version, "%.32s, build %s.%c%c",
             config->version ? config->version : "unknown", ISHMEMX_CONTRACT_TEXT, LAYOUT(48), LAYOUT(56));
    fill_path(hello_p->path);
    hello_p->pe = config->pe;
    hello_p->n_pes = config->n_pes;
    hello_p->accelerator = config->accelerator;
    hello_p->heap_bytes = config->heap_bytes;
    hello_p->device_heap_bytes = config->device_heap_bytes;
    pysh_process_self(&hello_p->process);
}

int pysh_hello_mismatch(const pysh_hello_t *hello, const pysh_hello_t *first) {
    return pysh_fail(
        ISHMEMX_ERR_MISMATCH,
        "PE %d runs pyshmem %.60s (%.256s), PE 0 runs %.60s (%.256s); install one version for all PEs, and "
        "start them with the same Python or library path",
        hello->pe, hello->version, hello->path[0] ? hello->path : "its path is not known", first->version, first->path);
}

static const char *accelerator_name(int accelerator) {
    static const char *const names[] = {"none", "cuda", "sim"};

    return accelerator >= 0 && accelerator < 3 ? names[accelerator] : "unknown";
}

int pysh_hello_heaps(const pysh_hello_t *hello, const pysh_hello_t *first) {
    if (hello->accelerator != first->accelerator)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "PE %d uses accelerator %s, PE 0 %s; set PYSHMEM_DEVICE alike on all PEs", hello->pe,
                         accelerator_name(hello->accelerator), accelerator_name(first->accelerator));
    if (hello->heap_bytes != first->heap_bytes)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "PE %d has a host heap of %s, PE 0 of %s; set PYSHMEM_HEAP_SIZE alike on all PEs", hello->pe,
                         pysh_bytes_text(hello->heap_bytes), pysh_bytes_text(first->heap_bytes));
    if (first->accelerator != ISHMEMX_DEVICE_NONE && hello->device_heap_bytes != first->device_heap_bytes)
        return pysh_fail(ISHMEMX_ERR_MISMATCH,
                         "PE %d has a device heap of %s, PE 0 of %s; set PYSHMEM_DEVICE_HEAP_SIZE alike on all PEs",
                         hello->pe, pysh_bytes_text(hello->device_heap_bytes),
                         pysh_bytes_text(first->device_heap_bytes));
    return ISHMEMX_OK;
}
