/* SPDX-License-Identifier: BSD-3-Clause
 * What may end a wait from outside: the program's check, such as for Python's signals. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Is there a check? */
bool pysh_has_interrupt_check(void);
/* INTERRUPTED when the interrupt check asks to end the wait in `what`, else OK. */
int pysh_wait_interrupted(const char *what);
/* The line of the program that the calling thread is in; empty: nobody knows. */
void pysh_tell_place(char *text, size_t capacity);
