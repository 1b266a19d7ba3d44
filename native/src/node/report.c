/* SPDX-License-Identifier: BSD-3-Clause
 * What the PEs are at, for those who have waited too long; and the names of what kernels do. */
#include "node/report.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/say.h"
#include "base/state.h"
#include "base/status.h"
#include "node/node.h"

/* ---- names ---- */

#define NAME_BYTES 96
#define MAX_NAMES  (1 << 20)

typedef char name_t[NAME_BYTES];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    name_t *name;
    int64_t n;
} names[ISHMEMX_NAME_KINDS];

/* Those of numbers past the table: hashes, which front ends give whose kernels are cached by others. */
static struct {
    struct {
        int64_t number;
        name_t name;
    } *row;
    int64_t n;
} hashed[ISHMEMX_NAME_KINDS];

static char *find_hashed(int kind, int64_t number) {
    for (int64_t i = 0; i < hashed[kind].n; i++)
        if (hashed[kind].row[i].number == number)
            return hashed[kind].row[i].name;
    return NULL;
}

static char *place_hashed(int kind, int64_t number) {
    char *place = find_hashed(kind, number);
    void *grown;

    if (place)
        return place;
    grown = realloc(hashed[kind].row, (size_t)(hashed[kind].n + 1) * sizeof *hashed[kind].row);
    if (!grown)
        return NULL;
    hashed[kind].row = grown;
    hashed[kind].row[hashed[kind].n].number = number;
    return hashed[kind].row[hashed[kind].n++].name;
}

static char *report_place_of(int kind, int64_t number) {
    name_t *grown;

    if (number >= MAX_NAMES)
        return place_hashed(kind, number);
    if (number >= names[kind].n) {
        grown = realloc(names[kind].name, (size_t)(number + 1) * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + names[kind].n, 0, (size_t)(number + 1 - names[kind].n) * sizeof *grown);
        names[kind].name = grown;
        names[kind].n = number + 1;
    }
    return names[kind].name[number];
}

int ishmemx_name_set(int kind, int64_t number, const char *name) {
    int status = ISHMEMX_OK;
    char *place;

    if (kind < 0 || kind >= ISHMEMX_NAME_KINDS || number < 0)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "name %lld of kind %d is out of range", (long long)number, kind);
    pthread_mutex_lock(&mutex);
    place = report_place_of(kind, number);
    if (place)
        snprintf(place, NAME_BYTES, "%s", name);
    else
        status = pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for the name %s", name);
    pthread_mutex_unlock(&mutex);
    return status;
}

void pysh_name_get(int kind, int64_t number, char *text, size_t capacity) {
    const char *name;

    pthread_mutex_lock(&mutex);
    name = number >= 0 && number < names[kind].n ? names[kind].name[number] : find_hashed(kind, number);
    if (name && *name)
        snprintf(text, capacity, "%s", name);
    else
        snprintf(text, capacity, "%lld", (long long)number);
    pthread_mutex_unlock(&mutex);
}

/* ---- reports ---- */

/* What front ends write behind the name of a kernel on the CPU that its program waits for. */
#define LAUNCHED ", launched at "
#define NO_RETURN                                                                                                   \
    "if its own PE was to end this wait behind the launch: where kernels run on the CPU a launch returns when its " \
    "kernel has ended; do it before, or launch on a stream (pyshmem.streams.Stream)"

#define OWN_LOOP                                                                                                    \
    "a kernel's loop that reads until a word changes is no wait: it has no deadline, a compiler may read the word " \
    "once, and the simulator runs no other thread meanwhile; wait_until and signal_wait_until of pyshmem.device "   \
    "wait, for words of the own PE: let another PE send its word (p, signal_set)"

static void (*_Atomic describe_rings)(char *text, size_t capacity);

void pysh_report_rings(void (*describe)(char *text, size_t capacity)) {
    atomic_store(&describe_rings, describe);
}

static void append(char *text, size_t capacity, const char *line) {
    size_t used = strlen(text);

    snprintf(text + used, capacity - used, "\n%s", line);
}

void pysh_report(char *text, size_t capacity) {
    void (*describe)(char *text, size_t capacity) = atomic_load(&describe_rings);
    char rings[1280] = "";
    size_t used;

    pysh_node_describe(text, capacity);
    if (describe && !strstr(text, "; ring ")) /* else each kernel that waits has told of them */
        describe(rings, sizeof rings);
    used = strlen(text);
    if (rings[0])
        snprintf(text + used, capacity - used, "\nPE %d's %s", pysh.pe, rings);
    if (strstr(text, "; its kernel is compiled ")) /* and others may wait for that */
        return;
    if (strstr(text, "; its kernel polls ") || strstr(text, "; its kernel has not ended "))
        append(text, capacity, OWN_LOOP);
    else if (strstr(text, LAUNCHED))
        append(text, capacity, NO_RETURN);
}

/* How long nobody must have been left: a PE may have stored a word a moment before it came to its end. A word that all
 * wait for may come from a thread of the program, or from elsewhere. */
#define OVER_NS  (3 * 1000000000LL)
#define ALONE_NS (15 * 1000000000LL)

/* Of kernels on a GPU whose hosts wait for words nothing is known while they do not wait themselves. */
static bool kernels_may_run(void) {
    return pysh.accel && !pysh.arena[ISHMEMX_HEAP_DEVICE].cpu_visible;
}

/* Has nobody been left for so long that it is no moment's chance? */
static bool alone_for(int64_t limit, int64_t *alone_ns, int64_t waited_ns) {
    int64_t now = pysh_now_ns();

    if (!*alone_ns)
        *alone_ns = now;
    return now - *alone_ns >= limit && waited_ns >= limit;
}

const char *pysh_report_due(int64_t *alone_ns, int64_t waited_ns, bool for_words) {
    bool over;

    if (pysh.report_after_ns <= 0)
        return NULL;
    if (waited_ns > pysh.report_after_ns)
        return " and goes on";
    if (!for_words || !pysh_node_nobody_left(&over, false) || (!over && kernels_may_run())) {
        *alone_ns = 0;
        return NULL;
    }
    if (!alone_for(over ? OVER_NS : ALONE_NS, alone_ns, waited_ns))
        return NULL;
    return over ? ", and no PE is left that could end that: each is in finalize, has ended, or waits too; it goes on"
                : ", and so does every PE; it goes on";
}

const char *pysh_report_loop_due(int64_t *alone_ns, int64_t waited_ns) {
    static atomic_bool told; /* once: PEs that serve somebody poll for hours */
    bool over;

    if (pysh.report_after_ns <= 0)
        return NULL;
    if (!pysh_node_nobody_left(&over, true) || (!over && kernels_may_run())) {
        *alone_ns = 0;
        return NULL;
    }
    if (!alone_for(over ? OVER_NS : pysh.report_after_ns, alone_ns, waited_ns))
        return NULL;
    if (over)
        return ", and no PE is left that could end that: each is in finalize, has ended, waits, or polls too; it goes "
               "on";
    return atomic_exchange(&told, true) ? NULL : ", and every PE polls or waits; it goes on";
}

static void write_report(const char *how, const char *name, const char *place, int64_t since_ns, const char *why,
                         const char *settings) {
    char standing[8192];

    if (!pysh_node_claim_report(since_ns))
        return;
    pysh_report(standing, sizeof standing);
    pysh_sayf(STDERR_FILENO, "pyshmem: PE %d %s %s for %.3g s%s%s%s (%s); the PEs stand:\n%s\n", pysh.pe, how, name,
              (double)(pysh_now_ns() - since_ns) * 1e-9, place[0] ? " at " : "", place, why, settings, standing);
}

/* A program may have set it when it was too late. */
static bool timeout_came_late(void) {
    const char *now = getenv("PYSHMEM_TIMEOUT");

    return now && strtod(now, NULL) > 0 && pysh.timeout_ns <= 0;
}

void pysh_report_long_wait(const char *what, const char *place, int64_t since_ns, const char *why) {
    write_report("waits in", what, place, since_ns, why,
                 timeout_came_late() ? "PYSHMEM_TIMEOUT was set behind init, which had read it: set it before"
                                     : "PYSHMEM_TIMEOUT ends such waits, PYSHMEM_REPORT_AFTER moves this message");
}

/* The kernel's name, with where it was launched: what comes before its block. */
void pysh_report_kernel(const pysh_kernel_wait_t *wait, const char *why) {
    const char *block = strstr(wait->text, ", block ");
    char name[PYSH_WAIT_TEXT];
    bool is_kernel = !strncmp(wait->text, "kernel ", 7);

    snprintf(name, sizeof name, "%.*s%s", block ? (int)(block - wait->text) : (int)strlen(wait->text), wait->text,
             strstr(wait->text, LAUNCHED) || wait->state == PYSH_KERNEL_COMPILES ? "," : "");
    if (wait->state == PYSH_KERNEL_RUNS)
        write_report("is in", name, "", wait->since_ns, why, "PYSHMEM_REPORT_AFTER moves this message");
    else if (wait->state == PYSH_KERNEL_COMPILES)
        write_report("compiles", name, "", wait->since_ns, why, "PYSHMEM_REPORT_AFTER moves this message");
    else if (wait->state == PYSH_KERNEL_POLLS)
        write_report("polls in", name, "", wait->since_ns, why, "PYSHMEM_REPORT_AFTER=0 leaves out this message");
    else
        pysh_report_long_wait(is_kernel ? name : "a kernel", "", wait->since_ns, why);
}

void pysh_report_long_loop(const char *name, const char *place, int64_t since_ns, const char *why) {
    write_report("polls in", name, place, since_ns, why, "PYSHMEM_REPORT_AFTER=0 leaves out this message");
}

int ishmemx_report(char *text, size_t capacity) {
    text[0] = '\0';
    if (pysh.ready)
        pysh_report(text, capacity);
    return ISHMEMX_OK;
}
