/* SPDX-License-Identifier: BSD-3-Clause
 * How the PEs agree on a way to each other's static variables: all map them, or all copy them by the transport,
 * or there are none. */
#define _GNU_SOURCE
#include "memory/static_share.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agree/agree.h"
#include "base/clock.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/static_segment.h"
#include "transport/transport.h"

typedef struct offer {
    uint64_t layout, device, inode;
    pysh_static_peer_t self;
    int32_t way, fd;
} offer_t;

pysh_static_peer_t *pysh_static_peers;
static uint64_t sign;
static const char *why_not = "";

/* ---- one peer's ---- */

static char *map_peer(const offer_t *offer) {
    char path[64];
    struct stat file;
    char *pages = MAP_FAILED;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)offer->self.pid, (int)offer->fd);
    fd = offer->fd < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &file) == 0 && file.st_dev == offer->device && file.st_ino == offer->inode)
        pages = mmap(NULL, pysh_static_segment.pages_nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return pages == MAP_FAILED ? NULL : pages;
}

/* ---- the ways ---- */

static size_t head(void) { /* of the first page, before the variables */
    return (size_t)(pysh_static_segment.base - pysh_static_segment.pages);
}

static void unmap_peers(void) {
    char **peer = pysh.arena[PYSH_STATICS].peer;

    for (int pe = 0; peer && pe < pysh.n_pes; pe++) {
        if (peer[pe] && pe != pysh.pe)
            munmap(peer[pe] - head(), pysh_static_segment.pages_nbytes);
        peer[pe] = NULL;
    }
}

static bool map_peers(const offer_t *all) {
    char **peer = pysh.arena[PYSH_STATICS].peer;

    for (int pe = 0; pe < pysh.n_pes; pe++) {
        char *pages = pe == pysh.pe ? pysh_static_segment.pages : map_peer(&all[pe]);
        if (!pages)
            return false;
        peer[pe] = pages + head();
    }
    return true;
}

static bool transport_reaches(void) {
    for (int pe = 0; pe < pysh.n_pes; pe++)
        if (pe != pysh.pe && !pysh.transport->reaches(pysh_static_segment.base, pysh_static_segment.nbytes, pe))
            return false;
    return true;
}

/* ---- the agreement ---- */

static void offer_fill(offer_t *offer, int64_t way) {
    const pysh_static_segment_t *own = &pysh_static_segment;
    struct stat file = {0};
    bool shared = own->fd >= 0 && fstat(own->fd, &file) == 0;

    memset(offer, 0, sizeof *offer);
    sign = (uint64_t)pysh_now_ns() ^ (uint64_t)getpid() << 40;
    offer->layout = own->wanted ? own->layout : 0;
    offer->device = file.st_dev;
    offer->inode = file.st_ino;
    offer->self = (pysh_static_peer_t){getpid(), (uintptr_t)own->base, (uintptr_t)&sign, sign};
    offer->way = (int32_t)way;
    offer->fd = shared ? own->fd : -1;
}

/* Does every PE say yes? */
static int all_say(bool mine, bool *all_p) {
    uint32_t *all = calloc((size_t)pysh.n_pes, sizeof *all), one = mine;
    int status = all ? pysh.agree->exchange("init", &one, all, sizeof one)
                     : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to ask %d PEs", pysh.n_pes);

    *all_p = true;
    for (int pe = 0; !status && pe < pysh.n_pes; pe++)
        *all_p = *all_p && all[pe];
    free(all);
    return status;
}

/* PYSH_STATICS_NONE, with the reason, when the offers alone rule it out; the same on all PEs. */
static int way_of(const offer_t *all) {
    int way = all[0].way;

    why_not = "";
    for (int pe = 0; pe < pysh.n_pes; pe++) {
        if (!all[pe].layout)
            why_not = "a PE was not started by shmem_init or shmem_init_thread of a C program";
        else if (all[pe].layout != all[0].layout)
            why_not = "the PEs run different programs";
        else if (all[pe].way == PYSH_STATICS_NONE)
            why_not = "PYSHMEM_STATICS is none";
        if (all[pe].way > way)
            way = all[pe].way;
    }
    return *why_not ? PYSH_STATICS_NONE : way;
}

static int choose(const offer_t *all, bool *open_p) {
    int way = way_of(all), status = ISHMEMX_OK;
    bool can = true;

    *open_p = false;
    if (way == PYSH_STATICS_NONE)
        return ISHMEMX_OK;
    for (int pe = 0; pe < pysh.n_pes; pe++)
        pysh_static_peers[pe] = all[pe].self;
    if (way != PYSH_STATICS_CONDUIT || pysh.n_pes == 1) {
        if ((status = all_say(map_peers(all), open_p)) || *open_p)
            return status;
        unmap_peers();
    }
    if (way != PYSH_STATICS_MAP) {
        can = transport_reaches();
        pysh.arena[PYSH_STATICS].peer[pysh.pe] = pysh_static_segment.base;
        status = all_say(can, open_p);
    }
    why_not = "the PEs can neither map nor write each other's";
    return status;
}

int pysh_statics_open(void) {
    pysh_arena_t *arena = &pysh.arena[PYSH_STATICS];
    offer_t mine, *all;
    int64_t way;
    bool open = false;
    int status = ishmemx_setting_number("STATICS", &way);

    if (status)
        return status;
    all = calloc((size_t)pysh.n_pes, sizeof *all);
    pysh_static_peers = calloc((size_t)pysh.n_pes, sizeof *pysh_static_peers);
    if (!all || !pysh_static_peers) {
        free(all);
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", pysh.n_pes);
    }
    offer_fill(&mine, way);
    status = pysh.agree->exchange("init", &mine, all, sizeof mine);
    if (!status)
        status = choose(all, &open);
    if (!status && open) {
        arena->base = pysh_static_segment.base;
        arena->nbytes = arena->system = (int64_t)pysh_static_segment.nbytes;
        arena->cpu_visible = true;
    }
    free(all);
    return status;
}

void pysh_statics_close(void) {
    unmap_peers();
    free(pysh_static_peers);
    pysh_static_peers = NULL;
    pysh_static_segment.wanted = false;
    why_not = "";
}

const char *pysh_statics_why_not(const void *address) {
    static _Thread_local char text[512];
    const pysh_static_segment_t *own = &pysh_static_segment;
    Dl_info object;

    if ((uintptr_t)address - (uintptr_t)own->base < own->nbytes)
        snprintf(text, sizeof text, "; it is a static variable, which is not symmetric here: %s", why_not);
    else if (dladdr(address, &object) && object.dli_fname)
        snprintf(text, sizeof text,
                 "; it lies in %s, but only the static variables of a C program itself are symmetric",
                 object.dli_fname);
    else
        return "";
    return text;
}
