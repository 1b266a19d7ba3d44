/* SPDX-License-Identifier: BSD-3-Clause
 * See state.h. */
#include "base/state.h"

#include <stdatomic.h>
#include <stdint.h>

static const _Atomic uint32_t no_alarm;

pysh_state_t pysh = {.pe = -1, .n_pes = -1, .alarm = &no_alarm};

void pysh_state_clear(void) {
    pysh = (pysh_state_t){.pe = -1, .n_pes = -1, .alarm = &no_alarm};
}
