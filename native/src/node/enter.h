/* SPDX-License-Identifier: BSD-3-Clause
 * The first line of every public routine. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/state.h"

/* OK, or STATE (before init, after finalize), PEER (the job is being aborted) or FAULT (a kernel
 * recorded one). First line of every public routine: PYSH_ENTER(); */
int pysh_enter(void);
#define PYSH_ENTER()                                     \
    do {                                                 \
        int status_ = pysh_goes_on() ? 0 : pysh_enter(); \
        if (status_)                                     \
            return status_;                              \
    } while (0)
/* Nothing stands against a call, as nearly always: four loads in the caller, in place of a call of pysh_enter(). */
static inline bool pysh_goes_on(void) {
    return __builtin_expect(atomic_load_explicit(&pysh.ready, memory_order_relaxed) == PYSH_READY &&
                                !(pysh.fault && (__atomic_load_n(&pysh.fault[0].kind, __ATOMIC_RELAXED) |
                                                 __atomic_load_n(&pysh.fault[1].kind, __ATOMIC_RELAXED))) &&
                                !atomic_load_explicit(pysh.alarm, memory_order_relaxed),
                            1);
}
/* This process is a child of fork() by PE `pe` of a running job: it can call nothing, and begin no job. */
void pysh_entered_by_fork(int pe);
/* Whether it is one; then the last error is `status` and says so. */
bool pysh_is_forked(int status);
/* There has been a job: from here on a call without one is told that it came after finalize. */
void pysh_entered_first(void);
/* Who speaks, for messages at any time: "PE 3", also after finalize and where only the launcher has told; else "before
 * init". Valid until the thread's next call; leaves the last error as it is. */
const char *pysh_who(void);
