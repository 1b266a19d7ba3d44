/* SPDX-License-Identifier: BSD-3-Clause
 * The control segment: made, mapped, read. */
#define _GNU_SOURCE
#include "node/control.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/memory_file.h"
#include "base/process.h"
#include "base/status.h"
#include "base/versioned.h"
#include "ishmemx.h"
#include "node/kernel_waits.h"
#include "node/node.h"
#include "node/wait.h"

static size_t nbytes_of(int n_pes) {
    return sizeof(pysh_control_t) + (size_t)n_pes * sizeof(pysh_control_slot_t);
}

int ishmemx_control_create(int n_pes, int *fd) {
    pysh_control_t *control;
    int made;

    if (n_pes < 1 || n_pes > PYSH_MAX_PES)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "a job has 1 to %d PEs, not %d", PYSH_MAX_PES, n_pes);
    if ((made = pysh_memory_file("pyshmem-control")) < 0)
        return ISHMEMX_ERR_SYSTEM;
    if (made <= STDERR_FILENO) { /* a standard stream was closed: PEs must not write into this */
        int low = made;
        made = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        close(low);
    }
    if (made < 0 || pysh_memory_file_size(made, nbytes_of(n_pes)))
        goto failed;
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
    if (control == MAP_FAILED)
        goto failed;
    control->n_pes = n_pes;
    control->magic = PYSH_CONTROL_MAGIC;
    munmap(control, sizeof *control);
    *fd = made;
    return ISHMEMX_OK;
failed:
    pysh_fail(ISHMEMX_ERR_SYSTEM, "control segment of %d PEs: %s", n_pes, pysh_memory_file_reason(errno));
    if (made >= 0)
        close(made);
    return ISHMEMX_ERR_SYSTEM;
}

int pysh_control_map(int fd, int n_pes, pysh_control_t **control_p) {
    pysh_control_t *control;
    struct stat status;
    int found;

    if (fstat(fd, &status))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "control segment: descriptor %d: %s", fd, strerror(errno));
    if (status.st_size < (off_t)nbytes_of(1))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "descriptor %d is no control segment", fd);
    control = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "control segment: mmap: %s", strerror(errno));
    found = control->n_pes;
    if (control->magic != PYSH_CONTROL_MAGIC || nbytes_of(found) != (size_t)status.st_size) {
        munmap(control, (size_t)status.st_size);
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "descriptor %d is no control segment of this version of pyshmem", fd);
    }
    if (n_pes && found != n_pes) {
        munmap(control, (size_t)status.st_size);
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "the launcher's control segment is for %d PEs, the job has %d", found,
                         n_pes);
    }
    *control_p = control;
    return ISHMEMX_OK;
}

void pysh_exchange_begin(pysh_exchange_t *own, uint32_t epoch, const char *routine, const void *mine, size_t nbytes) {
    own->epoch = epoch;
    own->nbytes = (uint32_t)nbytes;
    snprintf(own->routine, sizeof own->routine, "%s", pysh_wait_given_name(routine));
    memcpy(own->bytes, mine, nbytes);
}

void pysh_exchange_name_barrier(pysh_exchange_t *own, uint32_t epoch, const char *routine) {
    own->barrier = epoch;
    snprintf(own->routine, sizeof own->routine, "%s", pysh_wait_given_name(routine));
}

int pysh_exchange_mismatch(const pysh_exchange_t *theirs, uint32_t epoch, const char *what, int pe, int other) {
    return pysh_fail(ISHMEMX_ERR_MISMATCH,
                     "PE %d called %s while PE %d called %s; all PEs must call the same ones in the same order", other,
                     theirs->epoch == epoch || theirs->barrier == epoch ? theirs->routine
                                                                        : "another collective routine",
                     pe, pysh_wait_given_name(what));
}

void pysh_control_unmap(pysh_control_t *control) {
    munmap(control, nbytes_of(control->n_pes));
}

void pysh_control_reset(pysh_control_t *control) {
    if (atomic_load(&control->aborted) != PYSH_ABORT_BY_LAUNCHER)
        atomic_store(&control->aborted, PYSH_ABORT_NONE);
    atomic_store(&control->arrivals, 0);
    atomic_store(&control->released, 0);
    atomic_store(&control->sleepers, 0);
    memset(control->slot, 0, (size_t)control->n_pes * sizeof *control->slot);
}

void pysh_control_set_activity(pysh_control_slot_t *slot, const char *what, int64_t since_ns, pysh_activity_t kind) {
    uint64_t words[PYSH_ACTIVITY_WORDS] = {0}, begun;

    if (what)
        memcpy(words, what, strnlen(what, sizeof words));
    begun = pysh_change_begin(&slot->activity_version);
    pysh_words_store(slot->activity, words, PYSH_ACTIVITY_WORDS);
    atomic_store_explicit(&slot->activity_ns, what ? since_ns : 0, memory_order_relaxed);
    /* relaxed: who reads it looks again and again, before anything follows from it */
    atomic_store_explicit(&slot->activity_kind, kind, memory_order_relaxed);
    atomic_store_explicit(&slot->polled_ns, what && kind == PYSH_POLLS ? pysh_now_ns() : 0, memory_order_relaxed);
    pysh_change_end(&slot->activity_version, begun);
}

/* Who has left a loop of tests does not say so: it is out of it when it has not told that it is in it for a while. */
static bool left_loop(const pysh_control_slot_t *slot) {
    const int64_t a_while = 1000 * 1000 * 1000LL;
    int64_t polled = atomic_load_explicit(&slot->polled_ns, memory_order_relaxed);

    return polled && pysh_now_ns() - polled > a_while;
}

/* Since when, 0: it does not wait; *place_p: at which line of the program, or empty, and *what_p: in what, both in
 * `text`. Of a PE that died during a change the text may be half of each. */
static int64_t get_activity(const pysh_control_slot_t *slot, char text[PYSH_ACTIVITY_TEXT + 1], const char **place_p,
                            const char **what_p) {
    int64_t since = 0;
    char *end;

    for (int attempt = 0; attempt < PYSH_COPY_ATTEMPTS; attempt++) {
        uint64_t begun = pysh_copy_begin(&slot->activity_version);
        since = atomic_load_explicit(&slot->activity_ns, memory_order_relaxed);
        pysh_words_load(slot->activity, text, PYSH_ACTIVITY_WORDS);
        if (pysh_copy_is_whole(&slot->activity_version, begun))
            break;
    }
    text[PYSH_ACTIVITY_TEXT] = '\0';
    end = strchr(text, '\n');
    *place_p = end ? text : "";
    *what_p = end ? end + 1 : text;
    if (end)
        *end = '\0';
    return left_loop(slot) ? 0 : since;
}

void pysh_control_place(const pysh_control_slot_t *slot, char *text, size_t capacity) {
    char shown[PYSH_ACTIVITY_TEXT + 1];
    const char *place, *what;

    snprintf(text, capacity, "%s", get_activity(slot, shown, &place, &what) ? place : "");
}

void pysh_control_during(const pysh_control_slot_t *slot, char *text, size_t capacity) {
    char shown[PYSH_ACTIVITY_TEXT + 1];
    const char *place, *what;

    text[0] = '\0';
    if (get_activity(slot, shown, &place, &what))
        snprintf(text, capacity, " while this PE was in %s", what);
}

/* Of a PE that is in no wait, while a kernel of it waits: is its host seen to be elsewhere than in the launch of that
 * kernel? What waits for a GPU is not seen. */
static bool host_may_run(const pysh_control_slot_t *slot) {
    return pysh.arena[ISHMEMX_HEAP_DEVICE].cpu_visible &&
           atomic_load_explicit(&slot->launches, memory_order_relaxed) <= 0;
}

pysh_standing_t pysh_control_standing(const pysh_control_slot_t *slot) {
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    bool kernel_waits;

    if (state == PYSH_PE_FINALIZED || state == PYSH_PE_LEFT)
        return PYSH_IS_OVER;
    if (state != PYSH_PE_RUNNING)
        return PYSH_GOES_ON;
    kernel_waits = pysh_board_waits(&slot->board);
    if (!atomic_load_explicit(&slot->activity_ns, memory_order_relaxed))
        return kernel_waits && !host_may_run(slot) ? PYSH_STANDS : PYSH_GOES_ON;
    switch (atomic_load_explicit(&slot->activity_kind, memory_order_relaxed)) {
    case PYSH_WAITS_FOR_WORDS:
        return PYSH_STANDS;
    case PYSH_WAITS_AT_THE_END:
        return PYSH_IS_OVER;
    case PYSH_POLLS:
        return left_loop(slot) ? PYSH_GOES_ON : PYSH_IS_POLLING;
    }
    return kernel_waits ? PYSH_STANDS : PYSH_GOES_ON; /* in a wait for its stream, for one */
}

static void describe_host(const pysh_control_slot_t *slot, char *text, size_t capacity) {
    char shown[PYSH_ACTIVITY_TEXT + 1];
    const char *place, *what;
    int64_t since = get_activity(slot, shown, &place, &what);

    switch (atomic_load_explicit(&slot->state, memory_order_relaxed)) {
    case PYSH_PE_ABSENT:
        snprintf(text, capacity, "not initialised");
        return;
    case PYSH_PE_FINALIZED:
        snprintf(text, capacity, "finalised");
        return;
    case PYSH_PE_LEFT:
        snprintf(text, capacity, "ended without finalize");
        return;
    }
    if (!since) {
        snprintf(text, capacity, "running");
        return;
    }
    snprintf(text, capacity, "in %s for %.1f s%s%s", what, (double)(pysh_now_ns() - since) * 1e-9,
             place[0] ? ", at " : "", place);
}

void pysh_control_set_process(pysh_control_slot_t *slot, const pysh_process_t *process) {
    atomic_store(&slot->pid, process->pid);
    atomic_store(&slot->pid_namespace, process->pid_namespace);
    atomic_store(&slot->pid_start, process->start);
}

pysh_process_t pysh_control_process(const pysh_control_slot_t *slot) {
    return (pysh_process_t){atomic_load(&slot->pid), atomic_load(&slot->pid_namespace), atomic_load(&slot->pid_start)};
}

/* Cores that PEs were seen on last: of all, and whether the lowest on `core` comes before this PE. */
static bool note_cores(pysh_control_slot_t *const *slots, int n_pes, const pysh_control_slot_t *own, int32_t core,
                       cpu_set_t *seen, bool *shares_p) {
    bool before = false;

    CPU_ZERO(seen);
    *shares_p = false;
    for (int pe = 0; pe < n_pes; pe++) {
        const pysh_control_slot_t *slot = slots[pe];
        int32_t there = slot ? atomic_load_explicit(&slot->core, memory_order_relaxed) : 0;
        if (!there || atomic_load_explicit(&slot->state, memory_order_relaxed) != PYSH_PE_RUNNING)
            continue;
        CPU_SET((size_t)there - 1, seen);
        if (slot == own || there != core)
            continue;
        *shares_p = true;
        before = before || pe < pysh.pe;
    }
    return before;
}

/* Two PEs that the system put on one core stay there, as each gives it to the other: where there is a core for each,
 * the one with the higher number goes. */
bool pysh_control_shares_core(pysh_control_slot_t *own, pysh_control_slot_t *const *slots, int n_pes) {
    int32_t core = sched_getcpu() + 1;
    cpu_set_t seen;
    bool shares;

    if (core <= 0)
        return true;
    /* Relaxed, as all that look at the word: nothing follows from it but when a thread gives its core away. */
    if (atomic_load_explicit(&own->core, memory_order_relaxed) != core)
        atomic_store_explicit(&own->core, core, memory_order_relaxed);
    if (note_cores(slots, n_pes, own, core, &seen, &shares) && !pysh.crowded && pysh_core_leave(&seen)) {
        atomic_store_explicit(&own->core, sched_getcpu() + 1, memory_order_relaxed);
        return false;
    }
    return shares;
}

/* A process that is stopped says nothing itself. */
static void describe_process(const pysh_control_slot_t *slot, char *text, size_t capacity) {
    pysh_process_t process = pysh_control_process(slot);
    char state = pysh_process_state(&process);

    text[0] = '\0';
    if (state == 'T')
        snprintf(text, capacity, ", stopped by a signal (kill -CONT %d lets it go on)", (int)process.pid);
    else if (state == 't')
        snprintf(text, capacity, ", stopped by a debugger");
}

void pysh_control_describe_slot(const pysh_control_slot_t *slot, char *text, size_t capacity) {
    size_t used;

    describe_host(slot, text, capacity);
    used = strlen(text);
    if (atomic_load_explicit(&slot->state, memory_order_relaxed) != PYSH_PE_RUNNING)
        return;
    pysh_board_describe(&slot->board, text + used, capacity - used);
    used = strlen(text);
    describe_process(slot, text + used, capacity - used);
}

void pysh_control_set_abort(pysh_control_t *control, uint32_t by, int pe, const char *why) {
    uint32_t none = PYSH_ABORT_NONE;

    if (!atomic_compare_exchange_strong(&control->aborted, &none, PYSH_ABORT_IN_WRITING))
        return;
    snprintf(control->why, sizeof control->why, "%s", why);
    control->failed = 1 + pe;
    /* release: pairs with the acquire in pysh_control_abort_reason() */
    atomic_store_explicit(&control->aborted, by, memory_order_release);
}

const char *pysh_control_abort_reason(const pysh_control_t *control) {
    uint32_t aborted = atomic_load_explicit(&control->aborted, memory_order_acquire);

    if (aborted == PYSH_ABORT_NONE)
        return NULL;
    return aborted == PYSH_ABORT_IN_WRITING ? "the reason is not written yet" : control->why;
}

bool pysh_control_claim_report(_Atomic int64_t *word, int64_t since_ns) {
    int64_t last = atomic_load(word);

    return last < since_ns && atomic_compare_exchange_strong(word, &last, pysh_now_ns());
}

int ishmemx_control_describe(int fd, int pe, char *text, size_t capacity) {
    pysh_control_t *control = NULL;
    int status = pysh_control_map(fd, 0, &control);

    if (status)
        return status;
    if (pe < 0 || pe >= control->n_pes)
        status = pysh_check_pe(pe, control->n_pes);
    else
        pysh_control_describe_slot(&control->slot[pe], text, capacity);
    pysh_control_unmap(control);
    return status;
}

int ishmemx_control_failed(int fd, int *pe) {
    pysh_control_t *control = NULL;
    const char *why;
    int status = pysh_control_map(fd, 0, &control);

    if (status)
        return status;
    why = pysh_control_abort_reason(control);
    *pe = why == control->why ? control->failed - 1 : -1;
    pysh_control_unmap(control);
    return ISHMEMX_OK;
}

int ishmemx_control_global_exit(int fd, int *code) {
    pysh_control_t *control = NULL;
    int status = pysh_control_map(fd, 0, &control);
    uint32_t word;

    if (status)
        return status;
    word = atomic_load(&control->aborted);
    *code = word & PYSH_GLOBAL_EXIT ? (int)(word & 0xff) : -1;
    pysh_control_unmap(control);
    return ISHMEMX_OK;
}

int ishmemx_control_abort(int fd, const char *why) {
    pysh_control_t *control = NULL;
    int status = pysh_control_map(fd, 0, &control);

    if (status)
        return status;
    pysh_control_set_abort(control, PYSH_ABORT_BY_LAUNCHER, -1, why);
    pysh_control_unmap(control);
    return ISHMEMX_OK;
}
