/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: malloc and its kin, free, ptr. */
#include "api/shell.h"
#include "ishmemx.h"

/* ---- memory: NULL for no room and for an alignment that cannot be; every other failure ends the job ---- */

static void *allocate(size_t nbytes, size_t align, int zero, const char *routine) {
    void *block = NULL;
    int status = ishmemx_malloc_as(routine, NULL, ISHMEMX_HEAP_HOST, nbytes, align, zero, &block);

    if (status && status != ISHMEMX_ERR_MEMORY && !(align && status == ISHMEMX_ERR_ARGUMENT))
        pysh_shell_die(routine);
    return status ? NULL : block;
}

ROUTINE(void *, malloc, size_t nbytes) {
    return allocate(nbytes, 0, 0, __func__);
}

/* Everything the hints ask for is so of all symmetric memory. */
ROUTINE(void *, malloc_with_hints, size_t nbytes, long hints) {
    (void)hints;
    return allocate(nbytes, 0, 0, __func__);
}

ROUTINE(void *, calloc, size_t nelems, size_t nbytes) {
    return allocate(pysh_shell_nbytes(nelems, nbytes), 0, 1, __func__);
}

ROUTINE(void *, align, size_t alignment, size_t nbytes) {
    return alignment ? allocate(nbytes, alignment, 0, __func__) : NULL;
}

ROUTINE(void *, realloc, void *block, size_t nbytes) {
    void *moved = NULL;
    int status = ishmemx_realloc(block, nbytes, &moved);

    if (status && status != ISHMEMX_ERR_MEMORY)
        pysh_shell_die(__func__);
    return status ? NULL : moved;
}

ROUTINE(void, free, void *block) {
    SHELL(ishmemx_free(block));
}

/* NULL is an answer, not a failure: the address is not symmetric, or out of the caller's reach at that PE. */
ROUTINE(void *, ptr, const void *dest, int pe) {
    void *peer = NULL;

    return ishmemx_ptr(dest, pe, &peer) ? NULL : peer;
}
