/* SPDX-License-Identifier: BSD-3-Clause
 * Exchange of the openshmem conduit: each PE leaves its record, all pass the barrier, each reads.
 *
 * Where all PEs are mapped each looks into the buffers of the others. Else a PE leaves a copy on the first PE of its
 * host, the *head*, in its place there. Behind the barrier the heads fetch from each other what their hosts' PEs have
 * left, and tell those of their own host, who read it on their head. What has no room in a place each PE fetches from
 * each other. Buffers and places are written again in the next but one epoch, which no PE enters before all have
 * passed the barrier between, and so read what they wanted of this. */
#include "transport/openshmem/exchange.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "ishmemx.h"
#include "node/control.h"
#include "node/wait.h"
#include "transport/openshmem/barrier.h"
#include "transport/openshmem/openshmem.h"
#include "transport/openshmem/progress.h"
#include "transport/openshmem/transfer.h"

#define HEAD_BYTES offsetof(pysh_exchange_t, bytes)

typedef struct exchange {
    const char *what;
    uint64_t epoch;
    size_t nbytes;
    pysh_exchange_t *own;
} exchange_t;

/* The epoch of an exchange that all have entered, when this PE gave up waiting for its head; 0: none. The others go on,
 * as if it had passed; so the same call made again only waits. */
static uint64_t unheard;

/* ---- places ---- */

/* Of the i-th PE in the order of the hosts. */
static char *os_place(const exchange_t *x, int i) {
    return (char *)(pysh_os.control + 1) + ((x->epoch & 1) * (size_t)pysh_os.n_pes + (size_t)i) * PYSH_OS_PLACE_BYTES;
}

static char *os_mapped(void *address, int pe) {
    return pysh_os.peer[pe] ? (char *)pysh_os.peer[pe] + ((char *)address - (char *)pysh_os.control) : NULL;
}

static int head_of(int host) {
    return pysh_os.hosts.order[pysh_os.hosts.first[host]];
}

static bool has_room(const exchange_t *x) {
    return x->nbytes <= PYSH_OS_FEW_BYTES;
}

/* With the places as large on all PEs, one that is in another exchange spoils nobody's record. On a host without
 * shared memory the record has come when the head has answered what was sent behind it; a quiet would ask all PEs. */
static void leave_record(const exchange_t *x) {
    const pysh_os_hosts_t *hosts = &pysh_os.hosts;
    int head = head_of(hosts->mine);
    char *to = os_place(x, hosts->first[hosts->mine] + hosts->index), *there = os_mapped(to, head);
    size_t nbytes = HEAD_BYTES + (has_room(x) ? x->nbytes : 0);

    if (there) {
        memcpy(there, x->own, nbytes);
        return;
    }
    PYSH_OS_LOCK();
    pysh_os.library->putmem(to, x->own, nbytes, head);
    pysh_os.library->fence();
    pysh_os.library->ulong_atomic_fetch((unsigned long *)&pysh_os.control->gathered, head);
    PYSH_OS_UNLOCK();
}

/* ---- the heads ---- */

/* Each begins with the host after its own, so that not all ask the same at once. */
static void fetch_hosts(const exchange_t *x) {
    const pysh_os_hosts_t *hosts = &pysh_os.hosts;

    if (hosts->n == 1)
        return;
    PYSH_OS_LOCK();
    for (int i = 1; i < hosts->n; i++) {
        int host = (hosts->mine + i) % hosts->n;
        char *block = os_place(x, hosts->first[host]);
        pysh_os.library->getmem(block, block, (size_t)(os_place(x, hosts->first[host + 1]) - block), head_of(host));
    }
    PYSH_OS_UNLOCK();
}

static void tell_host(const exchange_t *x) {
    const pysh_os_hosts_t *hosts = &pysh_os.hosts;
    _Atomic uint64_t *word = &pysh_os.control->gathered;

    for (int i = hosts->first[hosts->mine] + 1; i < hosts->first[hosts->mine + 1]; i++) {
        int pe = hosts->order[i];
        _Atomic uint64_t *there = (_Atomic uint64_t *)(void *)os_mapped(word, pe);
        if (there) {
            /* release: pairs with the acquire in has_told() */
            atomic_store_explicit(there, x->epoch, memory_order_release);
            pysh_os_wake(pe);
        } else {
            PYSH_OS_LOCK();
            pysh_os.library->ulong_atomic_set((unsigned long *)word, x->epoch, pe);
            PYSH_OS_UNLOCK();
        }
    }
}

/* ---- the others of a host ---- */

static bool has_told(const exchange_t *x) {
    return atomic_load_explicit(&pysh_os.control->gathered, memory_order_acquire) >= x->epoch;
}

static bool too_late(pysh_wait_t *wait) {
    (void)wait;
    return false;
}

static const pysh_wait_barrier_t complete = {.leave = too_late};

static int hear_head(const exchange_t *x) {
    int status = ISHMEMX_OK;
    pysh_wait_t wait;

    pysh_wait_begin_barrier(&wait, x->what, &complete);
    while (!status && !has_told(x))
        status = pysh_wait_pause(&wait);
    pysh_wait_end(&wait);
    unheard = has_told(x) ? 0 : x->epoch;
    return unheard ? status : ISHMEMX_OK;
}

/* All that the PEs left, on the head or a copy. */
static const char *read_head(const exchange_t *x) {
    int head = head_of(pysh_os.hosts.mine);
    char *places = os_place(x, 0), *there = os_mapped(places, head);

    if (there)
        return there;
    PYSH_OS_LOCK();
    pysh_os.library->getmem(places, places, (size_t)pysh_os.n_pes * PYSH_OS_PLACE_BYTES, head);
    PYSH_OS_UNLOCK();
    return places;
}

/* ---- all of it ---- */

static int os_take(const exchange_t *x, const pysh_exchange_t *theirs, size_t nbytes, int pe, void *all) {
    if (theirs->epoch != x->own->epoch || theirs->nbytes != x->nbytes)
        return pysh_exchange_mismatch(theirs, x->own->epoch, x->what, pysh_os.pe, pe);
    memcpy((char *)all + (size_t)pe * x->nbytes, theirs->bytes, nbytes);
    return ISHMEMX_OK;
}

static int take_each(const exchange_t *x, void *all) {
    pysh_exchange_t copy;
    int status = ISHMEMX_OK;

    for (int pe = 0; !status && pe < pysh_os.n_pes; pe++)
        status = os_take(x, pysh_os_record(x->own, x->nbytes, pe, &copy), x->nbytes, pe, all);
    return status;
}

static int take_by_hosts(const exchange_t *x, void *all) {
    const char *places;
    int status = ISHMEMX_OK;

    if (pysh_os.hosts.index == 0) {
        fetch_hosts(x);
        tell_host(x);
        places = os_place(x, 0);
    } else {
        if ((status = hear_head(x)))
            return status;
        places = read_head(x);
    }
    for (int i = 0; !status && i < pysh_os.n_pes; i++)
        status = os_take(x, (const pysh_exchange_t *)(const void *)(places + (size_t)i * PYSH_OS_PLACE_BYTES),
                         has_room(x) ? x->nbytes : 0, pysh_os.hosts.order[i], all);
    return status || has_room(x) ? status : take_each(x, all);
}

static exchange_t in_epoch(uint64_t epoch, const char *what, size_t nbytes) {
    return (exchange_t){what, epoch, nbytes, &pysh_os.control->slot.exchange[epoch & 1]};
}

/* Is it what this PE has not heard the end of? */
static bool goes_on(const exchange_t *x, const void *mine) {
    return unheard && unheard == x->epoch && strcmp(x->own->routine, x->what) == 0 && x->own->nbytes == x->nbytes &&
           memcmp(x->own->bytes, mine, x->nbytes) == 0;
}

int pysh_os_exchange(const char *what, const void *mine, void *all, size_t nbytes) {
    uint64_t epoch = pysh_os_epoch();
    exchange_t x = in_epoch(epoch, what, nbytes);
    int status;

    if (nbytes > sizeof x.own->bytes)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "%s: exchange of %zu bytes, more than %zu", what, nbytes,
                         sizeof x.own->bytes);
    if (!goes_on(&x, mine)) {
        x = in_epoch(epoch + 1, what, nbytes);
        pysh_exchange_begin(x.own, (uint32_t)x.epoch, what, mine, nbytes);
        if (!pysh_os.direct)
            leave_record(&x);
        if ((status = pysh_os_arrive(what, PYSH_OS_ARRIVAL + PYSH_OS_EXCHANGE, NULL)))
            return status;
    }
    return pysh_os.direct ? take_each(&x, all) : take_by_hosts(&x, all);
}
