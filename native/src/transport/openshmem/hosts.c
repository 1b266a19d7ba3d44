/* SPDX-License-Identifier: BSD-3-Clause
 * See hosts.h. */
#define _GNU_SOURCE
#include "transport/openshmem/hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "transport/openshmem/openshmem.h"

static pysh_os_self_t *all; /* [n_pes], for as long as the process has the library */

static void os_meet(void) {
    pysh_os_self_t *mine = &pysh_os.control->self;

    gethostname(mine->host, sizeof mine->host - 1);
    mine->maps_all = true;
    for (int pe = 0; pe < pysh_os.n_pes; pe++)
        mine->maps_all = mine->maps_all && pysh_os.peer[pe];
    pysh_os.library->barrier_all();
    for (int pe = 0; pe < pysh_os.n_pes; pe++)
        pysh_os.library->getmem_nbi(&all[pe], mine, sizeof *mine, pe);
    pysh_os.library->quiet();
    pysh_os.library->barrier_all();
    pysh_os.direct = true;
    for (int pe = 0; pe < pysh_os.n_pes; pe++)
        pysh_os.direct = pysh_os.direct && all[pe].maps_all;
}

/* The hosts in the order of their first PEs; `of[pe]` is for the number of a PE's. */
static void count(pysh_os_hosts_t *hosts, int *of) {
    int at = 0;

    for (int head = 0; head < pysh_os.n_pes; head++) {
        if (of[head])
            continue;
        hosts->first[hosts->n++] = at;
        for (int pe = head; pe < pysh_os.n_pes; pe++)
            if (!of[pe] && strcmp(all[pe].host, all[head].host) == 0) {
                of[pe] = hosts->n;
                hosts->order[at++] = pe;
            }
    }
    hosts->first[hosts->n] = at;
}

int pysh_os_learn_hosts(void) {
    pysh_os_hosts_t *hosts = &pysh_os.hosts;
    size_t n = (size_t)pysh_os.n_pes;
    int *of = calloc(n, sizeof *of);

    all = calloc(n, sizeof *all);
    hosts->order = malloc((2 * n + 1) * sizeof *hosts->order);
    if (!of || !all || !hosts->order) {
        free(of);
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", pysh_os.n_pes);
    }
    os_meet();
    hosts->first = hosts->order + n;
    count(hosts, of);
    hosts->mine = of[pysh_os.pe] - 1;
    while (hosts->order[hosts->first[hosts->mine] + hosts->index] != pysh_os.pe)
        hosts->index++;
    free(of);
    return ISHMEMX_OK;
}

bool pysh_os_on_host(int pe) {
    return strcmp(all[pe].host, all[pysh_os.pe].host) == 0;
}

const char *pysh_os_host(int pe) {
    return all ? all[pe].host : "another host";
}
