/* SPDX-License-Identifier: BSD-3-Clause
 * The transport of one host: arenas are shared memory that every PE maps, so RMA and atomics are the
 * CPU's own; what is left is meeting, waiting and noticing who is gone (host.c), and the barrier
 * (agree/shared_memory.c). */
#include "transport/mapped/mapped.h"

#include <stdint.h>

#include "agree/shared_memory.h"
#include "base/state.h"
#include "base/status.h"
#include "join/hello.h"
#include "memory/static_copy.h"
#include "node/node.h"
#include "node/sleep.h"
#include "transport/mapped/host.h"
#include "transport/transport.h"

static void mapped_abort(uint32_t word, const char *reason) {
    pysh_control_set_abort(pysh_host.control, word, pysh_host.pe, reason);
    pysh_shm_wake_all(pysh_host.control);
}

static int mapped_open(const ishmemx_config_t *config, int *pe_p, int *n_pes_p) {
    int status;

    if (config->n_pes > PYSH_MAX_PES)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "the shm conduit has at most %d PEs, not %d", PYSH_MAX_PES,
                         config->n_pes);
    if (pysh.several_hosts)
        return pysh_fail(
            ISHMEMX_ERR_UNSUPPORTED,
            "the launcher put the %d PEs on several hosts, and the shm conduit reaches one only: start all "
            "PEs on one host, or take PYSHMEM_CONDUIT=openshmem and the launcher of an OpenSHMEM library "
            "(oshrun)%s",
            config->n_pes, pysh.one_host_advice);
    if ((status = pysh_host_open(config, NULL, config->n_pes, config->pe)))
        return status;
    pysh_sleep_prepare();
    pysh_shm_agree(pysh_host.control, config->pe);
    pysh.agree = &pysh_agree_shm;
    status = pysh_host_watch();
    pysh_node.liveness = pysh_host_liveness;
    pysh_node.abort = mapped_abort;
    if (!status)
        status = pysh_agree_shm.barrier("init", false, NULL);
    if (status) {
        pysh_host_open_failed();
        return status;
    }
    *pe_p = config->pe;
    *n_pes_p = config->n_pes;
    return ISHMEMX_OK;
}

const pysh_transport_t pysh_transport_mapped = {
    .name = "shm",
    .open = mapped_open,
    .close = pysh_host_close,
    .leave = pysh_host_leave,
    .arena = pysh_host_arena,
    .arena_file = pysh_host_arena_file,
    .give_back = pysh_host_give_back,
    .put = pysh_static_put,
    .get = pysh_static_get,
    .amo = pysh_static_amo,
    .reaches = pysh_static_reaches,
};
