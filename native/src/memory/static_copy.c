/* SPDX-License-Identifier: BSD-3-Clause
 * Static variables of PEs that could not map each other's: the kernel copies, where it lets one process of the user
 * write another. Not atomic, so neither are there atomics. */
#define _GNU_SOURCE
#include "memory/static_copy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/state.h"
#include "base/status.h"
#include "memory/static_share.h"
#include "node/wait.h"

typedef ssize_t copy_func_t(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                            unsigned long);

/* nbytes between `own` here and `there` in another process. */
static bool copy(copy_func_t *call, pid_t pid, void *own, uintptr_t there, size_t nbytes) {
    struct iovec local = {own, nbytes}, remote = {(void *)there, nbytes};

    while (local.iov_len) {
        ssize_t copied = call(pid, &local, 1, &remote, 1, 0);
        if (copied <= 0)
            return false;
        local = (struct iovec){(char *)local.iov_base + copied, local.iov_len - (size_t)copied};
        remote = (struct iovec){(char *)remote.iov_base + copied, local.iov_len};
    }
    return true;
}

bool pysh_copy_to_process(pid_t pid, const void *own, uintptr_t there, size_t nbytes) {
    return copy(process_vm_writev, pid, (void *)own, there, nbytes);
}

bool pysh_copy_from_process(pid_t pid, void *own, uintptr_t there, size_t nbytes) {
    return copy(process_vm_readv, pid, own, there, nbytes);
}

bool pysh_process_is(pid_t pid, uintptr_t sign, uint64_t value) {
    uint64_t found = 0;

    return pysh_copy_from_process(pid, &found, sign, sizeof found) && found == value &&
           pysh_copy_to_process(pid, &found, sign, sizeof found);
}

static int refuse_heap(int pe) {
    return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "the device heap of PE %d is out of reach: use arrays on the host heap",
                     pe);
}

static int transfer(copy_func_t *call, int arena, void *own, int64_t offset, size_t nbytes, int pe) {
    const pysh_static_peer_t *peer = &pysh_static_peers[pe];

    if (arena != PYSH_STATICS)
        return refuse_heap(pe);
    if (copy(call, peer->pid, own, peer->base + (uintptr_t)offset, nbytes))
        return ISHMEMX_OK;
    return pysh_fail(errno == ESRCH ? ISHMEMX_ERR_PEER : ISHMEMX_ERR_SYSTEM,
                     "the static variables of PE %d cannot be reached: %s", pe, strerror(errno));
}

int pysh_static_put(int arena, int64_t dest, const void *source, size_t nbytes, int pe, bool nbi) {
    int status = transfer(process_vm_writev, arena, (void *)source, dest, nbytes, pe);

    (void)nbi; /* it is complete at once, which non-blocking allows */
    pysh_wake(pe);
    return status;
}

int pysh_static_get(int arena, void *dest, int64_t source, size_t nbytes, int pe, bool nbi) {
    (void)nbi;
    return transfer(process_vm_readv, arena, dest, source, nbytes, pe);
}

int pysh_static_amo(int arena, int op, int type, int64_t dest, uint64_t value, uint64_t cond, int pe,
                    uint64_t *fetched_p) {
    (void)op, (void)type, (void)dest, (void)value, (void)cond, (void)fetched_p;
    if (arena != PYSH_STATICS)
        return refuse_heap(pe);
    return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                     "atomics, signals and locks do not reach the static variables of PE %d, which is not mapped; use "
                     "memory of shmem_malloc, or call shmem_init before threads are made",
                     pe);
}

bool pysh_static_reaches(const void *address, size_t nbytes, int pe) {
    const pysh_static_peer_t *peer = &pysh_static_peers[pe];

    (void)address, (void)nbytes;
    return pysh_process_is(peer->pid, peer->sign, peer->value);
}
