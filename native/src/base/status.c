/* SPDX-License-Identifier: BSD-3-Clause
 * The text of the last failure, a thread each. */
#include "base/status.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/extent.h"
#include "base/state.h"
#include "ishmemx.h"

#define TEXT_CAPACITY 10240 /* a timeout lists every PE */
#define RING          8     /* texts of pysh_bytes_text alive at the same time */

static _Thread_local char last_error[TEXT_CAPACITY];

const char *ishmemx_error(void) {
    return last_error;
}

int pysh_fail(int status, const char *format, ...) {
    char text[TEXT_CAPACITY]; /* the arguments may point into last_error */
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(last_error, text, strlen(text) + 1);
    return status;
}

const char *pysh_bytes_text(int64_t nbytes) {
    static _Thread_local char ring[RING][32];
    static _Thread_local unsigned next;
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    char *text = ring[next++ % RING];
    double value = (double)nbytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(text, sizeof ring[0], unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

/* ---- errors that many routines find ---- */

int pysh_check_pe(int pe, int n_pes) {
    return pysh_check_pe_as("pe", pe, n_pes);
}

int pysh_check_pe_as(const char *name, int pe, int n_pes) {
    const char *alone = "";

    if (pe >= 0 && pe < n_pes)
        return ISHMEMX_OK;
    if (pe > 0 && pysh.n_pes == 1)
        alone = ": this job has one PE, as of a program that no launcher started; of two it is `python -m pyshmem run "
                "-n 2 ...`";
    return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s %d is outside the team of %d PE%s (0..%d)%s", name, pe, n_pes,
                     n_pes == 1 ? "" : "s", n_pes - 1, alone);
}

int pysh_check_extent(size_t n, size_t stride, size_t block, size_t width, size_t *nbytes_p) {
    if (pysh_extent(n, stride, block, width, nbytes_p))
        return ISHMEMX_OK;
    return pysh_fail(
        ISHMEMX_ERR_ARGUMENT,
        "%zu blocks of %zu elements of %zu bytes, a block every %zu elements, are more than any memory holds", n, block,
        width, stride);
}

int pysh_check_overlap_of(const void *dest, size_t dest_bytes, const char *name, const void *source,
                          size_t source_bytes, size_t width, const char *in_place) {
    uintptr_t d = (uintptr_t)dest, s = (uintptr_t)source;
    size_t first = d > s ? d : s, end = d + dest_bytes < s + source_bytes ? d + dest_bytes : s + source_bytes;
    size_t one, many;

    if (!dest_bytes || !source_bytes || first >= end)
        return ISHMEMX_OK;
    one = width && !((end - first) % width) ? width : 1;
    many = (end - first) / one;
    return pysh_fail(ISHMEMX_ERR_ARGUMENT, "dest and %s overlap, they share %zu %s%s: give arrays that lie apart%s%s",
                     name, many, one > 1 ? "element" : "byte", many == 1 ? "" : "s", in_place ? ", or " : "",
                     in_place ? in_place : "");
}

int pysh_check_overlap(const void *dest, size_t dest_bytes, const void *source, size_t source_bytes) {
    return pysh_check_overlap_of(dest, dest_bytes, "source", source, source_bytes, 0, NULL);
}

bool pysh_is_unfinished(int status) {
    return status == ISHMEMX_ERR_INTERRUPTED || status == ISHMEMX_ERR_TIMEOUT;
}
