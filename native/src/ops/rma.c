/* SPDX-License-Identifier: BSD-3-Clause
 * Put and get. One road for all: find the heap and the peer's copy of the address, then memcpy, the
 * accelerator's copy engine, or the transport. */
#include "ops/rma.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/copy.h"
#include "am/am.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/address.h"
#include "memory/registered.h"
#include "node/enter.h"
#include "node/polls.h"
#include "node/wait.h"
#include "ops/store.h"
#include "teams/ctx.h"
#include "teams/team.h"
#include "transport/quiet.h"
#include "transport/transport.h"

/* Programs that spin on a word stored by a small put are woken like those that wait for an atomic. */
#define WAKE_BYTES 8

int pysh_ctx_pe(ishmemx_ctx_t ctx, int pe, int *world_p) {
    const struct ishmemx_team *team;

    if (!ctx)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "the context was destroyed, by itself or with its team (SHMEM_CTX_INVALID)");
    if (__builtin_expect(ctx->guarded, 0)) {
        int status = pysh_ctx_guard(ctx);
        if (status)
            return status;
    }
    team = ctx->team;
    if ((unsigned)pe >= (unsigned)team->n_pes)
        return pysh_check_pe(pe, team->n_pes);
    *world_p = team->pes[pe];
    return ISHMEMX_OK;
}

/* Whose address is it? The library's own may be in the system region. */
typedef enum { OF_PROGRAM, OF_LIBRARY } whose_t;

static inline bool is_within(const void *address, size_t nbytes, const char *first, uint64_t size) {
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)first);

    return offset < size && nbytes <= size - offset;
}

static inline bool in_arena(const pysh_arena_t *arena, const void *address, size_t nbytes, whose_t whose) {
    return whose == OF_PROGRAM ? is_within(address, nbytes, arena->first, arena->usable)
                               : is_within(address, nbytes, arena->base, (uint64_t)arena->nbytes);
}

static inline int peer_address(const void *address, size_t nbytes, int pe, const char *what, char **peer_p, int *heap_p,
                               whose_t whose) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_HOST];
    int heap = ISHMEMX_HEAP_HOST;

    if (__builtin_expect(pysh.check || !in_arena(arena, address, nbytes, whose), 0)) {
        int64_t offset;
        int status = (whose == OF_PROGRAM ? pysh_heap_find : pysh_own_heap_find)(address, nbytes, what, &heap, &offset);
        if (status)
            return status;
        arena = &pysh.arena[heap];
    }
    *heap_p = heap;
    *peer_p = arena->peer[pe] ? arena->peer[pe] + ((const char *)address - arena->base) : NULL;
    return ISHMEMX_OK;
}

int pysh_peer_address(const void *address, size_t nbytes, int pe, const char *what, char **peer_p, int *heap_p) {
    return peer_address(address, nbytes, pe, what, peer_p, heap_p, OF_PROGRAM);
}

int pysh_own_peer_address(const void *address, size_t nbytes, int pe, const char *what, char **peer_p, int *heap_p) {
    return peer_address(address, nbytes, pe, what, peer_p, heap_p, OF_LIBRARY);
}

static int64_t offset_in(int heap, const void *address) {
    return (const char *)address - pysh.arena[heap].base;
}

/* A GPU's memory is on one side or on both. */
static int gpu_copy(void *dest, const void *source, size_t nbytes, bool nbi) {
    if (!nbi)
        return pysh.accel->copy(dest, source, nbytes);
    pysh_quiet_copy_started();
    return pysh.accel->copy_nbi(dest, source, nbytes);
}

/* Is it reached by messages: another node's device heap, or a GPU's memory on this side? */
static bool by_messages(int heap, const void *local) {
    return heap == ISHMEMX_HEAP_DEVICE || (pysh_am_is_open() && pysh_on_gpu(local));
}

static int registered_put(const pysh_registered_t *to, void *dest, const void *source, size_t nbytes, int pe,
                          bool nbi) {
    int status = ISHMEMX_OK;

    if (pysh.check && pe == pysh.pe && (status = pysh_check_overlap(dest, nbytes, source, nbytes)))
        return status;
    if (nbi && to->on_gpu)
        pysh_quiet_copy_started();
    return pysh_registered_put(to, dest, source, nbytes, pe, nbi && to->on_gpu);
}

static int registered_get(const pysh_registered_t *from, void *dest, const void *source, size_t nbytes, int pe,
                          bool nbi) {
    int status = ISHMEMX_OK;

    if (pysh.check && pe == pysh.pe && (status = pysh_check_overlap(dest, nbytes, source, nbytes)))
        return status;
    if (nbi && from->on_gpu)
        pysh_quiet_copy_started();
    return pysh_registered_get(from, dest, source, nbytes, pe, nbi && from->on_gpu);
}

static inline int put_bytes(void *dest, const void *source, size_t nbytes, int pe, bool nbi, whose_t whose) {
    char *peer;
    int heap, status;

    if (!nbytes)
        return ISHMEMX_OK;
    if (__builtin_expect(pysh_may_be_registered(dest), 0)) {
        const pysh_registered_t *to = pysh_registered_find(dest, nbytes);
        if (to)
            return registered_put(to, dest, source, nbytes, pe, nbi);
    }
    status = peer_address(dest, nbytes, pe, "dest", &peer, &heap, whose);
    if (status)
        return status;
    if (pysh.check && pe == pysh.pe && (status = pysh_check_overlap(dest, nbytes, source, nbytes)))
        return status;
    if (!peer && by_messages(heap, source)) /* complete at once, which non-blocking allows */
        return pysh_am_put(heap, offset_in(heap, dest), source, nbytes, pe);
    if (!peer)
        return pysh.transport->put(heap, offset_in(heap, dest), source, nbytes, pe, nbi);
    if (!pysh.arena[heap].cpu_visible || pysh_on_gpu(source))
        return gpu_copy(peer, source, nbytes, nbi);
    pysh_store(peer, source, nbytes);
    if (nbytes <= WAKE_BYTES)
        pysh_wake(pe);
    return ISHMEMX_OK;
}

static inline int get_bytes(void *dest, const void *source, size_t nbytes, int pe, bool nbi, whose_t whose) {
    char *peer;
    int heap, status;

    if (!nbytes)
        return ISHMEMX_OK;
    if (__builtin_expect(pysh_may_be_registered(source), 0)) {
        const pysh_registered_t *from = pysh_registered_find(source, nbytes);
        if (from)
            return registered_get(from, dest, source, nbytes, pe, nbi);
    }
    status = peer_address(source, nbytes, pe, "source", &peer, &heap, whose);
    if (status)
        return status;
    if (pysh.check && pe == pysh.pe && (status = pysh_check_overlap(dest, nbytes, source, nbytes)))
        return status;
    if (!peer && by_messages(heap, dest))
        return pysh_am_get(heap, dest, offset_in(heap, source), nbytes, pe);
    if (!peer)
        return pysh.transport->get(heap, dest, offset_in(heap, source), nbytes, pe, nbi);
    if (!pysh.arena[heap].cpu_visible || pysh_on_gpu(dest))
        return gpu_copy(dest, peer, nbytes, nbi);
    memcpy(dest, peer, nbytes);
    return ISHMEMX_OK;
}

int pysh_put(void *dest, const void *source, size_t nbytes, int pe) {
    return put_bytes(dest, source, nbytes, pe, false, OF_PROGRAM);
}

int pysh_get(void *dest, const void *source, size_t nbytes, int pe) {
    return get_bytes(dest, source, nbytes, pe, false, OF_PROGRAM);
}

int pysh_own_put(void *dest, const void *source, size_t nbytes, int pe) {
    return put_bytes(dest, source, nbytes, pe, false, OF_LIBRARY);
}

int pysh_own_get(void *dest, const void *source, size_t nbytes, int pe) {
    return get_bytes(dest, source, nbytes, pe, false, OF_LIBRARY);
}

int ishmemx_put(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe) {
    int world = 0, status;

    PYSH_ENTER();
    status = pysh_ctx_pe(ctx, pe, &world);
    return status ? status : put_bytes(dest, source, nbytes, world, false, OF_PROGRAM);
}

/* Now and then, for a read of a few bytes: see node/polls.h. */
static void polled(const void *dest, const void *source, size_t nbytes, int pe) {
    uint64_t seen = 0;

    if (!pysh_copy(&seen, dest, nbytes))
        pysh_polled_read("reads", source, pe, seen);
}

int ishmemx_get(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe) {
    int world = 0, status;

    PYSH_ENTER();
    status = pysh_ctx_pe(ctx, pe, &world);
    if (!status)
        status = get_bytes(dest, source, nbytes, world, false, OF_PROGRAM);
    if (nbytes <= sizeof(uint64_t) && !status && pysh_poll_due(PYSH_POLL_READ))
        polled(dest, source, nbytes, world);
    return status;
}

int ishmemx_put_nbi(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe) {
    int world = 0, status;

    PYSH_ENTER();
    status = pysh_ctx_pe(ctx, pe, &world);
    return status ? status : put_bytes(dest, source, nbytes, world, true, OF_PROGRAM);
}

int ishmemx_get_nbi(ishmemx_ctx_t ctx, void *dest, const void *source, size_t nbytes, int pe) {
    int world = 0, status;

    PYSH_ENTER();
    status = pysh_ctx_pe(ctx, pe, &world);
    return status ? status : get_bytes(dest, source, nbytes, world, true, OF_PROGRAM);
}
