/* SPDX-License-Identifier: BSD-3-Clause
 * What is told of threads that wait for each other in vain, in the words of the simulator (leaf/sim/greenlets.py). */
#include <stdarg.h>
#include <stdio.h>

#include "fiber/calls.h"
#include "fiber/schedule.h"

typedef struct {
    char *text;
    size_t capacity, at;
} told_t;

__attribute__((format(printf, 2, 3))) static void say(told_t *told, const char *format, ...) {
    va_list given;

    if (told->at >= told->capacity)
        return;
    va_start(given, format);
    int more = vsnprintf(told->text + told->at, told->capacity - told->at, format, given);
    va_end(given);
    told->at += (size_t)(more > 0 ? more : 0);
}

/* ---- threads by what they wait in ---- */

/* Threads from `first` to before `n` of a block that wait at one place. */
typedef struct {
    const block_t *block;
    int first, n, where;
} waiting_t;

static const fiber_t *waits(const waiting_t *those, int rank) {
    const fiber_t *fiber = those->block->fibers[rank];

    return fiber && fiber->at == those->where ? fiber : NULL;
}

/* Their ranks, of those that are in one call: " 0-3, 7". */
static void say_ranks(told_t *told, const waiting_t *those, const char *call) {
    const char *before = " ";

    for (int i = those->first; i < those->n; i++) {
        int begin = i;
        const fiber_t *fiber;

        while (i < those->n && (fiber = waits(those, i)) && pysh_is_same_call(fiber->call, call))
            i++;
        if (i == begin)
            continue;
        say(told, "%s%d", before, begin);
        if (i - 1 > begin)
            say(told, "-%d", i - 1);
        before = ", ";
    }
}

/* Is this the first thread of those that are in its call? */
static bool begins(const waiting_t *those, int rank) {
    const fiber_t *other;

    for (int i = those->first; i < rank; i++)
        if ((other = waits(those, i)) && pysh_is_same_call(other->call, those->block->fibers[rank]->call))
            return false;
    return true;
}

/* The calls that they wait in, each with its threads; the program's own is a `barrier`. */
static void say_calls(told_t *told, const waiting_t *those, const char *before, const char *is, const char *barrier) {
    for (int i = those->first; i < those->n; i++) {
        const fiber_t *fiber = waits(those, i);

        if (!fiber || !begins(those, i))
            continue;
        say(told, "%s", before);
        say_ranks(told, those, fiber->call);
        say(told, " %s %s;", is, fiber->call ? fiber->call : barrier);
    }
}

/* The last semicolon goes. */
static void end(told_t *told) {
    if (told->at && told->at < told->capacity)
        told->text[told->at - 1] = 0;
}

void pysh_block_tell(const block_t *block, char *text, size_t capacity) {
    static const char *const place[N_PLACES] = {
        [AT_WORK] = "", [AT_BLOCK] = "syncthreads", [AT_WARP] = "a warp's meeting", [AT_GRID] = "the grid's barrier"};
    told_t told = {text, capacity, 0};

    say(&told, "block (%d, %d, %d):", (int)block->index[0], (int)block->index[1], (int)block->index[2]);
    for (int where = AT_BLOCK; where < N_PLACES; where++)
        say_calls(&told, &(waiting_t){block, 0, block->n, where}, " threads", "at", place[where]);
    if (block->live < block->n)
        say(&told, " %d of its %d have ended;", block->n - block->live, block->n);
    end(&told);
}

/* ---- what is refused ---- */

/* Threads that go on are no longer where they waited, which they only say of themselves when they run. */
static void leave_places(const block_t *block) {
    for (int i = 0; i < block->n; i++) {
        fiber_t *fiber = block->fibers[i];

        if (fiber && (fiber->at == AT_BLOCK ||
                      (fiber->at == AT_WARP && !(block->warps[i / PYSH_WARP].waiting >> i % PYSH_WARP & 1))))
            fiber->at = AT_WORK;
    }
    for (fiber_t *fiber = block->waiting.first; fiber; fiber = fiber->next)
        fiber->at = AT_BLOCK;
}

static void say_group(told_t *told, const block_t *block, int warp) {
    if (warp >= 0)
        say(told, "warp %d of ", warp);
    say(told, "block %d", block->rank);
}

/* A thread of the group is in it without those that have ended. */
static void say_ended(told_t *told, const waiting_t *those, int warp) {
    const fiber_t *fiber = NULL;

    for (int i = those->first; i < those->n; i++)
        if ((fiber = waits(those, i)) && fiber->call)
            break;
    if (!fiber)
        return;
    say(told, "%s is for all %d threads of ", fiber->call, those->n - those->first);
    say_group(told, those->block, warp);
    say(told, " together, but threads have ended without it; in it:");
    say_ranks(told, those, fiber->call);
}

static void say_mixed(told_t *told, const waiting_t *those, int warp) {
    say(told, "threads of ");
    say_group(told, those->block, warp);
    say(told, " meet in different calls, each of which is for all of them together: threads");
    say_calls(told, those, "", "in", "a barrier");
    end(told);
}

void pysh_refuse(const block_t *block, int warp) {
    grid_t *grid = pysh_worker->grid;
    ishmemx_cpu_launch_t *launch = grid->launch;
    int first = warp < 0 ? 0 : warp * PYSH_WARP;
    int n = warp < 0 || first + PYSH_WARP > block->n ? block->n : first + PYSH_WARP;
    uint32_t all = n - first < PYSH_WARP ? (1u << (n - first)) - 1 : ~0u;
    waiting_t those = {block, first, n, warp < 0 ? AT_BLOCK : AT_WARP};
    told_t told = {launch->text, sizeof launch->text, 0};

    pthread_mutex_lock(&grid->mutex);
    if (!atomic_load(&grid->stop)) { /* the first one is told */
        memcpy(launch->block, block->index, sizeof launch->block);
        leave_places(block);
        if (warp < 0 ? block->live < block->n : block->warps[warp].live != all)
            say_ended(&told, &those, warp);
        else
            say_mixed(&told, &those, warp);
        pysh_grid_stop(grid, ISHMEMX_CPU_NOT_ALL);
    }
    pthread_mutex_unlock(&grid->mutex);
}

void pysh_refuse_given(const block_t *block, int warp, const fiber_t *a, const fiber_t *b) {
    grid_t *grid = pysh_worker->grid;
    ishmemx_cpu_launch_t *launch = grid->launch;
    told_t told = {launch->text, sizeof launch->text, 0};
    const char *name = pysh_call_of(a);
    int i = 0;

    name += strlen(name) + 1;
    while (a->seen.given[i] == b->seen.given[i] || a->seen.given[i] == INT64_MIN || b->seen.given[i] == INT64_MIN) {
        name += strlen(name) + 1;
        i++;
    }
    pthread_mutex_lock(&grid->mutex);
    if (!atomic_load(&grid->stop)) { /* the first one is told */
        memcpy(launch->block, block->index, sizeof launch->block);
        say(&told, "threads of ");
        say_group(&told, block, warp);
        say(&told, " call %s together with different arguments: %s is %lld in thread %d, %lld in thread %d",
            pysh_call_of(a), name, (long long)a->seen.given[i], (int)a->seen.rank, (long long)b->seen.given[i],
            (int)b->seen.rank);
        pysh_grid_stop(grid, ISHMEMX_CPU_NOT_ALL);
    }
    pthread_mutex_unlock(&grid->mutex);
}
