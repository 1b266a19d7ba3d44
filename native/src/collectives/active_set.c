/* SPDX-License-Identifier: BSD-3-Clause
 * See active_set.h. A set of all PEs goes the way of the team of all, which takes half the time. Another's sync counts
 * arrivals in the first PE's word and releases the others by theirs. */
#include "collectives/active_set.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "accel/copy.h"
#include "base/elements.h"
#include "base/extent.h"
#include "base/state.h"
#include "base/status.h"
#include "collectives/collective.h"
#include "collectives/combine.h"
#include "collectives/reduce.h"
#include "memory/address.h"
#include "node/enter.h"
#include "ops/amo.h"
#include "ops/rma.h"

enum { WORD_ARRIVALS, WORD_RELEASE, WORD_NBYTES };
enum { OUTSIDE = -1 }; /* instead of a status */

static int world_pe(const pysh_set_t *set, int member) {
    return set->start + member * (1 << set->log_stride);
}

/* The calling PE's number in the set goes to *me_p. A call by another PE is undefined in the specification; there are
 * programs that make it, and libraries that let it pass. */
static int set_check(const pysh_set_t *set, int *me_p) {
    int64_t last = set->start + (int64_t)(set->size - 1) * (1LL << (set->log_stride & 31)), off = pysh.pe - set->start;
    int heap, status;
    int64_t offset;

    if (set->log_stride < 0 || set->log_stride > 30 || set->size < 1 || set->start < 0 || last >= pysh.n_pes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "the active set of %d PEs from %d, 2**%d apart, is not within the job's "
                         "%d PEs",
                         set->size, set->start, set->log_stride, pysh.n_pes);
    if (off < 0 || pysh.pe > last || off & ((1 << set->log_stride) - 1))
        return pysh.check
                   ? pysh_fail(ISHMEMX_ERR_ARGUMENT, "PE %d is not in the active set of %d PEs from %d, 2**%d apart",
                               pysh.pe, set->size, set->start, set->log_stride)
                   : OUTSIDE;
    *me_p = (int)(off >> set->log_stride);
    if ((status = pysh_heap_find(set->sync, PYSH_SET_SYNC_WORDS * sizeof(long), "pSync", &heap, &offset)))
        return status;
    return pysh_type_check_aligned(ISHMEMX_TYPE_INT64, set->sync, "pSync");
}

#define ENTER_SET(_set, _me_p)                                  \
    do {                                                        \
        int checked_;                                           \
        PYSH_ENTER();                                           \
        if ((checked_ = set_check(_set, _me_p)))                \
            return checked_ == OUTSIDE ? ISHMEMX_OK : checked_; \
    } while (0)

/* Its collectives are those of the team of all PEs, whose words of pSync stay 0. */
static bool is_world(const pysh_set_t *set) {
    return set->start == 0 && set->log_stride == 0 && set->size == pysh.n_pes;
}

static int set_amo(int op, long *word, uint64_t value, int pe) {
    return pysh_amo(op, ISHMEMX_TYPE_INT64, word, value, 0, pe, "pSync", NULL);
}

/* Waits for the word to reach `value` and puts it back to 0. */
static int await_word(long *word, uint64_t value) {
    int status = ishmemx_wait_until(ISHMEMX_TYPE_INT64, word, ISHMEMX_CMP_EQ, value, NULL);

    return status ? status : set_amo(ISHMEMX_ATOMIC_SET, word, 0, pysh.pe);
}

static int sync_members(const pysh_set_t *set, int me) {
    int status;

    atomic_thread_fence(memory_order_seq_cst);
    if (me) {
        status = set_amo(ISHMEMX_ATOMIC_ADD, set->sync + WORD_ARRIVALS, 1, set->start);
        return status ? status : await_word(set->sync + WORD_RELEASE, 1);
    }
    status = await_word(set->sync + WORD_ARRIVALS, (uint64_t)set->size - 1);
    for (int i = 1; !status && i < set->size; i++)
        status = set_amo(ISHMEMX_ATOMIC_SET, set->sync + WORD_RELEASE, 1, world_pe(set, i));
    return status;
}

/* Whatever became of the copies, the sync takes place: the other members are in it. */
static int set_finish(const pysh_set_t *set, int me, int status) {
    int synced = sync_members(set, me);

    return status ? status : synced;
}

int pysh_set_sync(const pysh_set_t *set) {
    int me = 0;

    ENTER_SET(set, &me);
    return is_world(set) ? ishmemx_team_sync(&ishmemx_team_world) : sync_members(set, me);
}

int pysh_set_broadcast(const pysh_set_t *set, void *dest, const void *source, size_t nbytes, int root) {
    int me = 0, status;

    ENTER_SET(set, &me);
    if (is_world(set))
        return pysh_broadcast_to_others(&ishmemx_team_world, dest, source, nbytes, root);
    if ((status = pysh_check_pe(root, set->size)) || (status = sync_members(set, me)))
        return status;
    if (me != root) /* which keeps its dest as it is */
        status = pysh_get(dest, source, nbytes, world_pe(set, root));
    return set_finish(set, me, status);
}

int pysh_set_collect(const pysh_set_t *set, void *dest, const void *source, size_t nbytes) {
    char *to = dest;
    int me = 0, status;

    ENTER_SET(set, &me);
    if (is_world(set)) /* the program promises that dest has room */
        return ishmemx_collect(&ishmemx_team_world, dest, SIZE_MAX, source, nbytes);
    if ((status = set_amo(ISHMEMX_ATOMIC_SET, set->sync + WORD_NBYTES, nbytes, pysh.pe)) ||
        (status = sync_members(set, me)))
        return status;
    for (int i = 0; !status && i < set->size; i++) {
        size_t theirs = 0;
        status = pysh_get(&theirs, set->sync + WORD_NBYTES, sizeof theirs, world_pe(set, i));
        if (!status && theirs)
            status = pysh_get(to, source, theirs, world_pe(set, i));
        to += theirs;
    }
    status = set_finish(set, me, status);
    return status ? status : set_amo(ISHMEMX_ATOMIC_SET, set->sync + WORD_NBYTES, 0, pysh.pe);
}

int pysh_set_fcollect(const pysh_set_t *set, void *dest, const void *source, size_t nbytes) {
    int me = 0;

    ENTER_SET(set, &me);
    return is_world(set) ? ishmemx_fcollect(&ishmemx_team_world, dest, source, nbytes)
                         : pysh_set_collect(set, dest, source, nbytes);
}

int pysh_set_alltoalls(const pysh_set_t *set, void *dest, const void *source, ptrdiff_t dest_stride,
                       ptrdiff_t source_stride, size_t nelems, size_t width) {
    size_t elements, ignored;
    int me = 0, status;

    ENTER_SET(set, &me);
    if (is_world(set))
        return ishmemx_alltoalls(&ishmemx_team_world, dest, source, dest_stride, source_stride, nelems, width);
    if ((status = pysh_check_extent(1, 0, nelems, (size_t)set->size, &elements)) ||
        (status = pysh_check_extent(elements, (size_t)dest_stride, 1, width, &ignored)) ||
        (status = pysh_check_extent(elements, (size_t)source_stride, 1, width, &ignored)) ||
        (status = sync_members(set, me)))
        return status;
    for (int i = 0; !status && i < set->size; i++)
        status = ishmemx_iget(&ishmemx_ctx_default, (char *)dest + (size_t)i * nelems * (size_t)dest_stride * width,
                              (const char *)source + (size_t)me * nelems * (size_t)source_stride * width, dest_stride,
                              source_stride, 1, nelems, width, world_pe(set, i));
    return set_finish(set, me, status);
}

/* The sum of n elements of every member to `acc`; `copy` has room for them too. */
static int combine(const pysh_set_t *set, int op, int type, const void *source, size_t n, char *acc, char *copy) {
    int status = ISHMEMX_OK;

    for (int i = 0; !status && i < set->size; i++) {
        if ((status = pysh_get(copy, source, n * pysh_type_nbytes(type), world_pe(set, i))))
            break;
        if (i == 0)
            pysh_combine_begin(type, acc, copy, n);
        else
            pysh_combine(op, type, acc, copy, n);
    }
    if (!status)
        pysh_combine_end(type, acc, n);
    return status;
}

int pysh_set_reduce(const pysh_set_t *set, int op, int type, void *dest, const void *source, size_t nreduce) {
    size_t nbytes;
    char *acc;
    int me = 0, status;

    ENTER_SET(set, &me);
    if (is_world(set))
        return ishmemx_reduce(&ishmemx_team_world, op, type, dest, source, nreduce);
    if ((status = pysh_reduce_check(op, type)) || !nreduce)
        return status;
    if (!pysh_extent(2, nreduce, nreduce, pysh_type_nbytes(type), &nbytes) || !(acc = malloc(nbytes)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to reduce %zu elements", nreduce);
    nbytes /= 2;
    status = sync_members(set, me);
    if (!status) {
        status = combine(set, op, type, source, nreduce, acc, acc + nbytes);
        status = set_finish(set, me, status); /* before dest, which may be source, changes */
    }
    if (!status)
        status = pysh_copy(dest, acc, nbytes);
    free(acc);
    return status;
}
