/* SPDX-License-Identifier: BSD-3-Clause
 * How the threads of a PE sleep in a wait, and how other PEs wake them. A PE has one futex word, in memory that the
 * others map: two bits say what its sleepers wait for, the rest counts the wakes. A sleeper takes the word (its ticket)
 * before it looks at what it waits for, and sleeps only while no wake has come since: so several threads may sleep on
 * the word, and a wake between look and sleep is not lost. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "node/wait.h"

/* What a PE sleeps for: a barrier only, so that puts need not wake it; or something that a put may be. */
enum { PYSH_SLEEPS = 1, PYSH_SLEEPS_FOR_MEMORY = 2 };

/* Once for a process that is a PE: sleepers of other PEs may ask its cores for a fence. */
void pysh_sleep_prepare(void);
/* Sleeps up to `ns`. The first call of a wait only announces the sleep, and the caller looks once more at what it waits
 * for; so does the one after a wake. */
void pysh_sleep(_Atomic uint32_t *word, pysh_wait_t *wait, int64_t ns);
/* At the end of a wait that has announced a sleep. */
void pysh_sleep_end(_Atomic uint32_t *word, pysh_wait_t *wait);
/* Wakes the PE's threads if one of them sleeps for what `bits` say. */
void pysh_sleep_wake(_Atomic uint32_t *word, uint32_t bits);
