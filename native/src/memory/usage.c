/* SPDX-License-Identifier: BSD-3-Clause
 * See usage.h. One process writes, under pysh_heaps.mutex; others take a copy. */
#include "memory/usage.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory_file.h"
#include "base/state.h"
#include "base/status.h"
#include "base/versioned.h"
#include "memory/heap.h"

#define MAGIC 0x3130444252414f42ULL /* with a layout: the first byte changes with it */

enum { WORDS = sizeof(ishmemx_heaps_seen_t) / 8, NUMBERS = offsetof(ishmemx_heaps_seen_t, sites) / 8 };
_Static_assert(sizeof(ishmemx_heaps_seen_t) % 8 == 0, "it is copied as words");

typedef struct usage {
    uint64_t magic;
    _Atomic uint64_t version;
    _Atomic uint64_t word[WORDS];
} usage_t;

/* Guarded by pysh_heaps.mutex. */
static usage_t *board;
static int usage_fd = -1;
static ishmemx_heaps_seen_t shown;

/* The first words of what is shown; texts are the last of it. */
static void usage_publish(int words) {
    uint64_t begun;

    for (int heap = 0; heap < ISHMEMX_HEAP_COUNT; heap++)
        pysh_heap_stats_held(heap, &shown.heap[heap]);
    begun = pysh_change_begin(&board->version);
    pysh_words_store(board->word, &shown, words);
    pysh_change_end(&board->version, begun);
}

void pysh_usage_open(const char *job) {
    int fd = pysh_memory_file("pyshmem-board");
    usage_t *made = MAP_FAILED;

    if (fd >= 0 && !pysh_memory_file_size(fd, sizeof *made))
        made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (made == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return;
    }
    pthread_mutex_lock(&pysh_heaps.mutex);
    memset(&shown, 0, sizeof shown);
    shown.pe = pysh.pe;
    shown.n_pes = pysh.n_pes;
    shown.pid = (int32_t)getpid();
    snprintf(shown.job, sizeof shown.job, "%s", job ? job : "");
    board = made;
    usage_fd = fd;
    board->magic = MAGIC;
    usage_publish(NUMBERS);
    pthread_mutex_unlock(&pysh_heaps.mutex);
}

void pysh_usage_close(void) {
    pthread_mutex_lock(&pysh_heaps.mutex);
    if (board) {
        munmap(board, sizeof *board);
        close(usage_fd);
    }
    board = NULL;
    usage_fd = -1;
    pthread_mutex_unlock(&pysh_heaps.mutex);
}

void pysh_usage_update(void) {
    pthread_mutex_lock(&pysh_heaps.mutex);
    if (board)
        usage_publish(NUMBERS);
    pthread_mutex_unlock(&pysh_heaps.mutex);
}

int ishmemx_heaps_show(const char *sites) {
    pthread_mutex_lock(&pysh_heaps.mutex);
    memset(shown.sites, 0, sizeof shown.sites);
    snprintf(shown.sites, sizeof shown.sites, "%s", sites);
    if (board)
        usage_publish(WORDS);
    pthread_mutex_unlock(&pysh_heaps.mutex);
    return ISHMEMX_OK;
}

static int copy_out(const usage_t *from, ishmemx_heaps_seen_t *seen) {
    for (int attempt = 0; attempt < PYSH_COPY_ATTEMPTS; attempt++) {
        uint64_t begun = pysh_copy_begin(&from->version);
        pysh_words_load(from->word, seen, WORDS);
        if (pysh_copy_is_whole(&from->version, begun) && begun)
            return ISHMEMX_OK;
    }
    return pysh_fail(ISHMEMX_ERR_TIMEOUT,
                     "what a PE shows of its heaps changes all the while, or was left half written");
}

int ishmemx_heaps_seen(int fd, ishmemx_heaps_seen_t *seen) {
    struct stat found;
    usage_t *theirs;
    int status;

    if (fstat(fd, &found))
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "descriptor %d: %s", fd, strerror(errno));
    if (found.st_size != (off_t)sizeof *theirs)
        return pysh_fail(ISHMEMX_ERR_MISMATCH, "descriptor %d shows no heaps of this version of pyshmem", fd);
    theirs = mmap(NULL, sizeof *theirs, PROT_READ, MAP_SHARED, fd, 0);
    if (theirs == MAP_FAILED)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "descriptor %d: mmap: %s", fd, strerror(errno));
    status = theirs->magic == MAGIC
                 ? copy_out(theirs, seen)
                 : pysh_fail(ISHMEMX_ERR_MISMATCH, "descriptor %d shows no heaps of this version of pyshmem", fd);
    munmap(theirs, sizeof *theirs);
    return status;
}
