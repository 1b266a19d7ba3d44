/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/polls.h"

#include <sched.h>
#include <stdbool.h>

#include "base/state.h"
#include "node/node.h"

_Thread_local unsigned pysh_polls;

/* To look where the others are takes a line of each; where there are many, it is done less often. */
static bool shares_core(unsigned times) {
    enum { CHEAP_PES = 16 };
    static _Thread_local bool shares;
    unsigned every = 1 + (unsigned)pysh.n_pes / CHEAP_PES;

    if (times % every == 0)
        shares = pysh_node_shares_core();
    return shares;
}

/* Where no PE is on the core, whoever takes it is a stranger who keeps it for milliseconds: seldom then. */
void pysh_give_way(void) {
    enum { SELDOM = 1024 };
    static _Thread_local unsigned times;

    pysh_polls = 0;
    times++;
    if (pysh.crowded || shares_core(times) || times % SELDOM == 0)
        sched_yield();
}
