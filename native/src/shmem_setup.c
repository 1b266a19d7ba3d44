/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: setup, memory, ordering, barriers. */
#include <stdio.h>
#include <stdlib.h>

#include "shell.h"

void pysh_shell_die(const char *routine) {
    char text[1024];

    snprintf(text, sizeof text, "%s: %s", routine, ishmemx_error());
    fprintf(stderr, "PE %d: %s\n", ishmemx_my_pe(), text);
    fflush(NULL);
    ishmemx_abort(1, text);
    exit(1);
}

void shmem_init(void) {
    ishmemx_config_t config;

    SHELL(ishmemx_config_from_environment(&config));
    SHELL(ishmemx_init(&config));
}

void shmem_finalize(void) {
    SHELL(ishmemx_finalize());
}

void shmem_global_exit(int status) {
    fflush(NULL);
    ishmemx_abort(status, "shmem_global_exit");
    exit(status);
}

int shmem_my_pe(void) {
    return ishmemx_my_pe();
}

int shmem_n_pes(void) {
    return ishmemx_n_pes();
}

void shmem_info_get_version(int *major, int *minor) {
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char *name) {
    memcpy(name, SHMEM_VENDOR_STRING, sizeof SHMEM_VENDOR_STRING);
}

/* ---- memory: a heap without room gives NULL, every other failure ends the job ---- */

static void *allocate(size_t nbytes, size_t align, int zero, const char *routine) {
    void *block = NULL;
    int status = ishmemx_malloc(ISHMEMX_HEAP_HOST, nbytes, align, zero, &block);

    if (status && status != ISHMEMX_ERR_MEMORY)
        pysh_shell_die(routine);
    return status ? NULL : block;
}

void *shmem_malloc(size_t nbytes) {
    return allocate(nbytes, 0, 0, __func__);
}

void *shmem_calloc(size_t nelems, size_t nbytes) {
    return allocate(pysh_shell_nbytes(nelems, nbytes), 0, 1, __func__);
}

void *shmem_align(size_t alignment, size_t nbytes) {
    return allocate(nbytes, alignment, 0, __func__);
}

void shmem_free(void *block) {
    SHELL(ishmemx_free(block));
}

/* NULL is an answer, not a failure: the address is not symmetric, or out of the caller's reach at that PE. */
void *shmem_ptr(const void *dest, int pe) {
    void *peer = NULL;

    return ishmemx_ptr(dest, pe, &peer) ? NULL : peer;
}

/* ---- ordering and barriers ---- */

void shmem_fence(void) {
    SHELL(ishmemx_fence(SHMEM_CTX_DEFAULT));
}

void shmem_ctx_fence(shmem_ctx_t ctx) {
    SHELL(ishmemx_fence(ctx));
}

void shmem_quiet(void) {
    SHELL(ishmemx_quiet(SHMEM_CTX_DEFAULT));
}

void shmem_ctx_quiet(shmem_ctx_t ctx) {
    SHELL(ishmemx_quiet(ctx));
}

void shmem_barrier_all(void) {
    SHELL(ishmemx_barrier_all());
}

void shmem_sync_all(void) {
    SHELL(ishmemx_team_sync(SHMEM_TEAM_WORLD));
}

int shmem_team_sync(shmem_team_t team) {
    return ishmemx_team_sync(team);
}
