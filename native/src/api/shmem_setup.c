/* SPDX-License-Identifier: BSD-3-Clause
 * The C shell: setup and query. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/shell.h"
#include "base/clock.h"
#include "base/say.h"
#include "base/state.h"
#include "join/variables.h"
#include "memory/static_segment.h"
#include "node/enter.h"
#include "node/node.h"
#include "shmemx.h"

/* Every thread of a PE notices the end of the job, but C lets only one call exit(): the others wait for its handlers.
 */
static _Noreturn void shmem_leave(int status) {
    static _Atomic long leaving; /* thread; 0: none */
    long me = syscall(SYS_gettid), other = 0;

    if (atomic_compare_exchange_strong(&leaving, &other, me))
        exit(status);
    if (other == me) /* from one of its handlers */
        _exit(status);
    for (;;)
        pause();
}

/* Another PE's shmem_global_exit is this one's too. */
static void follow_global_exit(void) {
    uint32_t word;

    while ((word = atomic_load(pysh.alarm)) == PYSH_ALARM_RISES)
        sched_yield();
    if (!(word & PYSH_GLOBAL_EXIT))
        return;
    fflush(NULL);
    shmem_leave((int)(word & 0xff));
}

int pysh_shell_tell(const char *routine, int status) {
    follow_global_exit();
    pysh_sayf(STDERR_FILENO, "%s: %s: %s\n", pysh_who(), routine, ishmemx_error());
    return status;
}

/* The others are told before anything can wait for who reads: exit() writes what the program's streams have. */
void pysh_shell_die(const char *routine) {
    const int64_t last_words_ns = 500 * 1000 * 1000LL;
    char text[1024];

    follow_global_exit();
    snprintf(text, sizeof text, "%s: %s", routine, ishmemx_error());
    pysh_sayf(STDERR_FILENO, "%s: %s\n", pysh_who(), text);
    ishmemx_abort(1, text);
    pysh_say_rest(last_words_ns);
    shmem_leave(1);
}

static int shmem_start(int requested, int *provided) {
    ishmemx_config_t config;
    int status = ishmemx_config_from_environment(&config);

    if (!status && !ishmemx_initialized())
        pysh_statics_adopt(config.n_pes, pysh_launcher_several_hosts(config.n_pes));
    return status ? status : ishmemx_init_thread(&config, requested, provided);
}

ROUTINE(void, init, void) {
    int provided;

    SHELL(shmem_start(SHMEM_THREAD_SINGLE, &provided));
}

ROUTINE(int, init_thread, int requested, int *provided) {
    return shmem_start(requested, provided);
}

ROUTINE(void, query_thread, int *provided) {
    SHELL(ishmemx_query_thread(provided));
}

ROUTINE(void, query_initialized, int *initialized) {
    *initialized = ishmemx_initialized();
}

ROUTINE(void, finalize, void) {
    SHELL(ishmemx_finalize());
}

ROUTINE(void, global_exit, int status) {
    fflush(NULL);
    if (pysh.ready)
        pysh_node_abort(status, NULL);
    shmem_leave(status);
}

ROUTINE(int, my_pe, void) {
    return ishmemx_my_pe();
}

ROUTINE(int, n_pes, void) {
    return ishmemx_n_pes();
}

ROUTINE(int, pe_accessible, int pe) {
    return ishmemx_pe_accessible(pe);
}

ROUTINE(int, addr_accessible, const void *addr, int pe) {
    return ishmemx_addr_accessible(addr, pe);
}

double shmemx_wtime(void) {
    return (double)pysh_now_ns() * 1e-9;
}

/* For profilers to put their own in its place. */
ROUTINE(void, pcontrol, int level, ...) {
    (void)level;
}

ROUTINE(void, info_get_version, int *major, int *minor) {
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

ROUTINE(void, info_get_name, char *name) {
    memcpy(name, SHMEM_VENDOR_STRING, sizeof SHMEM_VENDOR_STRING);
}
