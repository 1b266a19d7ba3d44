/* SPDX-License-Identifier: BSD-3-Clause
 * The device heap from the kernels' side: the arena's system region, the state block that kernels read, the cutover
 * table in it, and the faults that kernels report. */
#include "device/device_heap.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "accel/cuda/accel_cuda.h"
#include "accel/engine/engine.h"
#include "accel/sim/accel_sim.h"
#include "agree/agree.h"
#include "am/am.h"
#include "base/state.h"
#include "base/status.h"
#include "device/device_teams.h"
#include "device/trace.h"
#include "host_proxy/proxy.h"
#include "memory/heap.h"
#include "memory/system_region.h"
#include "node/enter.h"
#include "node/report.h"
#include "ops/amo_by_owner.h"
#include "transport/quiet.h"

static char *kernel_tables;   /* flags and stages of kernels' collectives when they are on the host arena */
static void *fault_on_device; /* where kernels write pysh.fault[0] */
static bool host_opened;      /* kernels see the host arena */
static int64_t cutover[ISHMEMX_STATE_WORDS - ISHMEMX_STATE_CUTOVER_PUT_MIN]; /* outlives a job */

/* Until somebody knows better nothing leaves the store path. */
__attribute__((constructor)) static void cutover_never(void) {
    for (size_t i = 0; i < sizeof cutover / sizeof *cutover; i++)
        cutover[i] = INT64_MAX;
}

/* ---- open and close ---- */

/* The device arena's system region: the words of memory/system_region.h, tables of collectives (with P2P; they come
 * first, for they are at one offset on all PEs), the table of teams, rings. */
static int device_system_open(pysh_arena_t *arena) {
    char *at = arena->base + PYSH_SYSTEM_BYTES, *symmetric = kernel_tables ? kernel_tables : at;
    const int64_t first_sync = 1;
    int status;

    if ((status = pysh.accel->zero(arena->base, (size_t)arena->system)) ||
        (status = pysh.accel->copy(arena->base + PYSH_SYNC_EPOCH, &first_sync, sizeof first_sync)))
        return status;
    at += kernel_tables ? 0 : pysh_device_tables_nbytes(pysh.n_pes);
    if ((status = pysh_device_teams_open(symmetric, kernel_tables ? ISHMEMX_HEAP_HOST : ISHMEMX_HEAP_DEVICE, at)))
        return status;
    if (!pysh.p2p || pysh_am_is_open()) { /* kernels use its arrays, and messages are copied from and to it */
        const pysh_arena_t *host = &pysh.arena[ISHMEMX_HEAP_HOST];
        if ((status = pysh.accel->host_open(host->base, (size_t)host->nbytes)))
            return status;
        host_opened = true;
    }
    pysh_quiet_set_rings(pysh_proxy_drain);
    pysh_report_rings(pysh_proxy_describe_used);
    return pysh_proxy_start(at + pysh_device_teams_nbytes(pysh.n_pes));
}

static int64_t device_system_nbytes(void) {
    return PYSH_SYSTEM_BYTES + (kernel_tables ? 0 : pysh_device_tables_nbytes(pysh.n_pes)) +
           pysh_device_teams_nbytes(pysh.n_pes) + pysh_proxy_device_nbytes();
}

enum grows { FIXED, GROWS, AUTO }; /* the setting's values */

static char why_fixed[512]; /* of a heap that could have grown; "" */

/* What must be the same on all PEs: the places that kernels share follow from it. */
typedef struct agreed {
    int64_t p2p, ring_slots, proxy_nbytes, grows;
} agreed_t;

typedef struct asked {
    agreed_t agreed;
    int64_t given; /* somebody asked for the heap's size */
} asked_t;

static int device_agree(const ishmemx_config_t *config, enum grows *grows_p) {
    asked_t mine = {.agreed = {.p2p = pysh.p2p, .proxy_nbytes = pysh_proxy_device_nbytes()},
                    .given = config->device_heap_given};
    asked_t *all = calloc((size_t)pysh.n_pes, sizeof mine);
    int status = all ? ishmemx_setting_number("RING_SLOTS", &mine.agreed.ring_slots)
                     : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to join %d PEs", pysh.n_pes);
    bool given = false;

    if (!status)
        status = ishmemx_setting_number("DEVICE_HEAP_GROWS", &mine.agreed.grows);
    if (!status)
        status = pysh.agree->exchange("init", &mine, all, sizeof mine);
    for (int pe = 0; !status && pe < pysh.n_pes; pe++) {
        given = given || all[pe].given;
        if (memcmp(&all[pe].agreed, &all[0].agreed, sizeof mine.agreed) != 0)
            status = pysh_fail(
                ISHMEMX_ERR_MISMATCH,
                "PYSHMEM_P2P, PYSHMEM_RINGS, PYSHMEM_RING_SLOTS and PYSHMEM_DEVICE_HEAP_GROWS must be the same "
                "on all PEs; those of PE 0 and PE %d differ",
                pe);
    }
    free(all);
    *grows_p = mine.agreed.grows == AUTO && given ? FIXED : (enum grows)mine.agreed.grows;
    snprintf(why_fixed, sizeof why_fixed, "%s",
             *grows_p != FIXED ? ""
             : given           ? "its size was given"
                               : "PYSHMEM_DEVICE_HEAP_GROWS is 0");
    return status;
}

/* With `grows` AUTO one of a fixed size where it cannot grow, on all PEs alike. */
static int arena_make(pysh_arena_t *arena, enum grows grows, int64_t *nbytes_p) {
    int64_t asked = *nbytes_p;
    int status;

    arena->fixed = why_fixed;
    arena->grows = grows != FIXED;
    status = pysh.accel->arena(nbytes_p, arena->grows, &arena->base, arena->peer);
    if (!status || grows == FIXED || pysh_is_unfinished(status))
        return status;
    snprintf(why_fixed, sizeof why_fixed, "%s", ishmemx_error());
    if (grows == GROWS)
        return pysh_fail(status, "PYSHMEM_DEVICE_HEAP_GROWS=1: %s", why_fixed);
    arena->grows = false;
    *nbytes_p = asked;
    return pysh.accel->arena(nbytes_p, false, &arena->base, arena->peer);
}

const char *ishmemx_device_heap_fixed(void) {
    return pysh.ready && pysh.arena[ISHMEMX_HEAP_DEVICE].base ? why_fixed : "";
}

int pysh_device_heap_open(const ishmemx_config_t *config, char *tables) {
    pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];
    const pysh_accel_t *accel = config->accelerator == ISHMEMX_DEVICE_CUDA ? &pysh_accel_cuda : &pysh_accel_sim;
    enum grows grows;
    int64_t nbytes;
    void *fault;
    int status = pysh_proxy_configure();

    kernel_tables = tables;
    if (status || (status = device_agree(config, &grows)) || (status = accel->attach(config)))
        return status;
    pysh.accel = accel;
    nbytes = pysh_arena_nbytes(config->device_heap_bytes, device_system_nbytes());
    if ((status = arena_make(arena, grows, &nbytes)) || (status = pysh_amo_by_owner_open()))
        return status;
    arena->nbytes = nbytes;
    arena->system = device_system_nbytes();
    arena->cpu_visible = accel->cpu_visible;
    if ((status = accel->shared_alloc(2 * sizeof *pysh.fault, &fault, &fault_on_device)))
        return status;
    pysh.fault = memset(fault, 0, 2 * sizeof *pysh.fault);
    if ((status = device_system_open(arena)) || (status = pysh_engine_start(config)))
        return status;
    return pysh_heap_setup(ISHMEMX_HEAP_DEVICE, nbytes);
}

/* Others ask for this PE's memory from its proxy, which therefore does not wait for a first kernel of its own. */
int pysh_device_heap_serve(void) {
    int status;

    if (!pysh.accel || !pysh_am_is_open())
        return ISHMEMX_OK;
    return (status = pysh_am_agree()) ? status : pysh_proxy_wake();
}

void pysh_device_heap_close(int64_t block) {
    pysh_engine_stop();
    if (host_opened)
        pysh.accel->host_close(pysh.arena[ISHMEMX_HEAP_HOST].base);
    if (pysh.fault)
        pysh.accel->shared_free(pysh.fault);
    if (pysh.accel)
        pysh.accel->detach(block);
    pysh_quiet_set_rings(NULL);
    pysh_report_rings(NULL);
    pysh_trace_close();
    host_opened = false;
    kernel_tables = NULL;
    fault_on_device = NULL;
}

/* ---- what kernels see ---- */

int64_t ishmemx_contract(void) {
    return ISHMEMX_CONTRACT;
}

/* The word P2P. */
static int64_t reached(const pysh_arena_t *arena) {
    int64_t atomics = 1;

    if (!pysh.p2p || pysh.n_nodes > 1)
        return 0;
    for (int pe = 0; pe < pysh.n_pes; pe++)
        if (!arena->peer[pe])
            return 0;
    for (size_t k = 0; k < sizeof pysh.by_owner / sizeof *pysh.by_owner; k++)
        if (pysh.by_owner[k])
            atomics = 0;
    return 1 + atomics;
}

int ishmemx_device_state(int64_t *words) {
    const pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_DEVICE];
    int64_t base = (int64_t)(intptr_t)arena->base;
    int status;

    memset(words, 0, ISHMEMX_STATE_WORDS * sizeof *words);
    if (!pysh.ready)
        return ISHMEMX_OK;
    words[ISHMEMX_STATE_ABI] = ISHMEMX_CONTRACT;
    words[ISHMEMX_STATE_MY_PE] = pysh.pe;
    words[ISHMEMX_STATE_N_PES] = pysh.n_pes;
    words[ISHMEMX_STATE_TIMEOUT_NS] = pysh.timeout_ns;
    /* Where kernels run on the CPU groups in one collective are always looked for: it costs little there. */
    words[ISHMEMX_STATE_CHECK] = pysh.check || arena->cpu_visible;
    if (!base)
        return ISHMEMX_OK;
    if ((status = pysh_proxy_wake()))
        return status;
    words[ISHMEMX_STATE_HEAP_BASE] = base;
    words[ISHMEMX_STATE_HEAP_BYTES] = arena->nbytes;
    words[ISHMEMX_STATE_SYNC_SLOTS] =
        (pysh.p2p ? base : (int64_t)(intptr_t)pysh.arena[ISHMEMX_HEAP_HOST].base) + PYSH_SYNC_SLOTS;
    words[ISHMEMX_STATE_SYNC_EPOCH] = base + PYSH_SYNC_EPOCH;
    words[ISHMEMX_STATE_FAULT_CLAIM] = base + PYSH_FAULT_CLAIM;
    words[ISHMEMX_STATE_FAULT_RECORD] = (int64_t)(intptr_t)fault_on_device;
    if (host_opened || arena->cpu_visible) {
        words[ISHMEMX_STATE_HOST_BASE] = (int64_t)(intptr_t)pysh.arena[ISHMEMX_HEAP_HOST].base;
        words[ISHMEMX_STATE_HOST_BYTES] = pysh.arena[ISHMEMX_HEAP_HOST].nbytes;
    }
    words[ISHMEMX_STATE_P2P] = reached(arena);
    words[ISHMEMX_STATE_TEAMS] = (int64_t)(intptr_t)pysh_device_teams_table();
    words[ISHMEMX_STATE_GRID_WORD] = base + PYSH_GRID_WORD;
    words[ISHMEMX_STATE_TRACE] = pysh_trace_place();
    pysh_proxy_state(words);
    memcpy(&words[ISHMEMX_STATE_BY_OWNER], pysh.by_owner, sizeof pysh.by_owner);
    memcpy(&words[ISHMEMX_STATE_CUTOVER_PUT_MIN], cutover, sizeof cutover);
    words[ISHMEMX_STATE_NEAR_BEGIN] = pysh_near_begin();
    words[ISHMEMX_STATE_NEAR_END] = pysh_near_end();
    for (int pe = pysh_near_begin(); pe < pysh_near_end(); pe++)
        words[ISHMEMX_STATE_DELTA + pysh_near_place(pe)] =
            pysh.p2p && arena->peer[pe] ? (int64_t)(intptr_t)arena->peer[pe] - base : ISHMEMX_FAR;
    return ISHMEMX_OK;
}

int ishmemx_state_publish(int64_t *address_p) {
    int64_t words[ISHMEMX_STATE_WORDS];
    int status;

    PYSH_ENTER();
    if (!pysh.accel)
        return pysh_fail(ISHMEMX_ERR_STATE, "there is no device heap, and so no state block in device memory");
    if ((status = ishmemx_device_state(words)))
        return status;
    *address_p = words[ISHMEMX_STATE_HEAP_BASE] + PYSH_STATE_BLOCK;
    return pysh.accel->copy(pysh.arena[ISHMEMX_HEAP_DEVICE].base + PYSH_STATE_BLOCK, words, sizeof words);
}

int ishmemx_cutover_set(int first, int count, const int64_t *words) {
    if (first < ISHMEMX_STATE_CUTOVER_PUT_MIN || count < 0 || first + count > ISHMEMX_STATE_WORDS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "words %d to %d of the state block are not all of the cutover table",
                         first, first + count - 1);
    memcpy(&cutover[first - ISHMEMX_STATE_CUTOVER_PUT_MIN], words, (size_t)count * sizeof *words);
    return ISHMEMX_OK;
}

int ishmemx_cutover_get(int first, int count, int64_t *words) {
    if (first < ISHMEMX_STATE_CUTOVER_PUT_MIN || count < 0 || first + count > ISHMEMX_STATE_WORDS)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "words %d to %d of the state block are not all of the cutover table",
                         first, first + count - 1);
    memcpy(words, &cutover[first - ISHMEMX_STATE_CUTOVER_PUT_MIN], (size_t)count * sizeof *words);
    return ISHMEMX_OK;
}
