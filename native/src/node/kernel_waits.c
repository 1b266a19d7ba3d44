/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/kernel_waits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "accel/accel.h"
#include "base/clock.h"
#include "base/state.h"
#include "base/status.h"
#include "base/versioned.h"
#include "node/control.h"
#include "node/node.h"

#define FRESH_NS   (2 * 1000000000LL) /* a wait is told again four times a second */
#define STILL_NS   (750 * 1000000LL)  /* and waits no more when it has not told for so long */
#define GAVE_UP_NS (60 * 1000000000LL)
/* How long host and kernel must have stood in the same collective, for delays not to look like it. A GPU's host may
 * be busy elsewhere meanwhile. */
#define PATIENCE_NS     (500 * 1000000LL)
#define GPU_PATIENCE_NS (5 * 1000000000LL)

enum { WORDS = sizeof(pysh_posted_wait_t) / 8 };

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER; /* a proxy thread for each ring */

/* The wait posted on a board; false when there is none, or none that still matters. */
static bool read_board(const pysh_board_t *board, pysh_posted_wait_t *posted) {
    for (int attempt = 0; attempt < PYSH_COPY_ATTEMPTS; attempt++) {
        uint64_t begun = pysh_copy_begin(&board->version);
        pysh_words_load(board->word, posted, WORDS);
        if (pysh_copy_is_whole(&board->version, begun)) {
            int64_t age = pysh_now_ns() - posted->posted_ns;
            return posted->posted_ns && age < (posted->state == PYSH_KERNEL_GAVE_UP ? GAVE_UP_NS : FRESH_NS);
        }
    }
    return false;
}

static bool waits(const pysh_posted_wait_t *posted) {
    return posted->state == PYSH_KERNEL_WAITS || posted->state == PYSH_KERNEL_POLLS;
}

bool pysh_board_waits(const pysh_board_t *board) {
    pysh_posted_wait_t posted;

    return read_board(board, &posted) && waits(&posted);
}

static void board_write(pysh_board_t *board, const pysh_posted_wait_t *posted) {
    uint64_t begun = pysh_change_begin(&board->version);

    pysh_words_store(board->word, posted, WORDS);
    pysh_change_end(&board->version, begun);
}

void pysh_board_describe(const pysh_board_t *board, char *text, size_t capacity) {
    pysh_posted_wait_t posted;

    static const char *const does[] = {[PYSH_KERNEL_WAITS] = "waits",
                                       [PYSH_KERNEL_RUNS] = "has not ended",
                                       [PYSH_KERNEL_POLLS] = "polls",
                                       [PYSH_KERNEL_COMPILES] = "is compiled"};

    text[0] = '\0';
    if (!read_board(board, &posted))
        return;
    if (posted.state == PYSH_KERNEL_GAVE_UP)
        snprintf(text, capacity, "; its kernel gave up %.1f s ago: %s",
                 (double)(pysh_now_ns() - posted.posted_ns) * 1e-9, posted.text);
    else
        snprintf(text, capacity, "; its kernel %s (%.1f s so far): %s", does[posted.state],
                 (double)(pysh_now_ns() - posted.since_ns) * 1e-9, posted.text);
}

/* What this PE has posted, for itself: its board is in memory that goes with the job. */
static pysh_board_t own;

bool pysh_board_own(char *text, size_t capacity) {
    pysh_posted_wait_t posted;

    if (!read_board(&own, &posted) || posted.state != PYSH_KERNEL_WAITS || pysh_now_ns() - posted.posted_ns > STILL_NS)
        return false;
    snprintf(text, capacity, "%s", posted.text);
    return true;
}

enum { IN_BYTES = sizeof(((pysh_board_t *)0)->in) };

/* The host of `pe` is in a collective, `in`, that a kernel of PE `of` waits for, which is told by `text`: its name, and
 * with a comma what else is known of it. */
static int fail_to_meet(int pe, const char *in, int of, const char *text) {
    bool is_kernel = !strncmp(text, "kernel ", 7), at_the_end = !strncmp(in, "finalize", 8);
    int named = is_kernel ? (int)strcspn(text, ",") : 0;

    return pysh_fail(
        ISHMEMX_ERR_MISMATCH,
        "PE %d is in %s%s and has not launched %.*s as often as PE %d; all members launch it%s (at PE %d: %s)", pe, in,
        at_the_end ? "" : " on the host", is_kernel ? named : 10, is_kernel ? text : "the kernel", of,
        at_the_end ? "" : ", or call the collective all from the host", of, text + named + strspn(text + named, ", "));
}

/* Who refused, 0: nobody. By one thread at a time. */
static int take_refusal(pysh_board_t *board, char in[IN_BYTES]) {
    int by = atomic_load(&board->refused_by); /* pairs with the store in refuse() */

    if (by <= 0)
        return 0;
    pysh_words_load(board->in, in, IN_BYTES / 8);
    atomic_store(&board->refused_by, 0);
    return by;
}

/* The first who refuses says so. */
static void refuse(pysh_board_t *board, const char in[IN_BYTES]) {
    int32_t nobody = 0;

    if (!atomic_compare_exchange_strong(&board->refused_by, &nobody, -1))
        return;
    pysh_words_store(board->in, in, IN_BYTES / 8);
    atomic_store(&board->refused_by, pysh.pe + 1); /* pairs with the load in take_refusal() */
}

int pysh_board_post(pysh_board_t *board, pysh_kernel_wait_t *wait) {
    pysh_posted_wait_t old, posted = {.state = wait->state,
                                      .collective = wait->collective,
                                      .pe = wait->pe,
                                      .expected = wait->expected,
                                      .posted_ns = pysh_now_ns()};
    char in[IN_BYTES];
    int refused_by;

    memcpy(posted.text, wait->text, sizeof posted.text);
    pthread_mutex_lock(&writing);
    /* Several lanes take turns in telling of one collective. */
    posted.since_ns = wait->since_ns;
    if (!posted.since_ns)
        posted.since_ns = read_board(board, &old) && old.state == posted.state && old.collective == posted.collective &&
                                  old.expected == posted.expected
                              ? old.since_ns
                              : posted.posted_ns;
    wait->since_ns = posted.since_ns;
    board_write(board, &posted);
    board_write(&own, &posted);
    refused_by = take_refusal(board, in);
    pthread_mutex_unlock(&writing);
    return refused_by && wait->collective ? fail_to_meet(refused_by - 1, in, pysh.pe, wait->text) : ISHMEMX_OK;
}

static int member_pe(const pysh_members_t *members, int i) {
    return members->pes ? members->pes[i] : i;
}

/* A slot's number may be another team's elsewhere; but not at a PE that is in both. */
static bool same_team(const pysh_posted_wait_t *posted, const pysh_members_t *members) {
    if (posted->collective != members->slot + 1 &&
        (posted->collective != PYSH_COLLECTIVE_ALL || members->slot != PYSH_WORLD_SLOT))
        return false;
    for (int i = 0; i < members->n_pes; i++)
        if (member_pe(members, i) == posted->pe)
            return true;
    return false;
}

static int (*_Atomic kernel_epoch)(int collective, int64_t *epoch_p);

void pysh_board_kernel_epoch(int (*epoch)(int collective, int64_t *epoch_p)) {
    atomic_store(&kernel_epoch, epoch);
}

/* Have host and kernel been at it long enough, and will no kernel of this PE come to meet that one? */
static bool kernel_never_joins(const pysh_posted_wait_t *posted, int64_t since_ns) {
    int (*epoch)(int collective, int64_t *epoch_p) = atomic_load(&kernel_epoch);
    int64_t patience = pysh.arena[ISHMEMX_HEAP_DEVICE].cpu_visible ? PATIENCE_NS : GPU_PATIENCE_NS, done;

    if (posted->since_ns > since_ns)
        since_ns = posted->since_ns;
    return posted->state == PYSH_KERNEL_WAITS && posted->posted_ns - since_ns >= patience && pysh.accel &&
           pysh.accel->idle() && epoch && epoch((int)posted->collective, &done) == ISHMEMX_OK &&
           done < posted->expected;
}

int pysh_board_mismatch(pysh_control_slot_t *const *slots, const pysh_members_t *members, const char *what,
                        int64_t since_ns) {
    char place[PYSH_PLACE_TEXT], in[IN_BYTES] = "";
    pysh_posted_wait_t posted;

    for (int i = 0; i < members->n_pes; i++) {
        int pe = member_pe(members, i);
        pysh_control_slot_t *slot = pe == pysh.pe ? NULL : slots[pe];

        if (!slot || !read_board(&slot->board, &posted) || !same_team(&posted, members) ||
            atomic_load_explicit(&slot->activity_ns, memory_order_relaxed) || !kernel_never_joins(&posted, since_ns))
            continue;
        pysh_control_place(pysh_node.own, place, sizeof place);
        snprintf(in, sizeof in, "%s%s%s", what, place[0] ? " at " : "", place);
        refuse(&slot->board, in);
        return fail_to_meet(pysh.pe, in, pe, posted.text);
    }
    return ISHMEMX_OK;
}
