/* SPDX-License-Identifier: BSD-3-Clause
 * Nodes: the PEs of a host, or with PYSHMEM_NODE_SIZE=k, for trials on one host, k neighbours of them. Those of one
 * with kernels are less than ISHMEMX_MAX_NEAR_PES apart. */
#include "agree/nodes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agree/agree.h"
#include "base/settings.h"
#include "base/state.h"
#include "base/status.h"
#include "node/node.h"

/* The first PE that is on the caller's node. */
static int32_t first_of_mine(int64_t size, bool kernels) {
    int32_t pe = 0, beyond = 0; /* that many of MAX_NEAR_PES behind the first of the host */

    while ((pysh_node.on_host && !pysh_node.on_host(pe)) || (size && pe / size != pysh.pe / size))
        pe++;
    if (kernels)
        beyond = (pysh.pe - pe) / ISHMEMX_MAX_NEAR_PES * ISHMEMX_MAX_NEAR_PES;
    for (pe += beyond; pysh_node.on_host && !pysh_node.on_host(pe); pe++)
        continue;
    return pe;
}

/* What a PE tells the others: settings that are the same on all, as the layout of the host arena and who compares calls
 * follow from them, and the first PE of its node. */
enum { NODE_SIZE, STAGE_SIZE, CHECK, CHECK_FIRST, SETTINGS, FIRST = SETTINGS, WORDS };

static const char *const names[SETTINGS] = {"NODE_SIZE", "STAGE_SIZE", "CHECK", "CHECK_FIRST"};

static int words_of_mine(bool kernels, int64_t *mine) {
    int status = ishmemx_setting_number("NODE_SIZE", &mine[NODE_SIZE]);

    if (status || (status = ishmemx_setting_number("STAGE_SIZE", &mine[STAGE_SIZE])))
        return status;
    mine[CHECK] = pysh.checks; /* SHMEM_DEBUG turns it on, too */
    mine[CHECK_FIRST] = pysh.check_first;
    mine[FIRST] = first_of_mine(mine[NODE_SIZE], kernels);
    return ISHMEMX_OK;
}

static int node_compare(int pe, const int64_t *theirs, const int64_t *first) {
    for (int i = 0; i < SETTINGS; i++)
        if (theirs[i] != first[i])
            return pysh_fail(ISHMEMX_ERR_MISMATCH,
                             "PYSHMEM_%s is %lld on PE %d, %lld on PE 0; it must be the same on all PEs", names[i],
                             (long long)theirs[i], pe, (long long)first[i]);
    return ISHMEMX_OK;
}

int pysh_nodes_open(bool kernels) {
    int64_t mine[WORDS], *all = calloc((size_t)pysh.n_pes, sizeof mine);
    int status;

    pysh.node = calloc((size_t)pysh.n_pes, sizeof *pysh.node);
    if (!all || !pysh.node) {
        free(all);
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a table of %d PEs", pysh.n_pes);
    }
    if (!(status = words_of_mine(kernels, mine)))
        status = pysh.agree->exchange("init", mine, all, sizeof mine);
    for (int pe = 0; !status && pe < pysh.n_pes; pe++) {
        pysh.node[pe] = (int32_t)all[WORDS * pe + FIRST];
        pysh.n_nodes += pysh.node[pe] == pe;
        status = node_compare(pe, &all[WORDS * pe], all);
    }
    memset(all, 0, (size_t)pysh.n_pes * sizeof *all); /* counts, by the nodes' first PEs */
    for (int pe = 0; !status && pe < pysh.n_pes; pe++)
        if (++all[pysh.node[pe]] > pysh.largest_node)
            pysh.largest_node = (int)all[pysh.node[pe]];
    free(all);
    return status;
}

void pysh_nodes_close(void) {
    free(pysh.node);
    pysh.node = NULL;
    pysh.n_nodes = pysh.largest_node = 0;
}

int ishmemx_node(int pe) {
    return pysh.ready && pysh.node && pe >= 0 && pe < pysh.n_pes ? pysh.node[pe] : -1;
}
