/* SPDX-License-Identifier: BSD-3-Clause
 * Init and finalize: they put transport, accelerator and heaps together and take them apart. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agree/agree.h"
#include "agree/nodes.h"
#include "am/am.h"
#include "base/cores.h"
#include "base/settings.h"
#include "base/state.h"
#include "base/status.h"
#include "collectives/request.h"
#include "device/device_heap.h"
#include "device/device_teams.h"
#include "host_proxy/proxy.h"
#include "join/join.h"
#include "join/variables.h"
#include "memory/heap.h"
#include "memory/pools.h"
#include "memory/registered.h"
#include "memory/release.h"
#include "memory/static_share.h"
#include "memory/system_region.h"
#include "memory/usage.h"
#include "node/enter.h"
#include "node/node.h"
#include "node/wait.h"
#include "stream/stream.h"
#include "teams/cells.h"
#include "teams/sync.h"
#include "teams/team.h"
#include "transport/mapped/mapped.h"
#include "transport/openshmem/start.h"
#include "transport/quiet.h"
#include "transport/transport.h"
#include "transport/ucx/start.h"

#define SPIN_ALONE  100 /* polls when every PE can have a core: some microseconds, since two PEs may meet on one */
#define SPIN_SHARED 20  /* polls when PEs share cores: whoever is waited for may need this one */

static int n_inits; /* without their finalize */
static int thread_level;
static bool stuck; /* an earlier job could not be taken down */

static const pysh_transport_t *const transports[] = {&pysh_transport_mapped, &pysh_transport_openshmem,
                                                     &pysh_transport_ucx};

static const pysh_transport_t *transport_find(const char *name) {
    if (strcasecmp(name, "auto") == 0)
        return pysh_join_find()               ? &pysh_transport_ucx
               : pysh_launcher_is_openshmem() ? &pysh_transport_openshmem
                                              : &pysh_transport_mapped;
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
        if (strcasecmp(name, transports[i]->name) == 0)
            return transports[i];
    return NULL;
}

/* ---- init ---- */

static int64_t spin_choose(int64_t wanted, int n_pes) {
    if (wanted >= 0)
        return wanted;
    return n_pes <= pysh_cores() ? SPIN_ALONE : SPIN_SHARED;
}

static bool records_order;

void ishmemx_record_order(void) {
    records_order = true;
}

/* Of what PYSHMEM_CHECK asks for, what there is here. */
static int checks_check(int checks) {
    const int recorded = ISHMEMX_CHECK_ORDER | ISHMEMX_CHECK_DELIVER | ISHMEMX_CHECK_STRICT;

    if (checks & recorded && !records_order)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "PYSHMEM_CHECK: order is of programs in Python that `python -m pyshmem run` has started");
    return ISHMEMX_OK;
}

static int config_check(const ishmemx_config_t *config) {
    int status = checks_check(config->check);

    if (status)
        return status;
    if (config->n_pes < 1 || config->pe < 0 || config->pe >= config->n_pes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "PE %d of a job of %d PEs", config->pe, config->n_pes);
    if (config->n_pes > 1 && !(config->job && *config->job))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "a job of %d PEs needs a name, the same on all of them (PYSHMEM_JOB)",
                         config->n_pes);
    if (config->heap_bytes < 1)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "PYSHMEM_HEAP_SIZE must be positive");
    if (config->accelerator < ISHMEMX_DEVICE_NONE || config->accelerator > ISHMEMX_DEVICE_SIM)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "accelerator %d is not known", config->accelerator);
    if (config->accelerator == ISHMEMX_DEVICE_NONE)
        return ISHMEMX_OK;
    if (config->device_heap_bytes < 1)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "PYSHMEM_DEVICE_HEAP_SIZE must be positive");
    return ISHMEMX_OK;
}

/* Are there device heaps that neither a mapping nor the transport reaches? */
static bool has_remote_heaps(const ishmemx_config_t *config) {
    bool remote = pysh.n_nodes > 1 || (!pysh.p2p && config->accelerator == ISHMEMX_DEVICE_CUDA && pysh.n_pes > 1);

    for (int pe = 0; !remote && pe < pysh.n_pes; pe++)
        remote = !pysh_node.slot[pe];
    return remote && config->accelerator != ISHMEMX_DEVICE_NONE;
}

/* *tables_p: flags and stages of kernels' collectives when they are on the host arena, else NULL. */
static int host_heap_open(const ishmemx_config_t *config, char **tables_p) {
    pysh_arena_t *arena = &pysh.arena[ISHMEMX_HEAP_HOST];
    int64_t teams = PYSH_SYSTEM_BYTES + ((pysh_team_tables_nbytes(pysh.n_pes) + 4095) & -4096);
    bool kernels = config->accelerator != ISHMEMX_DEVICE_NONE && !pysh.p2p; /* their collectives meet here */
    bool remote = has_remote_heaps(config);
    int64_t messages = teams + (kernels ? pysh_device_tables_nbytes(pysh.n_pes) : 0);
    int64_t system = messages + (remote ? pysh.am_nbytes : 0);
    int64_t nbytes = pysh_arena_nbytes(config->heap_bytes, system);
    int status = pysh.transport->arena(ISHMEMX_HEAP_HOST, nbytes, &arena->base, arena->peer);

    if (status)
        return status;
    arena->nbytes = nbytes;
    arena->system = system;
    arena->cpu_visible = true;
    memset(arena->base, 0, PYSH_SYSTEM_BYTES);
    *tables_p = kernels ? arena->base + teams : NULL;
    if (remote && (status = pysh_am_open(arena->base + messages)))
        return status;
    return pysh_heap_setup(ISHMEMX_HEAP_HOST, nbytes);
}

/* `together`: all PEs are here, and none looks at another's memory any more. */
static void tear_down(bool together) {
    int64_t blocks[ISHMEMX_HEAP_COUNT];

    pysh_streams_close();
    pysh_proxy_stop();
    pysh_am_close();
    pysh_requests_abandon();
    pysh_teams_teardown();
    pysh_device_teams_close();
    pysh_usage_close();
    pysh_registered_close_all();
    pysh_pools_close_all();
    pysh_heap_teardown(blocks);
    if (!together)
        pysh_heap_forget_holes();
    pysh_device_heap_close(blocks[ISHMEMX_HEAP_DEVICE]);
    pysh.transport->close(blocks);
    pysh_heap_forget_holes();
    pysh_statics_close();
    for (int heap = 0; heap < PYSH_ARENA_COUNT; heap++)
        free(pysh.arena[heap].peer);
    pysh_nodes_close();
    pysh_state_clear();
}

static _Atomic uintptr_t starter; /* the thread that is in init, while it starts the job */

static bool starts_here(void) {
    return atomic_load(&starter) == (uintptr_t)pthread_self();
}

/* A child of fork() is no PE: it must not act on the job's memory as if it were its parent. */
static void forget_in_child(void) {
    if (pysh.ready)
        pysh_entered_by_fork(pysh.pe);
    pysh.ready = 0;
    atomic_store(&starter, 0);
}

static int heaps_open(const ishmemx_config_t *config) {
    char *kernel_tables;
    int status;

    for (int heap = 0; heap < PYSH_ARENA_COUNT; heap++) {
        pysh.arena[heap].peer = calloc((size_t)pysh.n_pes, sizeof *pysh.arena[heap].peer);
        if (!pysh.arena[heap].peer)
            return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a table of %d PEs", pysh.n_pes);
    }
    if ((status = host_heap_open(config, &kernel_tables)) || (status = pysh_statics_open()))
        return status;
    if (config->accelerator != ISHMEMX_DEVICE_NONE && (status = pysh_device_heap_open(config, kernel_tables)))
        return status;
    if ((status = pysh_teams_setup()) || (status = pysh_heap_agree()))
        return status;
    pysh_usage_open(config->job);
    return pysh_device_heap_serve();
}

static int job_start(const ishmemx_config_t *config) {
    static bool fork_handled;
    const pysh_transport_t *transport;
    const char *name, *origin;
    int64_t position, p2p, core_heaps, report_after_ns, check_first;
    int status;

    if (pysh_is_forked(ISHMEMX_ERR_UNSUPPORTED))
        return ISHMEMX_ERR_UNSUPPORTED;
    if (stuck)
        return pysh_fail(ISHMEMX_ERR_STATE, "init: a thread is still in a wait of the job before");
    if ((status = config_check(config)) || (status = pysh_launcher_refuse_half_a_rank(config)) ||
        (status = ishmemx_setting_number("P2P", &p2p)) ||
        (status = ishmemx_setting_number("CORE_HEAPS", &core_heaps)) ||
        (status = ishmemx_setting_number("REPORT_AFTER", &report_after_ns)) ||
        (status = ishmemx_setting_number("CHECK_FIRST", &check_first)) ||
        (status = ishmemx_setting_number("CONDUIT", &position)) ||
        (status = ishmemx_setting("CONDUIT", &name, &origin)))
        return status;
    if (!(transport = transport_find(name)))
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "conduit %s is not built in", name);
    if (!fork_handled)
        fork_handled = pthread_atfork(NULL, NULL, forget_in_child) == 0;
    pysh.transport = transport;
    pysh.timeout_ns = config->init_timeout_ns; /* until ready */
    pysh.spin = spin_choose(config->spin, config->n_pes);
    pysh.crowded = config->n_pes > pysh_cores();
    pysh.check = config->check & ISHMEMX_CHECK_ARGS;
    pysh.checks = config->check;
    pysh.check_first = (unsigned)check_first;
    pysh.p2p = p2p != 0;
    pysh.several_hosts = pysh_launcher_several_hosts(config->n_pes);
    pysh.one_host_advice = pysh_launcher_one_host();
    pysh.srun = pysh_launcher_is_srun(config->n_pes, &pysh.srun_pmi);
    pysh.team_tables_nbytes = pysh_team_tables_nbytes(config->n_pes);
    pysh.kernel_tables_nbytes = pysh_device_tables_nbytes(config->n_pes);
    pysh.am_nbytes = pysh_am_nbytes(config->n_pes);
    pysh.core_heaps = core_heaps != 0;
    if ((status = transport->open(config, &pysh.pe, &pysh.n_pes))) {
        pysh_state_clear();
        return status;
    }
    pysh.alarm = pysh_node.alarm;
    if ((status = pysh_nodes_open(config->accelerator != ISHMEMX_DEVICE_NONE)) || (status = heaps_open(config))) {
        pysh_node_abort(status, ishmemx_error()); /* the others learn why, not only that this PE left */
        tear_down(false);
        return status;
    }
    pysh.timeout_ns = config->timeout_ns;
    pysh.report_after_ns = report_after_ns;
    pysh_entered_first();
    atomic_store(&pysh.ready, PYSH_READY);
    return ISHMEMX_OK;
}

/* One thread at a time, and not while the job ends: what is half there is neither started again nor joined. */
static int start_alone(const ishmemx_config_t *config, int requested) {
    uintptr_t other = 0;
    const char *inside = pysh_waits_to_the_end() ? "finalize" : starts_here() ? "init" : NULL;
    int status = ISHMEMX_OK;

    if (inside)
        return pysh_fail(ISHMEMX_ERR_STATE,
                         "init: this thread is in `%s`; a signal's handler cannot start the job inside of it: let it "
                         "raise an exception or set a flag, and call init behind the call",
                         inside);
    if (atomic_load(&pysh.ready) == PYSH_ENDING ||
        !atomic_compare_exchange_strong(&starter, &other, (uintptr_t)pthread_self()))
        return pysh_fail(ISHMEMX_ERR_STATE, "init: another thread is in %s", other ? "init" : "finalize");
    if (!atomic_load(&pysh.ready) && !(status = job_start(config))) {
        n_inits = 0;
        thread_level = requested;
        if (pysh.pe == 0)
            pysh_settings_announce();
    }
    atomic_store(&starter, 0);
    return status;
}

int ishmemx_init_thread(const ishmemx_config_t *config, int requested, int *provided) {
    int status;

    if (requested < ISHMEMX_THREAD_SINGLE || requested > ISHMEMX_THREAD_MULTIPLE)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "the thread level is %d, not one of THREAD_SINGLE (%d) to "
                         "THREAD_MULTIPLE (%d)",
                         requested, ISHMEMX_THREAD_SINGLE, ISHMEMX_THREAD_MULTIPLE);
    if (atomic_load(&pysh.ready) != PYSH_READY && (status = start_alone(config, requested)))
        return status;
    n_inits++;
    *provided = thread_level;
    return ISHMEMX_OK;
}

int ishmemx_init(const ishmemx_config_t *config) {
    int provided;

    return ishmemx_init_thread(config, ISHMEMX_THREAD_MULTIPLE, &provided);
}

int ishmemx_query_thread(int *provided) {
    PYSH_ENTER();
    *provided = thread_level;
    return ISHMEMX_OK;
}

/* ---- finalize and abort ---- */

/* The job is over for this PE, but a thread is still in a wait: everything stays mapped until the process ends. */
static int leave_mapped(void) {
    pysh.transport->leave();
    atomic_store(&pysh.ready, 0);
    stuck = true;
    return pysh_fail(ISHMEMX_ERR_STATE, "finalize: another thread of PE %d does not come out of a wait", pysh.pe);
}

/* An exchange: unlike a barrier it does not pass for the barrier_all that others are in. They are told of it
 * there; who lives on after that error comes here next, so this PE meets them again. It is the last place where other
 * roots of broadcasts can be told. */
static int barrier_at_the_end(int *differs_p) {
    uint16_t *roots = malloc((size_t)pysh.n_pes * sizeof *roots);
    int status;

    if (!roots)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "finalize: no memory to hear %d PEs", pysh.n_pes);
    do
        status = pysh.agree->exchange("finalize", &ishmemx_team_world.roots, roots, sizeof *roots);
    while (status == ISHMEMX_ERR_MISMATCH);
    if (!status)
        *differs_p = pysh_cells_compare_roots(&ishmemx_team_world, "finalize", roots);
    free(roots);
    return status;
}

/* With the world team claimed, and no other thread in a wait. */
static int end_job(void) {
    size_t freed;
    bool aborted = atomic_load(pysh.alarm);
    int status = aborted ? ISHMEMX_OK : pysh_streams_settle(), barrier, differs = ISHMEMX_OK;

    if (!status)
        status = pysh_quiet();
    if (!status && !aborted)
        status = pysh_requests_complete(NULL, "finalize");
    if (!aborted && !atomic_load(pysh.alarm))
        pysh_teams_leave();
    aborted = aborted || atomic_load(pysh.alarm);
    barrier = aborted ? ISHMEMX_OK : barrier_at_the_end(&differs);
    if (!aborted && !barrier && pysh.transport->give_back) /* what all have dropped gives its pages back too */
        barrier = pysh_release_agree("finalize", &freed);
    pysh_team_unclaim(&ishmemx_team_world, ISHMEMX_OK);
    tear_down(!aborted && !barrier);
    return status ? status : barrier ? barrier : differs;
}

/* A signal's handler may run inside of a wait or a collective, which the end of the job would take memory from. */
int ishmemx_finalize_check(void) {
    const char *inside = pysh_wait_inside();

    if (starts_here())
        inside = "init";
    else if (!pysh.ready || n_inits > 1)
        return ISHMEMX_OK;
    if (pysh_waits_to_the_end())
        inside = "finalize";
    if (!inside)
        inside = pysh_team_inside();
    if (!inside)
        return ISHMEMX_OK;
    return pysh_fail(
        ISHMEMX_ERR_STATE,
        "finalize: this thread is in `%s`; a signal's handler cannot end the job inside of it: let it raise "
        "an exception or set a flag, and finalize behind the call",
        inside);
}

int ishmemx_finalize(void) {
    int status, ready = PYSH_READY;

    if (!pysh.ready && !starts_here())
        return ISHMEMX_OK;
    if (n_inits > 1 && !starts_here()) {
        n_inits--;
        return ISHMEMX_OK;
    }
    if ((status = ishmemx_finalize_check()))
        return status;
    if (!atomic_compare_exchange_strong(&pysh.ready, &ready, PYSH_ENDING))
        return pysh_fail(ISHMEMX_ERR_STATE, "finalize: another thread is at it");
    n_inits = 0;
    pysh_wait_to_the_end(true);
    status =
        pysh_waits_drain(pysh_teams_busy) ? pysh_team_claim(&ishmemx_team_world, "finalize", 0) : ISHMEMX_ERR_STATE;
    status = status ? leave_mapped() : end_job();
    pysh_wait_to_the_end(false);
    return status;
}

int ishmemx_abort(int code, const char *why) {
    if (!pysh.ready)
        return pysh_fail(ISHMEMX_ERR_STATE, "abort: pyshmem is not initialised");
    pysh_node_abort(code, why);
    return ISHMEMX_OK;
}
