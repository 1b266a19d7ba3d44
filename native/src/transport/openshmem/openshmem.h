/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the openshmem conduit share: a PE's control block, on the library's heap, and the state. */
#pragma once

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/state.h"
#include "node/control.h"
#include "transport/openshmem/library.h"

/* The word `arrivals`, PE 0's: the epoch, and three counts of the PEs that came from an exchange, that
 * voted true, that arrived; 16 bits each. The word `released` is as on the shm conduit. */
#define PYSH_OS_ARRIVAL     1ULL
#define PYSH_OS_VOTE        (1ULL << 16)
#define PYSH_OS_EXCHANGE    (1ULL << 32)
#define PYSH_OS_EPOCH_SHIFT 48
#define PYSH_OS_MAX_PES     0xffff

typedef struct pysh_os_self { /* what a PE says of itself before there is an exchange */
    uint32_t maps_all;        /* it can load and store all others' blocks */
    char host[252];           /* its name */
} pysh_os_self_t;

typedef struct pysh_os_control {
    alignas(PYSH_CACHE_LINE) _Atomic uint64_t arrivals; /* PE 0's is the one that counts */
    alignas(PYSH_CACHE_LINE) _Atomic uint64_t released;
    alignas(PYSH_CACHE_LINE) _Atomic uint32_t aborted; /* written by other PEs, `why` first */
    char why[508];
    _Atomic uint32_t left; /* 1 + a PE that is not mapped and has ended without finalize; it says so here */
    pysh_os_self_t self;
    alignas(
        PYSH_CACHE_LINE) _Atomic uint64_t gathered; /* epoch of the last exchange that the head has, see exchange.c */
    pysh_control_slot_t slot;
} pysh_os_control_t;

/* Behind the control block are the places for what all PEs say in an exchange, in two halves, used in turn as a PE's
 * own buffers. A place has room for the head of a record and for few bytes. */
#define PYSH_OS_PLACE_BYTES (3 * PYSH_CACHE_LINE)
#define PYSH_OS_FEW_BYTES   (PYSH_OS_PLACE_BYTES - offsetof(pysh_exchange_t, bytes))

typedef struct pysh_os_hosts {
    int n, mine; /* hosts, by their first PEs, which are their heads; that of the calling PE */
    int index;   /* of the calling PE among its host's */
    int *first;  /* [n + 1] where a host's begin in `order` */
    int *order;  /* [n_pes] PEs, a host's together */
} pysh_os_hosts_t;

typedef struct pysh_openshmem {
    const pysh_openshmem_library_t *library;
    int pe, n_pes;
    bool unfit;                 /* a job did not end together: the others may be gone */
    bool direct;                /* every PE maps every other: the CPU's stores and atomics do it all */
    pysh_os_control_t *control; /* own; NULL before the library's init */
    pysh_os_control_t **peer;   /* [n_pes] NULL where not mapped */
    pysh_os_hosts_t hosts;
    pthread_mutex_t mutex; /* one call of the library at a time */
    _Atomic bool dirty;    /* puts or gets since the last quiet; changed with the mutex */
} pysh_openshmem_t;
extern pysh_openshmem_t pysh_os;

/* A call of the library; `_call` begins with the routine's name. */
#define PYSH_OS_LOCK()   pthread_mutex_lock(&pysh_os.mutex)
#define PYSH_OS_UNLOCK() pthread_mutex_unlock(&pysh_os.mutex)
