/* SPDX-License-Identifier: BSD-3-Clause
 * See registered.h. */
#define _GNU_SOURCE
#include "memory/registered.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "accel/copy.h"
#include "base/state.h"
#include "base/status.h"
#include "memory/static_copy.h"

/* The list is changed by collective calls, and read by all threads; never held while waiting. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pysh_registered_t **list;
static int capacity;

_Atomic int pysh_n_registered;

static int n_registered(void) {
    return atomic_load_explicit(&pysh_n_registered, memory_order_relaxed); /* ordered by the mutex */
}

const pysh_registered_t *pysh_registered_find(const void *address, size_t nbytes) {
    const pysh_registered_t *found = NULL;

    pthread_mutex_lock(&mutex);
    for (int i = 0; !found && i < n_registered(); i++) {
        size_t offset = (uintptr_t)address - (uintptr_t)list[i]->base;
        if (offset < list[i]->nbytes && nbytes <= list[i]->nbytes - offset)
            found = list[i];
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

bool pysh_registered_any(const void *address, size_t nbytes) {
    uintptr_t begin = (uintptr_t)address;
    bool any = false;

    pthread_mutex_lock(&mutex);
    for (int i = 0; !any && i < n_registered(); i++) {
        uintptr_t base = (uintptr_t)list[i]->base;
        any = begin < base + list[i]->nbytes && base < begin + nbytes;
    }
    pthread_mutex_unlock(&mutex);
    return any;
}

int pysh_registered_add(pysh_registered_t *made) {
    int n, status = ISHMEMX_OK;

    pthread_mutex_lock(&mutex);
    n = n_registered();
    if (n == capacity) {
        int wanted = capacity ? 2 * capacity : 16;
        pysh_registered_t **grown = realloc(list, (size_t)wanted * sizeof *grown);
        if (grown) {
            list = grown;
            capacity = wanted;
        } else {
            status = pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to note %d arrays", wanted);
        }
    }
    if (!status) {
        list[n] = made;
        atomic_store_explicit(&pysh_n_registered, n + 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

void pysh_registered_close(pysh_registered_t *made) {
    if (!made)
        return;
    for (int pe = 0; made->peer && pe < pysh.n_pes; pe++)
        if (made->peer[pe].lent.opened)
            pysh.accel->close(&made->peer[pe].lent);
    free(made->peer);
    free(made);
}

void pysh_registered_drop(const pysh_registered_t *found) {
    pysh_registered_t *out = NULL;

    pthread_mutex_lock(&mutex);
    for (int i = 0, n = n_registered(); !out && i < n; i++)
        if (list[i] == found) {
            out = list[i];
            list[i] = list[n - 1];
            atomic_store_explicit(&pysh_n_registered, n - 1, memory_order_relaxed);
        }
    pthread_mutex_unlock(&mutex);
    pysh_registered_close(out);
}

void pysh_registered_close_all(void) {
    while (n_registered())
        pysh_registered_drop(list[0]);
    free(list);
    list = NULL;
    capacity = 0;
}

/* ---- transfers ---- */

static int peer_of(const pysh_registered_t *one, int pe, const pysh_registered_peer_t **peer_p) {
    *peer_p = &one->peer[pe];
    if ((*peer_p)->member)
        return ISHMEMX_OK;
    return pysh_fail(ISHMEMX_ERR_ARGUMENT, "PE %d is not of the team that has registered the memory at %p", pe,
                     (void *)one->base);
}

int pysh_registered_reach(const pysh_registered_t *one, const void *address, int pe, const char *what, char **peer_p) {
    const pysh_registered_peer_t *peer;
    int status = peer_of(one, pe, &peer);

    if (status)
        return status;
    if (!one->on_gpu)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT,
                         "%s is registered memory of the host, which the system copies between processes and no stream "
                         "does; operations on a stream take the device heap, and put and get registered memory of GPUs",
                         what);
    *peer_p = peer->here + ((const char *)address - one->base);
    return ISHMEMX_OK;
}

/* The GPU's copy engine, where a GPU's memory is on either side. */
static int gpu_copy(void *dest, const void *source, size_t nbytes, bool nbi) {
    return nbi ? pysh.accel->copy_nbi(dest, source, nbytes) : pysh.accel->copy(dest, source, nbytes);
}

static int unreached(int pe) {
    return pysh_fail(errno == ESRCH ? ISHMEMX_ERR_PEER : ISHMEMX_ERR_SYSTEM,
                     "registered memory of PE %d cannot be reached: %s", pe, strerror(errno));
}

/* Between processes the kernel copies, from and to host memory alone: a GPU's goes through a piece of it. */
#define PIECE_BYTES ((size_t)256 << 10)

static int put_between(const pysh_registered_peer_t *peer, uintptr_t there, const void *source, size_t nbytes, int pe) {
    char *piece;
    int status = ISHMEMX_OK;

    if (!pysh_on_gpu(source))
        return pysh_copy_to_process(peer->pid, source, there, nbytes) ? ISHMEMX_OK : unreached(pe);
    if (!(piece = malloc(PIECE_BYTES)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a piece of a put");
    for (size_t done = 0, n; !status && done < nbytes; done += n) {
        n = nbytes - done < PIECE_BYTES ? nbytes - done : PIECE_BYTES;
        status = pysh.accel->copy(piece, (const char *)source + done, n);
        if (!status && !pysh_copy_to_process(peer->pid, piece, there + done, n))
            status = unreached(pe);
    }
    free(piece);
    return status;
}

static int get_between(const pysh_registered_peer_t *peer, void *dest, uintptr_t there, size_t nbytes, int pe) {
    char *piece;
    int status = ISHMEMX_OK;

    if (!pysh_on_gpu(dest))
        return pysh_copy_from_process(peer->pid, dest, there, nbytes) ? ISHMEMX_OK : unreached(pe);
    if (!(piece = malloc(PIECE_BYTES)))
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory for a piece of a get");
    for (size_t done = 0, n; !status && done < nbytes; done += n) {
        n = nbytes - done < PIECE_BYTES ? nbytes - done : PIECE_BYTES;
        if (!pysh_copy_from_process(peer->pid, piece, there + done, n))
            status = unreached(pe);
        else
            status = pysh.accel->copy((char *)dest + done, piece, n);
    }
    free(piece);
    return status;
}

int pysh_registered_put(const pysh_registered_t *to, void *dest, const void *source, size_t nbytes, int pe, bool nbi) {
    size_t offset = (size_t)((char *)dest - to->base);
    const pysh_registered_peer_t *peer;
    int status = peer_of(to, pe, &peer);

    if (status)
        return status;
    if (!peer->here)
        return put_between(peer, peer->there + offset, source, nbytes, pe);
    if (to->on_gpu || pysh_on_gpu(source))
        return gpu_copy(peer->here + offset, source, nbytes, nbi);
    memmove(peer->here + offset, source, nbytes);
    return ISHMEMX_OK;
}

int pysh_registered_get(const pysh_registered_t *from, void *dest, const void *source, size_t nbytes, int pe,
                        bool nbi) {
    size_t offset = (size_t)((const char *)source - from->base);
    const pysh_registered_peer_t *peer;
    int status = peer_of(from, pe, &peer);

    if (status)
        return status;
    if (!peer->here)
        return get_between(peer, dest, peer->there + offset, nbytes, pe);
    if (from->on_gpu || pysh_on_gpu(dest))
        return gpu_copy(dest, peer->here + offset, nbytes, nbi);
    memmove(dest, peer->here + offset, nbytes);
    return ISHMEMX_OK;
}
