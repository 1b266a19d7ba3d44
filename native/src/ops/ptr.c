/* SPDX-License-Identifier: BSD-3-Clause
 * Where the caller can load and store another PE's memory, and whether it reaches it at all. */
#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"
#include "base/status.h"
#include "memory/address.h"
#include "memory/registered.h"
#include "node/enter.h"
#include "teams/ctx.h"
#include "teams/team.h"

int ishmemx_ptr(const void *address, int pe, void **peer_p) {
    const pysh_registered_t *registered;
    int64_t offset;
    int heap, status;
    char *peer;

    PYSH_ENTER();
    if ((status = pysh_check_pe(pe, pysh.n_pes)))
        return status;
    if ((registered = pysh_registered_find(address, 1))) {
        peer = registered->peer[pe].here;
        *peer_p = peer ? peer + ((const char *)address - registered->base) : NULL;
        return ISHMEMX_OK;
    }
    if ((status = pysh_heap_find(address, 1, "ptr", &heap, &offset)))
        return status;
    peer = pysh_near(pe) ? pysh.arena[heap].peer[pe] : NULL;
    *peer_p = peer ? peer + offset : NULL;
    return ISHMEMX_OK;
}

static bool on_host_heap(const pysh_arena_t *arena, const void *address) {
    return (uintptr_t)address - (uintptr_t)arena->first < arena->usable;
}

int ishmemx_at_once(ishmemx_ctx_t ctx, const void *address, int pe, const void *local) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_HOST];

    if (!pysh_goes_on() || !arena->cpu_visible || (local && !on_host_heap(arena, local)))
        return false;
    return !ctx || (!ctx->guarded && (unsigned)pe < (unsigned)ctx->team->n_pes && on_host_heap(arena, address) &&
                    arena->peer[ctx->team->pes[pe]]);
}

int ishmemx_pe_accessible(int pe) {
    return pysh.ready && pe >= 0 && pe < pysh.n_pes;
}

int ishmemx_addr_accessible(const void *address, int pe) {
    const pysh_registered_t *registered;

    if (!ishmemx_pe_accessible(pe))
        return 0;
    if ((registered = pysh_registered_find(address, 1)))
        return registered->peer[pe].member;
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        if ((uintptr_t)address - (uintptr_t)pysh.arena[heap].first < pysh.arena[heap].usable)
            return 1;
    return (uintptr_t)address - (uintptr_t)pysh.arena[PYSH_STATICS].base < (uintptr_t)pysh.arena[PYSH_STATICS].nbytes;
}

int ishmemx_team_ptr(ishmemx_team_t team, const void *address, int pe, void **peer_p) {
    int status;

    PYSH_ENTER();
    if ((status = pysh_team_check(team)) || (status = pysh_check_pe(pe, team->n_pes)))
        return status;
    return ishmemx_ptr(address, team->pes[pe], peer_p);
}
