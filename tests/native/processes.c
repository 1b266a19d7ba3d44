/* SPDX-License-Identifier: BSD-3-Clause
 * A process is known by its number and its start: a child that runs, that is stopped, that has ended with nobody to
 * take note, and that is gone; another process that has its number; and one of another namespace. */
#include "base/process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define CHECK(_holds)                                                    \
    do {                                                                 \
        if (!(_holds)) {                                                 \
            failures++;                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #_holds); \
        }                                                                \
    } while (0)

int main(void) {
    pysh_process_t self, child, other;
    siginfo_t ended;
    int ends[2], status;
    pid_t pid;

    pysh_process_self(&self);
    CHECK(self.pid == getpid() && self.start && self.pid_namespace);
    CHECK(pysh_process_state(&self) == 'R' && !pysh_process_ended(&self));
    if (pipe(ends) || (pid = fork()) < 0)
        return 1;
    if (!pid) {
        pysh_process_self(&child);
        status = write(ends[1], &child, sizeof child) != sizeof child;
        for (;;)
            pause();
    }
    CHECK(read(ends[0], &child, sizeof child) == sizeof child && child.pid == pid);
    CHECK(!pysh_process_ended(&child));
    other = child;
    other.start++; /* who had the number before */
    CHECK(pysh_process_ended(&other));
    other = child;
    other.pid_namespace++;
    CHECK(pysh_process_state(&other) == '?' && !pysh_process_same_namespace(&other));
    other = child;
    other.start = 0; /* not known: the number alone */
    CHECK(!pysh_process_ended(&other));
    kill(pid, SIGSTOP);
    waitpid(pid, &status, WUNTRACED);
    CHECK(pysh_process_state(&child) == 'T');
    kill(pid, SIGKILL);
    CHECK(!waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT));
    CHECK(pysh_process_ended(&child)); /* its number is kept for its parent */
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(pysh_process_ended(&child) && pysh_process_ended(&other));
    if (!failures)
        printf("ok\n");
    return failures != 0;
}
