/* SPDX-License-Identifier: BSD-3-Clause
 * Wrong rows of PE 0's at the owner of a device heap to whose GPU the link has no native atomic operations, among right
 * operations. Each is answered; a wrong one with a status, and nothing of it has been done. With P2P_ATOMICS=owner.
 * Arguments: how many, and a seed. */
#include "fuzz.h"
#include "memory/place.h"
#include "memory/system_region.h"

typedef struct row { /* as ops/amo_by_owner.c has it */
    uint64_t asked, answered, value, cond, old;
    int64_t offset;
    int32_t op, type, status, wrong;
} row_t;

/* What this PE's own code would write, with other numbers: between two operations of its own the row is free. */
static void ask_wrongly(row_t *row, int op, int type, int64_t offset) {
    row->op = op;
    row->type = type;
    row->offset = offset;
    row->value = draw();
    row->cond = draw();
    __atomic_store_n(&row->asked, row->asked + 1, __ATOMIC_RELEASE); /* pairs with the owner's acquire */
    while (__atomic_load_n(&row->answered, __ATOMIC_ACQUIRE) != row->asked)
        sched_yield();
    if (row->status != ISHMEMX_ERR_ARGUMENT || row->wrong <= 0 || row->wrong >= PYSH_WRONG_COUNT)
        fail("operation %d, type %d, offset %#llx: status %d, wrong %d", op, type, (unsigned long long)offset,
             row->status, row->wrong);
}

static bool is_right(int op, int type, uint64_t offset) {
    uint64_t nbytes = (uint64_t)pysh.arena[ISHMEMX_HEAP_DEVICE].nbytes;
    bool known = type >= 0 && type < ISHMEMX_TYPE_COUNT && pysh_amo_takes(op, type);

    return known && offset % pysh_type_nbytes(type) == 0 && (wide_t)offset + pysh_type_nbytes(type) <= nbytes &&
           !is_kept(ISHMEMX_HEAP_DEVICE, offset, pysh_type_nbytes(type));
}

static bool ask_wrong(row_t *row) {
    int op = (int)below(ISHMEMX_ATOMIC_COUNT), type = below(2) ? ISHMEMX_TYPE_UINT64 : ISHMEMX_TYPE_INT32;
    uint64_t offset = (uint64_t)(there[THERE_DEVICE].base - pysh.arena[ISHMEMX_HEAP_DEVICE].base) + below(256) * 8;

    for (uint64_t n = 1 + below(3), which; n; n--) {
        which = below(4);
        if (which == 0)
            op = (int)edge((uint64_t)op);
        else if (which == 1)
            type = (int)edge((uint64_t)type);
        else
            offset = which == 2 ? edge(offset) : (uint64_t)pysh.arena[ISHMEMX_HEAP_DEVICE].nbytes - below(16);
    }
    if (is_right(op, type, offset))
        return false;
    ask_wrongly(row, op, type, (int64_t)offset);
    return true;
}

static void ask_rightly(void) {
    size_t at = below(REGION_BYTES / 8) * 8;
    uint64_t value = draw(), cond = draw(), seen = 0, old;
    int op = (int)below(ISHMEMX_ATOMIC_COUNT);

    MUST(ishmemx_atomic(&ishmemx_ctx_default, op, ISHMEMX_TYPE_UINT64, there[THERE_DEVICE].base + at, value, cond, 1,
                        &seen));
    old = model_amo(there[THERE_DEVICE].model + at, op, 8, value, cond);
    CHECK(op == ISHMEMX_ATOMIC_SET || seen == old);
}

int main(int argc, char **argv) {
    uint64_t n, wrong = 0, right = 0;
    row_t *row;

    begin(argc, argv, &n);
    row = (row_t *)(void *)(pysh.arena[ISHMEMX_HEAP_HOST].peer[1] + PYSH_OWNER_AMOS) + pysh_near_place(0);
    while (!pysh.pe && wrong < n) {
        if (below(2)) {
            wrong += ask_wrong(row);
            continue;
        }
        ask_rightly();
        if (++right % 256 == 0)
            regions_check("rows");
    }
    if (!pysh.pe) {
        regions_check("at the end");
        CHECK(right > n / 10);
    }
    return end(wrong, right);
}
