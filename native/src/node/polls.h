/* SPDX-License-Identifier: BSD-3-Clause
 * Programs that poll: who only looks at words keeps its core from the PE that it waits for, where that is on the same
 * one. What a program may poll with is counted, whatever it found, as `test` may be asked for what is not there yet or
 * for what still is; every so many looks the core is given away, where another PE is there or could be. */
#pragma once

enum { PYSH_POLL_TEST = 8, PYSH_POLL_READ = 1 }; /* what a call counts: a read may well be work, a test hardly */

extern _Thread_local unsigned pysh_polls;

void pysh_give_way(void);

static inline void pysh_poll(unsigned what) {
    enum { MOST = 4096 };

    if (__builtin_expect((pysh_polls += what) >= MOST, 0))
        pysh_give_way();
}
