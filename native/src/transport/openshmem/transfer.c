/* SPDX-License-Identifier: BSD-3-Clause
 * Put and get to peers that are not mapped. */
#include "transport/openshmem/transfer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"
#include "transport/openshmem/openshmem.h"

static char *at(int heap, int64_t offset) {
    return pysh.arena[heap].base + offset;
}

/* No size and a null pointer would abort the library. */
int pysh_os_put(int heap, int64_t dest, const void *source, size_t nbytes, int pe, bool nbi) {
    if (!nbytes)
        return ISHMEMX_OK;
    PYSH_OS_LOCK();
    (nbi ? pysh_os.library->putmem_nbi : pysh_os.library->putmem)(at(heap, dest), source, nbytes, pe);
    pysh_os.dirty = true;
    PYSH_OS_UNLOCK();
    return ISHMEMX_OK;
}

int pysh_os_get(int heap, void *dest, int64_t source, size_t nbytes, int pe, bool nbi) {
    if (!nbytes)
        return ISHMEMX_OK;
    PYSH_OS_LOCK();
    (nbi ? pysh_os.library->getmem_nbi : pysh_os.library->getmem)(dest, at(heap, source), nbytes, pe);
    if (nbi)
        pysh_os.dirty = true;
    PYSH_OS_UNLOCK();
    return ISHMEMX_OK;
}

/* Two atomics on their way to one word are in no order but by a fence, which does not wait. */
void pysh_os_raise(int64_t dest, uint64_t value, int pe) {
    PYSH_OS_LOCK();
    pysh_os.library->fence();
    pysh_os.library->ulong_atomic_set((unsigned long *)(void *)at(ISHMEMX_HEAP_HOST, dest), value, pe);
    pysh_os.dirty = true;
    PYSH_OS_UNLOCK();
}

/* The library's fence orders without waiting; what it has nothing to order for is not asked for. */
void pysh_os_post(int64_t dest, const void *source, size_t nbytes, int pe, bool behind) {
    static bool unordered; /* changed with the mutex */

    PYSH_OS_LOCK();
    if (behind && unordered)
        pysh_os.library->fence();
    unordered = !behind;
    pysh_os.library->putmem_nbi(at(ISHMEMX_HEAP_HOST, dest), source, nbytes, pe);
    PYSH_OS_UNLOCK();
}

bool pysh_os_reaches(const void *address, size_t nbytes, int pe) {
    bool reaches;

    PYSH_OS_LOCK();
    reaches = pysh_os.library->addr_accessible(address, pe) &&
              pysh_os.library->addr_accessible((const char *)address + nbytes - 1, pe);
    PYSH_OS_UNLOCK();
    return reaches;
}

/* Fence too: the signal that follows a put may take another way to the PE than the put. */
int pysh_os_flush(void) {
    if (!atomic_load(&pysh_os.dirty))
        return ISHMEMX_OK;
    PYSH_OS_LOCK();
    pysh_os.library->quiet();
    pysh_os.dirty = false;
    PYSH_OS_UNLOCK();
    return ISHMEMX_OK;
}

bool pysh_os_outstanding(void) {
    return atomic_load_explicit(&pysh_os.dirty, memory_order_relaxed);
}
