/* SPDX-License-Identifier: BSD-3-Clause
 * Signals while kernels run: a fault of the machine's tells which thread of which kernel it was, and then goes on to
 * whoever handled it before; SIGINT ends a launch, also of a kernel that never waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/say.h"
#include "fiber/faults.h"
#include "fiber/look.h"
#include "fiber/schedule.h"
#include "fiber/switch.h"

#define HANDLER_STACK  (64 * 1024)
#define MOST_LIBRARIES 1024
#define MOST_WORKERS   1024

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#define N_FAULTS (sizeof faults / sizeof *faults)

static struct {
    pthread_mutex_t mutex;
    bool installed;
    struct sigaction before[N_FAULTS], interrupt_before;
    int interruptible; /* launches */
    /* Where code of files is: what runs elsewhere is a kernel's, which holds no lock and can be left anywhere. */
    struct {
        uintptr_t from, to;
    } code[MOST_LIBRARIES];
    int n_code;
    unsigned long long loaded;
    _Atomic(worker_t *) workers[MOST_WORKERS]; /* of launches that SIGINT ends; read by the handler */
    worker_t *all[MOST_WORKERS];               /* with the mutex */
    int n_all;
} process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- faults ---- */

static void tell(int signal, const siginfo_t *info) {
    const worker_t *worker = pysh_worker;
    const fiber_t *fiber = worker ? worker->running : NULL;
    const ishmemx_cpu_thread_t *seen = fiber ? &fiber->seen : NULL;
    const char *what = strsignal(signal), *address = info->si_addr;
    char text[400];
    int n;

    if (!seen)
        return;
    n = snprintf(text, sizeof text,
                 "pyshmem: %s at address %p in kernel %s, block (%d, %d, %d), thread (%d, %d, %d)%s\n", what,
                 info->si_addr, worker->grid->launch->name, (int)seen->block[0], (int)seen->block[1],
                 (int)seen->block[2], (int)seen->thread[0], (int)seen->thread[1], (int)seen->thread[2],
                 address < fiber->low && address >= fiber->low - 65536
                     ? ": its stack is full, which is for local arrays and calls"
                     : "");
    if (n > 0)
        pysh_say_in_handler(STDERR_FILENO, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static void fault(int signal, siginfo_t *info, void *context) {
    int kept = errno;

    (void)context;
    tell(signal, info);
    for (size_t i = 0; i < N_FAULTS; i++)
        if (faults[i] == signal)
            sigaction(signal, &process.before[i], NULL); /* it comes again, to whom it came before */
    errno = kept;
}

static void install(void) {
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < N_FAULTS; i++)
        sigaction(faults[i], &action, &process.before[i]);
    process.installed = true;
}

/* ---- SIGINT ---- */

static int note_code(struct dl_phdr_info *info, size_t nbytes, void *unused) {
    (void)nbytes;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum && process.n_code < MOST_LIBRARIES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
            process.code[process.n_code].from = info->dlpi_addr + part->p_vaddr;
            process.code[process.n_code++].to = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        }
    }
    return 0;
}

static int count_loads(struct dl_phdr_info *info, size_t nbytes, void *loads) {
    (void)nbytes;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

/* With the mutex held. */
static void note_libraries(void) {
    unsigned long long loads = 0;

    dl_iterate_phdr(count_loads, &loads);
    if (loads == process.loaded)
        return;
    process.n_code = 0;
    dl_iterate_phdr(note_code, NULL);
    process.loaded = loads;
}

bool pysh_in_kernel(uintptr_t place) {
    for (int i = 0; i < process.n_code; i++)
        if (place >= process.code[i].from && place < process.code[i].to)
            return false;
    return process.n_code < MOST_LIBRARIES;
}

static void interrupt(int signal, siginfo_t *info, void *context) {
    const struct sigaction *before = &process.interrupt_before;
    worker_t *own = pysh_worker;
    int kept = errno;
    bool again = own && atomic_load(&own->grid->stop) == ISHMEMX_CPU_INTERRUPTED;

    if (!again) {
        if (before->sa_flags & SA_SIGINFO)
            before->sa_sigaction(signal, info, context);
        else if (before->sa_handler != SIG_IGN && before->sa_handler != SIG_DFL)
            before->sa_handler(signal);
        if (before->sa_handler != SIG_IGN)
            for (int i = 0; i < MOST_WORKERS; i++) {
                worker_t *worker = atomic_load(&process.workers[i]);
                if (!worker)
                    continue;
                pysh_grid_stop(worker->grid, ISHMEMX_CPU_INTERRUPTED);
                if (worker != own)
                    pthread_kill(worker->thread, signal);
            }
    }
    own = pysh_worker;
    if (own && own->running && atomic_load(&own->grid->stop) == ISHMEMX_CPU_INTERRUPTED &&
        pysh_in_kernel(pysh_interrupted_at(context)))
        pysh_return_to(context, pysh_leave);
    errno = kept;
}

static void enlist(worker_t *worker) {
    for (int i = 0; i < MOST_WORKERS; i++) {
        worker_t *none = NULL;
        if (atomic_compare_exchange_strong(&process.workers[i], &none, worker))
            return;
    }
}

static void strike(worker_t *worker) {
    for (int i = 0; i < MOST_WORKERS; i++) {
        worker_t *one = worker;
        if (atomic_compare_exchange_strong(&process.workers[i], &one, NULL))
            return;
    }
}

/* ---- for looks ---- */

void pysh_faults_lock(void) {
    pthread_mutex_lock(&process.mutex);
    if (!process.interruptible) /* else the handler of SIGINT may read it, and a launch has noted them */
        note_libraries();
}

void pysh_faults_unlock(void) {
    pthread_mutex_unlock(&process.mutex);
}

worker_t *pysh_faults_worker(const ishmemx_cpu_launch_t *launch, int *at) {
    while (*at < process.n_all) {
        worker_t *worker = process.all[(*at)++];

        if (worker->grid->launch == launch)
            return worker;
    }
    return NULL;
}

/* With the mutex held. Who finds no place is not looked at. */
static void show(worker_t *worker) {
    if (process.n_all < MOST_WORKERS)
        process.all[process.n_all++] = worker;
}

static void hide(worker_t *worker) {
    int at = 0;

    while (at < process.n_all && process.all[at] != worker)
        at++;
    if (at < process.n_all)
        process.all[at] = process.all[--process.n_all];
}

/* ---- by launch and by thread ---- */

/* A fiber's stack may be full when a handler is to run, so handlers have their own. */
static void own_stack(worker_t *worker) {
    stack_t now;

    worker->handler_stack = NULL;
    if (sigaltstack(NULL, &now) || !(now.ss_flags & SS_DISABLE) || !(worker->handler_stack = malloc(HANDLER_STACK)))
        return;
    sigaltstack(&(stack_t){.ss_sp = worker->handler_stack, .ss_size = HANDLER_STACK}, NULL);
}

static void no_stack(worker_t *worker) {
    if (!worker->handler_stack)
        return;
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE, .ss_size = HANDLER_STACK}, NULL);
    free(worker->handler_stack);
}

/* What a thread takes while it is a worker, and did not. */
static void take_signals(worker_t *worker, bool interrupts) {
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, PYSH_LOOK_SIGNAL);
    if (interrupts)
        sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &signals, &worker->mask);
}

void pysh_faults_begin(worker_t *worker, bool interruptible) {
    struct sigaction action = {.sa_sigaction = interrupt, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    own_stack(worker);
    pthread_mutex_lock(&process.mutex);
    if (!process.installed)
        install();
    show(worker);
    if (interruptible) {
        sigemptyset(&action.sa_mask);
        note_libraries();
        enlist(worker);
        if (process.interruptible++ == 0)
            sigaction(SIGINT, &action, &process.interrupt_before);
    }
    pthread_mutex_unlock(&process.mutex);
    if (!interruptible) /* else it is the main thread, which takes them */
        take_signals(worker, false);
}

void pysh_faults_end(worker_t *worker, bool interruptible) {
    if (!interruptible)
        pthread_sigmask(SIG_SETMASK, &worker->mask, NULL);
    pthread_mutex_lock(&process.mutex);
    if (interruptible) {
        if (--process.interruptible == 0)
            sigaction(SIGINT, &process.interrupt_before, NULL);
        strike(worker);
    }
    hide(worker);
    pthread_mutex_unlock(&process.mutex);
    pysh_look_forget(worker);
    no_stack(worker);
}

void pysh_thread_faults_begin(worker_t *worker) {
    bool interruptible = worker->grid->launch->interruptible;

    own_stack(worker);
    if (interruptible)
        enlist(worker);
    pthread_mutex_lock(&process.mutex);
    show(worker);
    pthread_mutex_unlock(&process.mutex);
    take_signals(worker, interruptible);
}

void pysh_thread_faults_end(worker_t *worker) {
    pthread_sigmask(SIG_SETMASK, &worker->mask, NULL);
    if (worker->grid->launch->interruptible)
        strike(worker);
    pthread_mutex_lock(&process.mutex);
    hide(worker);
    pthread_mutex_unlock(&process.mutex);
    pysh_look_forget(worker);
    no_stack(worker);
}
