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

static bool in_kernel(uintptr_t place) {
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
        in_kernel(pysh_interrupted_at(context)))
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

void pysh_faults_begin(worker_t *worker, bool interruptible) {
    struct sigaction action = {.sa_sigaction = interrupt, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    own_stack(worker);
    pthread_mutex_lock(&process.mutex);
    if (!process.installed)
        install();
    if (interruptible) {
        sigemptyset(&action.sa_mask);
        note_libraries();
        enlist(worker);
        if (process.interruptible++ == 0)
            sigaction(SIGINT, &action, &process.interrupt_before);
    }
    pthread_mutex_unlock(&process.mutex);
}

void pysh_faults_end(worker_t *worker, bool interruptible) {
    if (interruptible) {
        pthread_mutex_lock(&process.mutex);
        if (--process.interruptible == 0)
            sigaction(SIGINT, &process.interrupt_before, NULL);
        strike(worker);
        pthread_mutex_unlock(&process.mutex);
    }
    no_stack(worker);
}

void pysh_thread_faults_begin(worker_t *worker) {
    sigset_t interrupts;

    own_stack(worker);
    if (!worker->grid->launch->interruptible)
        return;
    enlist(worker);
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &interrupts, NULL);
}

void pysh_thread_faults_end(worker_t *worker) {
    sigset_t interrupts;

    if (worker->grid->launch->interruptible) {
        sigemptyset(&interrupts);
        sigaddset(&interrupts, SIGINT);
        pthread_sigmask(SIG_BLOCK, &interrupts, NULL);
        strike(worker);
    }
    no_stack(worker);
}
