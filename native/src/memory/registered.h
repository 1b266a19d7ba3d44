/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that was not made on a heap, and that the members of a team have registered: where the others' is, and how it
 * is reached. Put and get of the host reach it, those on streams where it is a GPU's, and so does ptr where it is
 * mapped; nothing else does. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "accel/accel.h"
#include "base/state.h"

typedef struct pysh_registered_peer { /* of one PE; all 0: it is not of the team */
    bool member;
    pid_t pid;
    uintptr_t there;  /* in its own addresses */
    char *here;       /* as this process reaches it; NULL: the kernel copies between the processes */
    pysh_lent_t lent; /* of a GPU; `lent.opened` is to be given back */
} pysh_registered_peer_t;

typedef struct pysh_registered {
    char *base;
    size_t nbytes;
    bool on_gpu;
    pysh_registered_peer_t *peer; /* [n_pes] */
} pysh_registered_t;

/* How many there are: nearly always none, which costs a put this load. */
extern _Atomic int pysh_n_registered;

/* May it be registered? What is on a heap is not. */
static inline bool pysh_may_be_registered(const void *address) {
    if (!atomic_load_explicit(&pysh_n_registered, memory_order_relaxed)) /* registering ends with a meeting */
        return false;
    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        if ((uintptr_t)address - (uintptr_t)pysh.arena[heap].base < (uintptr_t)pysh.arena[heap].nbytes)
            return false;
    return true;
}

/* The one that holds all of [address, +nbytes); NULL: none. It stays until it is unregistered, which is collective. */
const pysh_registered_t *pysh_registered_find(const void *address, size_t nbytes);
/* Is a byte of [address, +nbytes) registered? */
bool pysh_registered_any(const void *address, size_t nbytes);
/* Takes it over; MEMORY. */
int pysh_registered_add(pysh_registered_t *made);
/* Takes it out, and closes what was opened. Nobody is in a transfer by it. */
void pysh_registered_drop(const pysh_registered_t *found);
/* Closes and frees one that is in no list. */
void pysh_registered_close(pysh_registered_t *made);
/* Of all that are left, when the job ends. */
void pysh_registered_close_all(void);

/* Where kernels and copies of this PE's GPU reach the part of PE `pe`: ARGUMENT of memory that no GPU has. */
int pysh_registered_reach(const pysh_registered_t *one, const void *address, int pe, const char *what, char **peer_p);
int pysh_registered_put(const pysh_registered_t *to, void *dest, const void *source, size_t nbytes, int pe, bool nbi);
int pysh_registered_get(const pysh_registered_t *from, void *dest, const void *source, size_t nbytes, int pe, bool nbi);
