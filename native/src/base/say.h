/* SPDX-License-Identifier: BSD-3-Clause
 * What the library itself says on stdout and stderr. Its threads serve others, so none of them may wait until somebody
 * reads: what cannot be written now is kept and tried again, up to a bound, behind which lines are left out and
 * counted. The one place that writes there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole lines to descriptor 1 or 2. False: nobody can ever read them there (closed, or its reader is gone). */
bool pysh_say(int fd, const char *text, size_t nbytes);
void pysh_sayf(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* In a signal's handler: one short line, which is lost where nobody reads. */
void pysh_say_in_handler(int fd, const char *text, size_t nbytes);
/* Tries what is kept; of no time while that is nothing. By who has a moment: a proxy, a slow wait. */
void pysh_say_more(void);
/* For the end: tries until nothing is kept, for so long at most. */
void pysh_say_rest(int64_t limit_ns);
