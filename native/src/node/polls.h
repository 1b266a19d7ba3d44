/* SPDX-License-Identifier: BSD-3-Clause
 * Programs that poll: who only looks at words keeps its core from the PE that it waits for, where that is on the same
 * one. What a program may poll with is counted, whatever it found, as `test` may be asked for what is not there yet or
 * for what still is; every so many looks the core is given away, where another PE is there or could be.
 * A loop of tests is a wait that the library does not see as one: when it goes on and finds the same, while no PE is
 * left that could change that, it is reported as waits are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/wait.h"

/* What a call counts: a read may well be work, a test hardly. */
enum { PYSH_POLL_TEST = 8, PYSH_POLL_READ = 1, PYSH_POLL_MOST = 4096 };

extern _Thread_local unsigned pysh_polls;

void pysh_give_way(void);
/* In the call of a test for which pysh_poll_due() is true: what it is called, what it found, and what it is for. */
void pysh_polled(const char *what, uint64_t found, pysh_wait_aim_t aim);
/* The same for a read of one word of a PE, for which pysh_poll_due(PYSH_POLL_READ) is. */
void pysh_polled_read(const char *what, const void *word, int pe, uint64_t seen);

/* Tells the others that a thread is in a loop of tests, at a line of the program, or "", again and again while it is;
 * NULL: no longer. */
void pysh_wait_publish_loop(const char *name, const char *place, int64_t since_ns);

/* Counts; true: the caller gives way. */
static inline bool pysh_poll_due(unsigned count) {
    return __builtin_expect((pysh_polls += count) >= PYSH_POLL_MOST, 0);
}
