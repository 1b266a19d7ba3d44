/* SPDX-License-Identifier: BSD-3-Clause
 * The simulator's bodies of the device library's leaf primitives. The lanes, and how a copy is cut into
 * pieces, live in pyshmem/device; here is what one lane does with one piece. */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu_amo.h"
#include "ishmemx.h"

#define AT(_type, _address) ((_type *)(uintptr_t)(_address))

uint64_t ishmemx_leaf_load(int64_t address, int nbytes) {
    switch (nbytes) {
    case 1:
        return __atomic_load_n(AT(uint8_t, address), __ATOMIC_RELAXED);
    case 2:
        return __atomic_load_n(AT(uint16_t, address), __ATOMIC_RELAXED);
    case 4:
        return __atomic_load_n(AT(uint32_t, address), __ATOMIC_RELAXED);
    default:
        return __atomic_load_n(AT(uint64_t, address), __ATOMIC_RELAXED);
    }
}

void ishmemx_leaf_store(int64_t address, uint64_t value, int nbytes) {
    switch (nbytes) {
    case 1:
        __atomic_store_n(AT(uint8_t, address), (uint8_t)value, __ATOMIC_RELAXED);
        break;
    case 2:
        __atomic_store_n(AT(uint16_t, address), (uint16_t)value, __ATOMIC_RELAXED);
        break;
    case 4:
        __atomic_store_n(AT(uint32_t, address), (uint32_t)value, __ATOMIC_RELAXED);
        break;
    default:
        __atomic_store_n(AT(uint64_t, address), value, __ATOMIC_RELAXED);
    }
}

/* release: pairs with the fence after a relaxed load that saw the value (ishmemx_leaf_fence, or the
 * acquire fence of ishmemx_wait_until) */
void ishmemx_leaf_store_release(int64_t address, uint64_t value) {
    __atomic_store_n(AT(uint64_t, address), value, __ATOMIC_RELEASE);
}

uint64_t ishmemx_leaf_atomic(int op, int type, int64_t address, uint64_t value, uint64_t cond) {
    return pysh_amo_apply(op, type, AT(void, address), value, cond);
}

/* A piece is one vector of a lane, 16, 8, 4, 2 or 1 bytes, loaded and stored as a whole. */
void ishmemx_leaf_copy(int64_t dest, int64_t source, int64_t nbytes) {
    switch (nbytes) {
    case 1:
    case 2:
    case 4:
    case 8:
        ishmemx_leaf_store(dest, ishmemx_leaf_load(source, (int)nbytes), (int)nbytes);
        break;
    case 16:
        memcpy(AT(char, dest), AT(const char, source), 16);
        break;
    default:
        memcpy(AT(char, dest), AT(const char, source), (size_t)nbytes);
    }
}

void ishmemx_leaf_fence(void) {
    atomic_thread_fence(memory_order_seq_cst);
}

int64_t ishmemx_leaf_now(void) {
    return pysh_now_ns();
}

int64_t ishmemx_leaf_time_awake(void) {
    static _Atomic int64_t last, asleep;
    int64_t now = pysh_now_ns(), passed = now - atomic_exchange(&last, now);

    if (passed > PYSH_STOOD_STILL_NS && passed < now) /* not at the first call */
        atomic_fetch_add(&asleep, passed - PYSH_STOOD_STILL_NS);
    return now - atomic_load(&asleep);
}
