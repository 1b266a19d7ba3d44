/* SPDX-License-Identifier: BSD-3-Clause
 * The text of the last failure, a thread each. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/internal.h"

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
