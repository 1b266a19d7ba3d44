/* SPDX-License-Identifier: BSD-3-Clause
 * Looks at kernels from another thread: does one of their threads poll memory in a loop of its own?
 *
 * Nothing in compiled code says so. A signal's handler notes where a worker is, and what its registers and the end of
 * its stack hold. A thread that does something has changed one of them, if only a counter, and never is as it was. A
 * loop that reads the same again and again soon is. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fiber/faults.h"
#include "fiber/look.h"
#include "fiber/schedule.h"
#include "fiber/switch.h"

#define LOOKS         64
#define LOOK_EVERY_NS 100000
#define ANSWER_NS     50000
#define ANSWER_TURNS  100
#define PLACES        4096
#define MOST_KEPT     3072
#define ONE_IN        8 /* looks: so many of a loop that polls, which may read a few hundred words in a turn */

typedef struct watched {
    uint64_t seen[PLACES]; /* states, by their digests; 0: none */
    int kept, looks, again;
    uint64_t turns;
} watched_t;

static struct sigaction before; /* with the lock of faults.h */

/* ---- in the worker's thread ---- */

static void note(worker_t *worker, const void *context) {
    const fiber_t *fiber = worker->running;
    look_t *look = &worker->look;

    look->in_kernel = fiber && pysh_in_kernel(pysh_interrupted_at(context));
    look->turns = worker->turns;
    if (!look->in_kernel)
        return;
    look->state = pysh_interrupted_with(context, fiber->low, (const char *)fiber);
    memcpy(look->block, fiber->seen.block, sizeof look->block);
    memcpy(look->thread, fiber->seen.thread, sizeof look->thread);
}

static void handler(int signal, siginfo_t *info, void *context) {
    worker_t *own = pysh_worker;
    int kept = errno;

    if (!own || !atomic_exchange(&own->asked, 0)) { /* it is another's */
        if (before.sa_flags & SA_SIGINFO)
            before.sa_sigaction(signal, info, context);
        else if (before.sa_handler != SIG_IGN && before.sa_handler != SIG_DFL)
            before.sa_handler(signal);
        errno = kept;
        return;
    }
    note(own, context);
    atomic_fetch_add_explicit(&own->answers, 1, memory_order_release);
    if (own->look.in_kernel && atomic_load(&own->grid->stop) == ISHMEMX_CPU_GIVEN_UP)
        pysh_return_to(context, pysh_leave);
    errno = kept;
}

/* ---- in the thread that looks, with the lock, while which no launch ends ---- */

static void look_begin(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    pysh_faults_lock();
    sigemptyset(&action.sa_mask);
    sigaction(PYSH_LOOK_SIGNAL, &action, &before);
}

static void look_end(void) {
    sigaction(PYSH_LOOK_SIGNAL, &before, NULL);
    pysh_faults_unlock();
}

static void pause_for(long ns) {
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* False: it does not run just now. */
static bool look_at(worker_t *worker) {
    int answers = atomic_load(&worker->answers);

    atomic_store(&worker->asked, 1);
    if (pthread_kill(worker->thread, PYSH_LOOK_SIGNAL))
        return false;
    for (int i = 0; i < ANSWER_TURNS; i++) {
        if (atomic_load_explicit(&worker->answers, memory_order_acquire) != answers)
            return true;
        pause_for(ANSWER_NS);
    }
    if (atomic_exchange(&worker->asked, 0)) /* nobody will answer any more */
        return false;
    while (atomic_load_explicit(&worker->answers, memory_order_acquire) == answers)
        pause_for(ANSWER_NS);
    return true;
}

/* Has it been like this before? */
static bool is_known(watched_t *watched, uint64_t state) {
    size_t at = state % PLACES;

    for (; watched->seen[at]; at = (at + 1) % PLACES)
        if (watched->seen[at] == state)
            return true;
    if (watched->kept < MOST_KEPT) {
        watched->seen[at] = state;
        watched->kept++;
    }
    return false;
}

static void compare(watched_t *watched, const look_t *look) {
    if (look->turns != watched->turns) {
        memset(watched, 0, sizeof *watched);
        watched->turns = look->turns;
    }
    if (!look->in_kernel)
        return;
    watched->looks++;
    watched->again += is_known(watched, look->state | 1);
}

static bool look_on(worker_t *worker) {
    if (!worker->watched && !(worker->watched = calloc(1, sizeof *worker->watched)))
        return false;
    if (!look_at(worker))
        return false;
    compare(worker->watched, &worker->look);
    return true;
}

int ishmemx_cpu_look(int64_t launch, int32_t *block, int32_t *thread) {
    worker_t *worker;
    int most = -1;

    look_begin();
    for (int at = 0; (worker = pysh_faults_worker((void *)(uintptr_t)launch, &at));)
        for (int i = 0; i < LOOKS && look_on(worker); i++)
            pause_for(LOOK_EVERY_NS);
    for (int at = 0; (worker = pysh_faults_worker((void *)(uintptr_t)launch, &at));) {
        const watched_t *watched = worker->watched;
        int again = watched && watched->again >= watched->looks / ONE_IN ? watched->again : 0;

        if (again <= most)
            continue;
        most = again;
        memcpy(block, worker->look.block, sizeof worker->look.block);
        memcpy(thread, worker->look.thread, sizeof worker->look.thread);
    }
    look_end();
    return most;
}

int ishmemx_cpu_give_up(int64_t launch) {
    worker_t *worker;
    int left = -1;

    look_begin();
    for (int at = 0; (worker = pysh_faults_worker((void *)(uintptr_t)launch, &at));) {
        pysh_grid_stop(worker->grid, ISHMEMX_CPU_GIVEN_UP);
        for (int i = 0; i < LOOKS; i++)
            if (look_at(worker) && worker->look.in_kernel) {
                left = 0;
                break;
            }
    }
    look_end();
    return left;
}

void pysh_look_forget(worker_t *worker) {
    free(worker->watched);
    worker->watched = NULL;
}
