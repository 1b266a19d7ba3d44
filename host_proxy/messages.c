/* SPDX-License-Identifier: BSD-3-Clause
 * Requests that are words for people: a kernel's print, abort, and the news that it waits. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/elements.h"
#include "base/say.h"
#include "base/state.h"
#include "base/status.h"
#include "host_proxy/proxy.h"
#include "host_proxy/ring.h"
#include "host_proxy/rings.h"
#include "memory/kernel_faults.h"
#include "node/kernel_waits.h"
#include "node/node.h"
#include "node/report.h"
#include "ops/wait_until.h"

#define LAST_WORDS_NS (200 * 1000000LL)  /* for what is kept, of a process that ends */
#define WATCH_NS      (250 * 1000000LL)  /* between two words on a ring that is waited for */
#define OTHERS_NS     (1000 * 1000000LL) /* other waits of kernels are told of first: everybody has one line */

static void label_of(const pysh_request_t *request, char *label) {
    memcpy(label, request->word, 24);
    label[24] = '\0';
}

static void message_place_of(const pysh_request_t *request, char *text, size_t capacity) {
    uint64_t place = request->word[PYSH_WORD_EXTRA2];

    snprintf(text, capacity, "block %" PRIu64 ", thread %" PRIu64, place & 0xffffffff, place >> 32);
}

pysh_outcome_t pysh_handle_print(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    char label[25], place[64], line[160];
    int64_t value = (int64_t)request->word[PYSH_WORD_EXTRA];
    double real;
    int used;

    (void)ring;
    (void)ticket;
    label_of(request, label);
    message_place_of(request, place, sizeof place);
    memcpy(&real, &value, sizeof real);
    if (pysh_request_high(request) == PYSH_PRINT_INT)
        used = snprintf(line, sizeof line, "PE %d: %s = %" PRId64 " (%s)\n", pysh.pe, label, value, place);
    else if (pysh_request_high(request) == PYSH_PRINT_FLOAT)
        used = snprintf(line, sizeof line, "PE %d: %s = %.17g (%s)\n", pysh.pe, label, real, place);
    else
        used = snprintf(line, sizeof line, "PE %d: %s (%s)\n", pysh.pe, label, place);
    return pysh_outcome(pysh_say(STDOUT_FILENO, line, (size_t)used)
                            ? ISHMEMX_OK
                            : pysh_fail(ISHMEMX_ERR_SYSTEM, "a kernel's print did not reach stdout"));
}

/* The label of an ABORT; where the high half of PE says so, the first '#' is the low half of EXTRA, the next its
 * high half. */
static void reason_of(const pysh_request_t *request, char *text, size_t capacity) {
    uint64_t numbers = request->word[PYSH_WORD_EXTRA];
    int left = pysh_request_high(request);
    char label[25];
    size_t used = 0;

    label_of(request, label);
    for (const char *at = label; *at && used + 1 < capacity; at++) {
        if (*at == '#' && left > 0) {
            int wrote = snprintf(text + used, capacity - used, "%" PRId32, (int32_t)(uint32_t)numbers);

            used += (size_t)wrote < capacity - used ? (size_t)wrote : capacity - used - 1;
            numbers >>= 32;
            left--;
        } else {
            text[used++] = *at;
        }
    }
    text[used] = '\0';
}

/* Ends the process: its main thread may be waiting for a kernel that waits for the reply. */
pysh_outcome_t pysh_handle_quit(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    char reason[64], place[64], why[192];
    int code = pysh_request_pe(request);

    (void)ring;
    (void)ticket;
    reason_of(request, reason, sizeof reason);
    message_place_of(request, place, sizeof place);
    snprintf(why, sizeof why, "a kernel called abort(%d): %s (%s)", code, reason, place);
    pysh_node_abort(code, why);
    pysh_sayf(STDERR_FILENO, "PE %d: %s\n", pysh.pe, why);
    pysh_say_rest(LAST_WORDS_NS);
    _exit(code);
}

/* "for >= 7 from PE 0, seen 3", as host/faults.py says it of a wait that gave up. */
static void aim_of(const pysh_request_t *request, char *text, size_t capacity) {
    uint64_t what = request->word[PYSH_WORD_DEST];
    int64_t wanted = (int64_t)request->word[PYSH_WORD_SOURCE], value = (int64_t)request->word[PYSH_WORD_VALUE];
    int cmp = (int)(what >> PYSH_WAITING_CMP & 0xf);
    const char *symbol = pysh_cmp_symbol(cmp);
    char whom[21] = "";

    if (pysh_request_pe(request) >= 0)
        snprintf(whom, sizeof whom, " from PE %d", pysh_request_pe(request));
    if (!(what >> PYSH_WAITING_MANY & 1))
        snprintf(text, capacity, "for %s%s%" PRId64 "%s, seen %" PRId64 "%s", symbol ? symbol : "", symbol ? " " : "",
                 wanted, whom, value,
                 symbol ? pysh_wait_hint(ISHMEMX_TYPE_INT64, (uint64_t)value, cmp, (uint64_t)wanted) : "");
    else if (symbol)
        snprintf(text, capacity, "for %" PRId64 " elements %s %" PRId64, wanted, symbol, value);
    else
        snprintf(text, capacity, "for %" PRId64 " elements", wanted);
}

/* The status is not OK when the kernel had better give up. */
static int tell_of(pysh_kernel_wait_t *wait) {
    static _Thread_local int64_t alone_ns; /* of the kernels that this proxy's thread serves */
    int status = pysh_node_kernel_waits(wait);
    const char *why;

    if (status || wait->state == PYSH_KERNEL_GAVE_UP)
        return status;
    if ((why = pysh_report_due(&alone_ns, pysh_now_ns() - wait->since_ns,
                               wait->state != PYSH_KERNEL_RUNS && wait->state != PYSH_KERNEL_COMPILES)))
        pysh_report_kernel(wait, why);
    return status;
}

int ishmemx_kernel_is_seen(const char *text, int does, int64_t since_ns) {
    static const pysh_kernel_state_t states[] = {PYSH_KERNEL_RUNS, PYSH_KERNEL_POLLS, PYSH_KERNEL_COMPILES};
    pysh_kernel_wait_t wait = {.pe = -1, .since_ns = since_ns};
    char told[PYSH_WAIT_TEXT];

    if (does < 0 || does >= (int)(sizeof states / sizeof *states))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel does not do %d", does);
    wait.state = states[does];
    if (pysh.ready == PYSH_ENDING && wait.state == PYSH_KERNEL_POLLS)
        return pysh_fail(ISHMEMX_ERR_STATE, "%s: the job ends, and the kernel does not", text);
    if (!pysh.ready || pysh_board_own(told, sizeof told)) /* the kernel says more of itself */
        return ISHMEMX_OK;
    snprintf(wait.text, sizeof wait.text, "%s", text);
    return tell_of(&wait);
}

/* When a kernel has told of a wait itself, and when pysh_ring_watch() has. relaxed: they bound how often, no more. */
static _Atomic int64_t told_ns, watched_ns;

/* That its kernel had better give up is no news here: when a PE has died, the host's next call says so. */
void pysh_ring_watch(void) {
    pysh_kernel_wait_t wait = {.pe = -1};
    pysh_ring_waiter_t waiter;
    char who[224];
    int n_rings;
    pysh_ring_t *rings = pysh_proxy_rings(&n_rings);

    for (int k = 0; k < n_rings; k++) {
        int64_t now;
        if (!pysh_ring_waits(&rings[k], &waiter))
            continue;
        now = pysh_now_ns();
        if (now - atomic_load_explicit(&told_ns, memory_order_relaxed) < OTHERS_NS ||
            now - atomic_load_explicit(&watched_ns, memory_order_relaxed) < WATCH_NS)
            return;
        atomic_store_explicit(&watched_ns, now, memory_order_relaxed);
        pysh_ring_waiter_describe(&rings[k], &waiter, who, sizeof who);
        snprintf(wait.text, sizeof wait.text, "ring %d: %s", k, who);
        tell_of(&wait);
        return;
    }
}

pysh_outcome_t pysh_handle_waiting(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    bool gave_up = word[PYSH_WORD_DEST] >> PYSH_WAITING_GAVE_UP;
    pysh_kernel_wait_t wait = {.state = gave_up ? PYSH_KERNEL_GAVE_UP : PYSH_KERNEL_WAITS,
                               .collective = word[PYSH_WORD_DEST] >> PYSH_WAITING_COLLECTIVE & 0xff,
                               .pe = pysh_request_pe(request),
                               .expected = (int64_t)word[PYSH_WORD_SOURCE]};
    char kernel[104], routine[32], aim[76], place[40], rings[96]; /* with the rest: no more than wait.text */
    int status;

    (void)ring;
    (void)ticket;
    pysh_name_get(ISHMEMX_NAME_KERNEL, (int64_t)word[PYSH_WORD_EXTRA], kernel, sizeof kernel);
    pysh_name_get(ISHMEMX_NAME_ROUTINE, (int64_t)(word[PYSH_WORD_DEST] & 0xffff), routine, sizeof routine);
    aim_of(request, aim, sizeof aim);
    message_place_of(request, place, sizeof place);
    pysh_proxy_describe(rings, sizeof rings);
    snprintf(wait.text, sizeof wait.text, "kernel %s, %s, %s %s%s%s", kernel, place, routine, aim, rings[0] ? "; " : "",
             rings);
    atomic_store_explicit(&told_ns, pysh_now_ns(), memory_order_relaxed);
    if ((status = tell_of(&wait))) { /* why first: the kernel may be over a moment later, and its host look */
        pysh_ring_complain(PYSH_OP_WAITING, wait.pe, status);
        pysh_end_kernel_waits();
    }
    return pysh_outcome(ISHMEMX_OK);
}
