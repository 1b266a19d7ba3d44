/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the typed shell (shmem_*.c) share: each routine erases its types, calls its
 * ishmemx_ routine, and ends the job when that fails and it has no result to say so. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ishmemx.h"
#include "shmem.h"

/* Prints the calling thread's error with the PE and the routine, aborts the job and exits. */
void pysh_shell_die(const char *routine) __attribute__((noreturn, cold));

/* For routines without a result. */
#define SHELL(_status)                \
    do {                              \
        if (_status)                  \
            pysh_shell_die(__func__); \
    } while (0)

/* For collectives, whose result says that they failed, but seldom to anybody: prints why, too. */
int pysh_shell_tell(const char *routine, int status) __attribute__((cold));
#define TELL(_status)                                                     \
    do {                                                                  \
        int result_ = (_status);                                          \
        return result_ ? pysh_shell_tell(__func__, result_) : ISHMEMX_OK; \
    } while (0)

/* Saturates: a count no heap can hold fails as out of bounds, and never wraps to a small one. */
static inline size_t pysh_shell_nbytes(size_t nelems, size_t width) {
    size_t nbytes;

    return __builtin_mul_overflow(nelems, width, &nbytes) ? SIZE_MAX : nbytes;
}

/* The head of a routine and its name for profilers; weak, so that a profiler's own is taken in a static link. */
#define ROUTINE(_result, _stem, ...)                                                                     \
    extern ISHMEMX_API __typeof__(shmem_##_stem) pshmem_##_stem __attribute__((alias("shmem_" #_stem))); \
    __attribute__((weak)) _result shmem_##_stem(__VA_ARGS__)

/* A routine and its form with a context. `_body` uses ctx and the arguments, given in parentheses. */
#define PYSH_ARGUMENTS(...) __VA_ARGS__
#define BOTH(_result, _stem, _arguments, _body)                                 \
    ROUTINE(_result, _stem, PYSH_ARGUMENTS _arguments) {                        \
        const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;                              \
        _body;                                                                  \
    }                                                                           \
    ROUTINE(_result, ctx_##_stem, shmem_ctx_t ctx, PYSH_ARGUMENTS _arguments) { \
        _body;                                                                  \
    }

/* Values travel as the low bytes of a word (little endian). */
#define TO_BITS(_value) pysh_shell_bits(&(_value), sizeof(_value))
static inline uint64_t pysh_shell_bits(const void *value, size_t nbytes) {
    uint64_t bits = 0;

    memcpy(&bits, value, nbytes);
    return bits;
}
