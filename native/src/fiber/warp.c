/* SPDX-License-Identifier: BSD-3-Clause
 * Meetings of lanes. The lane that comes last works the results out for all. */
#include "fiber/warp.h"
#include "fiber/calls.h"
#include "fiber/schedule.h"

static bool has(uint32_t lanes, int lane) {
    return lane >= 0 && lane < PYSH_WARP && lanes >> lane & 1;
}

static uint64_t shuffled(const warp_t *warp, uint32_t group, int lane) {
    int operand = warp->operand[lane], source = lane;

    switch (warp->op[lane]) {
    case PYSH_PICK:
        source = operand & (PYSH_WARP - 1);
        break;
    case PYSH_UP:
        source = lane - operand;
        break;
    case PYSH_DOWN:
        source = lane + operand;
        break;
    default:
        source = lane ^ operand;
    }
    return warp->value[has(group, source) ? source : lane]; /* out of the group: a GPU says nothing of it */
}

static uint64_t result(const warp_t *warp, uint32_t group, int lane) {
    uint32_t lanes = 0;

    if (warp->op[lane] == PYSH_SYNC)
        return 0;
    if (warp->op[lane] < PYSH_BALLOT)
        return shuffled(warp, group, lane);
    for (int other = 0; other < PYSH_WARP; other++)
        if (has(group, other) &&
            (warp->op[lane] == PYSH_BALLOT ? warp->value[other] != 0 : warp->value[other] == warp->value[lane]))
            lanes |= 1u << other;
    return lanes | (uint64_t)group << 32;
}

/* Have all lanes that `lane` waits for come to the same meeting? */
static bool complete(const warp_t *warp, int lane) {
    uint32_t group = warp->mask[lane] & warp->live;

    if (group & ~warp->waiting)
        return false;
    for (int other = 0; other < PYSH_WARP; other++)
        if (has(group, other) && warp->mask[other] != warp->mask[lane])
            return false;
    return true;
}

/* `own`: the lane that runs, which is not put on the line; -1: none. */
static void release(warp_t *warp, int lane, worker_t *worker, int own) {
    uint32_t group = warp->mask[lane] & warp->live;

    for (int other = 0; other < PYSH_WARP; other++)
        if (has(group, other))
            warp->lane[other]->result = result(warp, group, other);
    for (int other = 0; other < PYSH_WARP; other++)
        if (has(group, other) && other != own)
            line_add(&worker->ready, warp->lane[other]);
    warp->waiting &= ~group;
    warp->of_routine &= ~group;
    worker->yields = worker->idle = 0;
}

/* Lanes that are in a routine's meeting meet in it alone, and all that there are. */
static bool is_refused(const block_t *block, int number, uint32_t group) {
    const warp_t *warp = &block->warps[number];
    int n = block->n - number * PYSH_WARP;
    uint32_t all = n < PYSH_WARP ? (1u << n) - 1 : ~0u, routine = warp->of_routine & group;
    const fiber_t *first = warp->lane[__builtin_ctz(group)];

    if (!routine)
        return false;
    if (routine != group || warp->live != all)
        return true;
    for (uint32_t left = group & (group - 1); left; left &= left - 1)
        if (!pysh_is_same_call(warp->lane[__builtin_ctz(left)]->call, first->call))
            return true;
    return false;
}

/* Of lanes that are in one routine's meeting: the first one that gives it something else than the first of all. */
static const fiber_t *differs(const warp_t *warp, uint32_t group) {
    const fiber_t *first = warp->lane[__builtin_ctz(group)];

    if (!(warp->of_routine & group))
        return NULL;
    for (uint32_t left = group & (group - 1); left; left &= left - 1) {
        const fiber_t *other = warp->lane[__builtin_ctz(left)];
        if (pysh_gives_other(first, other))
            return other;
    }
    return NULL;
}

/* The lanes in `group` meet now, or the launch ends. */
static void refuse_wrong(const block_t *block, int number, uint32_t group, fiber_t *self) {
    const warp_t *warp = &block->warps[number];
    const fiber_t *other;

    if (is_refused(block, number, group)) {
        self->at = AT_WARP;
        pysh_refuse(block, number);
        pysh_leave();
    }
    if ((other = differs(warp, group))) {
        pysh_refuse_given(block, number, warp->lane[__builtin_ctz(group)], other);
        pysh_leave();
    }
}

static uint64_t meet(int32_t op, uint32_t mask, uint64_t value, int32_t operand, bool of_routine) {
    worker_t *worker = pysh_worker;
    fiber_t *self = worker->running;
    int lane = self->seen.rank % PYSH_WARP, number = self->seen.rank / PYSH_WARP;
    warp_t *warp = &self->block->warps[number];

    self->call = of_routine ? pysh_call_of(self) : NULL;
    warp->of_routine = (warp->of_routine & ~(1u << lane)) | (uint32_t)of_routine << lane;
    warp->mask[lane] = mask | 1u << lane;
    warp->op[lane] = op;
    warp->operand[lane] = operand;
    warp->value[lane] = value;
    warp->lane[lane] = self;
    warp->waiting |= 1u << lane;
    if (of_routine)
        refuse_wrong(self->block, number, 1u << lane, self);
    if (complete(warp, lane)) {
        refuse_wrong(self->block, number, warp->mask[lane] & warp->live, self);
        release(warp, lane, worker, lane);
    } else {
        pysh_wait_in(self, AT_WARP);
    }
    self->call = NULL;
    return self->result;
}

uint64_t pysh_cpu_warp(int32_t op, uint32_t mask, uint64_t value, int32_t operand) {
    return meet(op, mask, value, operand, false);
}

uint64_t pysh_cpu_warp_meet(int32_t op, uint64_t value, int32_t operand) {
    return meet(op, ~0u, value, operand, true);
}

uint32_t pysh_cpu_live_lanes(void) {
    const fiber_t *self = pysh_worker->running;

    return self->block->warps[self->seen.rank / PYSH_WARP].live;
}

/* A lane has ended: those that waited for it go on. */
void pysh_warp_check(block_t *block, int number, worker_t *worker) {
    warp_t *warp = &block->warps[number];

    if (warp->of_routine) { /* it needed that lane */
        pysh_refuse(block, number);
        return;
    }
    for (int lane = 0; lane < PYSH_WARP; lane++)
        if (has(warp->waiting, lane) && complete(warp, lane))
            release(warp, lane, worker, -1);
}
