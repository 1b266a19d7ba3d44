/* SPDX-License-Identifier: BSD-3-Clause
 * The first line of every public routine. */
#pragma once

/* OK, or STATE (before init, after finalize), PEER (the job is being aborted) or FAULT (a kernel
 * recorded one). First line of every public routine: PYSH_ENTER(); */
int pysh_enter(void);
#define PYSH_ENTER()                \
    do {                            \
        int status_ = pysh_enter(); \
        if (status_)                \
            return status_;         \
    } while (0)
/* There has been a job: from here on a call without one is told that it came after finalize. */
void pysh_entered_first(void);
