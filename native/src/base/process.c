/* SPDX-License-Identifier: BSD-3-Clause
 * See process.h. */
#include "base/process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The state and the start of who has the number now: fields 3 and 22. False: there is no such file. */
static bool process_look(int32_t pid, char *state_p, uint64_t *start_p) {
    char path[64], line[1024];
    const char *rest;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%" PRId32 "/stat", pid);
    if (!(file = fopen(path, "re")))
        return false;
    line[fread(line, 1, sizeof line - 1, file)] = '\0';
    fclose(file);
    rest = strrchr(line, ')'); /* the command's name before it may hold anything */
    if (!rest || sscanf(rest, ") %c", state_p) != 1)
        return false; /* it ended between */
    *start_p = 0;
    sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64, start_p);
    return true;
}

static uint64_t own_namespace(void) {
    struct stat namespace;

    return stat("/proc/self/ns/pid", &namespace) == 0 ? namespace.st_ino : 0;
}

void pysh_process_self(pysh_process_t *self_p) {
    char ignored;

    *self_p = (pysh_process_t){.pid = getpid(), .pid_namespace = own_namespace()};
    process_look(self_p->pid, &ignored, &self_p->start);
}

bool pysh_process_same_namespace(const pysh_process_t *process) {
    return process->pid_namespace == own_namespace();
}

char pysh_process_state(const pysh_process_t *process) {
    uint64_t start;
    char state;

    if (!pysh_process_same_namespace(process))
        return '?';
    if (process_look(process->pid, &state, &start))
        return state == 'Z' || state == 'X' || (process->start && start && start != process->start) ? 0 : state;
    /* Ended, or there is no /proc: a signal of no kind asks whether anybody has the number. */
    return kill(process->pid, 0) && errno == ESRCH ? 0 : '?';
}
