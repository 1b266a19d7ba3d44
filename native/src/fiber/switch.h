/* SPDX-License-Identifier: BSD-3-Clause
 * From one stack to another. */
#pragma once

#include <stdint.h>

/* Keeps the caller's place in *from and goes on at `to`. */
void pysh_switch(void **from, void *to);
/* Of a stack that nobody has been on. */
void *pysh_fresh_sp(char *top, void (*entry)(void));
/* Where a signal's handler returns to, and where it came in between. */
void pysh_return_to(void *context, void (*function)(void));
uintptr_t pysh_interrupted_at(const void *context);
/* A digest of all registers, and of the stack around its pointer: what a function keeps there changes when its
 * registers do not. */
uint64_t pysh_interrupted_with(const void *context, const char *low, const char *top);
