/* SPDX-License-Identifier: BSD-3-Clause
 * Which process it is: a number alone is another's some time after it has ended. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct pysh_process {
    int32_t pid;
    uint64_t pid_namespace; /* the number means something to processes of the same one only; 0: not known */
    uint64_t start;         /* when it began, in the clock's ticks since the machine did; 0: not known */
} pysh_process_t;

void pysh_process_self(pysh_process_t *self_p);
/* Does the caller know this number as that process's? */
bool pysh_process_same_namespace(const pysh_process_t *process);
/* Its state as /proc has it ('R', 'S', 'T', ...); 0: it has ended, whoever has its number now, or waits for its parent
 * to take note; '?': nothing can be known of it. The one place where others' numbers are looked at. */
char pysh_process_state(const pysh_process_t *process);
static inline bool pysh_process_ended(const pysh_process_t *process) {
    return !pysh_process_state(process);
}
