/* SPDX-License-Identifier: BSD-3-Clause
 * One pidfd a peer: it turns readable when the process ends, a zombie included. */
#define _GNU_SOURCE
#include "node/liveness.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/memory_file.h"
#include "base/process.h"
#include "base/status.h"
#include "ishmemx.h"
#include "join/variables.h"
#include "node/control.h"
#include "node/node.h"

/* poll() skips negative descriptors: own and unknown PEs. `gone` are those that died before. */
static struct pollfd *watched;
static bool *gone;
static int n_watched;
static pid_t agent; /* this process' parent, if it has to be there; 0: no matter */
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER; /* the proxies' threads look too */

/* Returns false when this process, or the system, may open no more files. */
static bool watch(int pe, const pysh_process_t *process) {
    int error;

    watched[pe].fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    error = errno;
    watched[pe].events = POLLIN;
    /* Asked behind the descriptor: what it names then is what had the number all the while. */
    gone[pe] = pysh_process_ended(process);
    errno = error;
    return watched[pe].fd >= 0 || (error != EMFILE && error != ENFILE);
}

int pysh_peers_watch(const pysh_control_t *control, int pe) {
    n_watched = 0;
    agent = pysh_launcher_agent();
    watched = calloc((size_t)control->n_pes, sizeof *watched);
    gone = calloc((size_t)control->n_pes, sizeof *gone);
    if (!watched || !gone) {
        pysh_peers_unwatch();
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to watch %d PEs", control->n_pes);
    }
    for (int peer = 0; peer < control->n_pes; peer++) {
        pysh_process_t process = pysh_control_process(&control->slot[peer]);
        watched[peer].fd = -1;
        n_watched = peer + 1;
        if (peer != pe && pysh_process_same_namespace(&process) && !watch(peer, &process)) {
            pysh_fail(ISHMEMX_ERR_SYSTEM, "PE %d cannot watch its %d peers: %s; each takes a file: %s", pe,
                      control->n_pes - 1, strerror(errno), pysh_open_files_advice());
            pysh_peers_unwatch();
            return ISHMEMX_ERR_SYSTEM;
        }
    }
    return ISHMEMX_OK;
}

void pysh_peers_unwatch(void) {
    for (int pe = 0; pe < n_watched; pe++)
        if (watched[pe].fd >= 0)
            close(watched[pe].fd);
    free(watched);
    free(gone);
    watched = NULL;
    gone = NULL;
    n_watched = 0;
}

/* The process is there no more. */
static bool process_ended(const pysh_control_t *control, int own, int pe) {
    pysh_process_t process;

    if (gone[pe] || watched[pe].revents)
        return true;
    if (watched[pe].fd >= 0 || pe == own)
        return false;
    process = pysh_control_process(&control->slot[pe]);
    return pysh_process_ended(&process);
}

static int peers_check(const pysh_control_t *control, int pe) {
    char during[PYSH_ACTIVITY_TEXT + 32];
    int left = -1;

    if (!watched || poll(watched, (nfds_t)n_watched, 0) < 0)
        return ISHMEMX_OK;
    pysh_control_during(&control->slot[pe], during, sizeof during);
    for (int peer = 0; peer < n_watched; peer++) {
        bool ended = process_ended(control, pe, peer);

        /* After the look at the process: a PE that ended without having said so has died. */
        if (atomic_load_explicit(&control->slot[peer].state, memory_order_acquire) == PYSH_PE_FINALIZED)
            left = peer;
        else if (ended)
            return pysh_fail(ISHMEMX_ERR_PEER, "PE %d (pid %d) died%s", peer,
                             (int)atomic_load(&control->slot[peer].pid), during);
    }
    /* Others may have left because of a death: that is the better news. */
    if (left >= 0)
        return pysh_fail(ISHMEMX_ERR_PEER, "PE %d finalised%s", left, during);
    return ISHMEMX_OK;
}

/* Nobody else would end a PE whose agent was killed, nor those that it keeps waiting on other hosts. */
static int agent_check(const pysh_control_t *control, int pe) {
    char during[PYSH_ACTIVITY_TEXT + 32];

    if (!agent || getppid() == agent)
        return ISHMEMX_OK;
    pysh_control_during(&control->slot[pe], during, sizeof during);
    return pysh_fail(ISHMEMX_ERR_PEER, "the launcher's process (pid %d), which started PE %d, died%s", (int)agent, pe,
                     during);
}

int pysh_peers_check(const pysh_control_t *control, int pe) {
    int status;

    pthread_mutex_lock(&looking);
    status = peers_check(control, pe);
    pthread_mutex_unlock(&looking);
    return status ? status : agent_check(control, pe);
}
