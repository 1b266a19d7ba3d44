/* SPDX-License-Identifier: BSD-3-Clause
 * Atomics on PEs that are not mapped. The library does what it does right: in Open MPI 4.1 fetch, set,
 * swap, add of 32 and 64 bits, and compare_swap of 64. All else is compare_swap of the 64 bits around. */
#include "transport/openshmem/amo.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/cpu_amo.h"
#include "base/elements.h"
#include "ishmemx.h"
#include "transport/openshmem/library.h"
#include "transport/openshmem/openshmem.h"

/* True when the library has done it. */
static bool native_64(int op, unsigned long *word, uint64_t value, uint64_t cond, int pe, uint64_t *fetched_p) {
    const pysh_openshmem_library_t *library = pysh_os.library;

    switch (op) {
    case ISHMEMX_ATOMIC_FETCH:
        *fetched_p = library->ulong_atomic_fetch(word, pe);
        return true;
    case ISHMEMX_ATOMIC_SET:
        library->ulong_atomic_set(word, value, pe);
        return true;
    case ISHMEMX_ATOMIC_SWAP:
        *fetched_p = library->ulong_atomic_swap(word, value, pe);
        return true;
    case ISHMEMX_ATOMIC_COMPARE_SWAP:
        *fetched_p = library->ulong_atomic_compare_swap(word, cond, value, pe);
        return true;
    case ISHMEMX_ATOMIC_ADD:
        *fetched_p = library->ulong_atomic_fetch_add(word, value, pe);
        return true;
    default:
        return false;
    }
}

static bool native_32(int op, unsigned *word, unsigned value, int pe, uint64_t *fetched_p) {
    const pysh_openshmem_library_t *library = pysh_os.library;

    switch (op) {
    case ISHMEMX_ATOMIC_FETCH:
        *fetched_p = library->uint_atomic_fetch(word, pe);
        return true;
    case ISHMEMX_ATOMIC_SET:
        library->uint_atomic_set(word, value, pe);
        return true;
    case ISHMEMX_ATOMIC_SWAP:
        *fetched_p = library->uint_atomic_swap(word, value, pe);
        return true;
    case ISHMEMX_ATOMIC_ADD:
        *fetched_p = library->uint_atomic_fetch_add(word, value, pe);
        return true;
    default:
        return false;
    }
}

/* Tries the operation on a copy of the 8 bytes around the element until nobody came between. */
static uint64_t emulate(int op, int type, char *element, uint64_t value, uint64_t cond, int pe) {
    size_t inside = (uintptr_t)element % sizeof(unsigned long);
    unsigned long *word = (unsigned long *)(element - inside);
    unsigned long old = pysh_os.library->ulong_atomic_fetch(word, pe), changed, seen;
    uint64_t fetched;

    for (;; old = seen) {
        changed = old;
        fetched = pysh_amo_apply(op, type, (char *)&changed + inside, value, cond);
        if (changed == old)
            return fetched;
        seen = pysh_os.library->ulong_atomic_compare_swap(word, old, changed, pe);
        if (seen == old)
            return fetched;
    }
}

int pysh_os_amo(int op, int type, void *word, uint64_t value, uint64_t cond, int pe, uint64_t *fetched_p) {
    bool is_float = type == ISHMEMX_TYPE_FLOAT || type == ISHMEMX_TYPE_DOUBLE;
    bool done = false;
    uint64_t fetched = 0;

    PYSH_OS_LOCK();
    if (op == ISHMEMX_ATOMIC_ADD && is_float)
        done = false;
    else if (pysh_type_nbytes(type) == 4)
        done = native_32(op, word, (unsigned)value, pe, &fetched);
    else
        done = native_64(op, word, value, cond, pe, &fetched);
    if (!done)
        fetched = emulate(op, type, word, value, cond, pe);
    if (op == ISHMEMX_ATOMIC_SET)
        pysh_os.dirty = true;
    PYSH_OS_UNLOCK();
    if (fetched_p)
        *fetched_p = fetched;
    return ISHMEMX_OK;
}
