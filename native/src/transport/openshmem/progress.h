/* SPDX-License-Identifier: BSD-3-Clause
 * Waiting, waking and reporting on the openshmem conduit; see pysh_conduit_t. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/conduit.h"

/* Lets the library work on what other PEs asked of this one; nothing when another thread is in it. */
void pysh_os_progress(void);
int pysh_os_serve_in_background(void); /* a thread that makes progress from time to time */
void pysh_os_serve_no_more(void);      /* it has ended; nothing where there is none */
void pysh_os_wake(int pe);
void pysh_os_wake_for_memory(int pe);
void pysh_os_idle(struct pysh_wait *wait, int64_t ns);
void pysh_os_idle_end(struct pysh_wait *wait);
void pysh_os_activity(const char *what, int64_t since_ns);
int pysh_os_liveness(void);
/* Tells the others that this PE ends without finalize. */
void pysh_os_tell_left(void);
/* PEER when another PE has ended so; `all`: when all others have, which is known on one host alone. */
int pysh_os_others_left(bool all);
bool pysh_os_claim_report(int64_t since_ns);
bool pysh_os_shares_core(void);
void pysh_os_describe(char *text, size_t capacity);
int pysh_os_kernel_waits(pysh_kernel_wait_t *wait);
int pysh_os_kernel_mismatch(const pysh_members_t *members, const char *what, int64_t since_ns);
void pysh_os_abort(int code, const char *why);
const _Atomic uint32_t *pysh_os_alarm(void);
