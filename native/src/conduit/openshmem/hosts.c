/* SPDX-License-Identifier: BSD-3-Clause
 * See hosts.h. */
#define _GNU_SOURCE
#include "conduit/openshmem/hosts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "conduit/openshmem/barrier.h"
#include "conduit/openshmem/openshmem.h"

typedef struct names {
    char host[256];
} names_t;

static names_t *hosts; /* [n_pes], for as long as the process has the library */

int pysh_os_learn_hosts(void) {
    names_t mine = {""};

    if (!hosts)
        hosts = calloc((size_t)pysh_os.n_pes, sizeof *hosts);
    if (!hosts)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", pysh_os.n_pes);
    gethostname(mine.host, sizeof mine.host - 1);
    return pysh_os_exchange("init", &mine, hosts, sizeof mine);
}

bool pysh_os_on_host(int pe) {
    return strcmp(hosts[pe].host, hosts[pysh_os.pe].host) == 0;
}

bool pysh_os_maps(int pe) {
    return pysh_os.peer[pe] != NULL;
}

const char *pysh_os_host(int pe) {
    return hosts ? hosts[pe].host : "another host";
}
