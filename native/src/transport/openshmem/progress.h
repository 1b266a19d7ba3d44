/* SPDX-License-Identifier: BSD-3-Clause
 * Progress, waking and who is gone, over an OpenSHMEM library. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lets the library work on what other PEs asked of this one; nothing when another thread is in it. */
void pysh_os_progress(void);
int pysh_os_serve_in_background(void); /* a thread that makes progress from time to time */
void pysh_os_serve_no_more(void);      /* it has ended; nothing where there is none */
void pysh_os_wake(int pe);
int pysh_os_liveness(void);
/* Tells the others that this PE ends without finalize. */
void pysh_os_tell_left(void);
/* PEER when another PE has ended so; `all`: when all others have, which is known on one host alone. */
int pysh_os_others_left(bool all);
void pysh_os_abort(uint32_t word, const char *why);
const _Atomic uint32_t *pysh_os_alarm(void);
