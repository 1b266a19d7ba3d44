/* SPDX-License-Identifier: BSD-3-Clause
 * See say.h. */
#define _GNU_SOURCE
#include "base/say.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/state.h"

#define MOST_KEPT (1 << 20) /* bytes, of each descriptor */
#define MOST_LINE 12288     /* of what is formatted: a report lists every PE */
#define NAP_NS    (1000 * 1000LL)

typedef struct kept {
    char *text;
    size_t nbytes, capacity;
    int64_t n_left_out; /* lines, since that was told */
} kept_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* over `kept`; nothing that waits is done under it */
static kept_t kept[2];                                    /* of descriptors 1 and 2 */
static _Atomic bool any;                                  /* is something kept? A hint: orders nothing */

/* ---- one write that does not wait ---- */

/* The descriptor's own flags are the program's, shared with who else has the file, so it is opened once more. */
static ssize_t write_anew(int fd, const char *text, size_t nbytes) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    char path[32];
    ssize_t wrote;
    int own, error;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own < 0 && errno == ENXIO) /* a pipe that nobody reads any more */
        return -1;
    if (own < 0) { /* no /proc, or another user's: what a pipe that is ready takes, unless somebody is faster */
        if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) {
            errno = ready.revents ? EPIPE : EAGAIN;
            return -1;
        }
        return write(fd, text, nbytes < PIPE_BUF ? nbytes : PIPE_BUF);
    }
    wrote = write(own, text, nbytes);
    error = errno;
    close(own);
    errno = error;
    return wrote;
}

/* Bytes that went; 0: none now; -1: none ever. */
static ssize_t offer(int fd, const char *text, size_t nbytes) {
    struct stat file;
    ssize_t wrote;

    if (fstat(fd, &file))
        return -1;
    if (S_ISSOCK(file.st_mode))
        wrote = send(fd, text, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    else if (S_ISFIFO(file.st_mode) || S_ISCHR(file.st_mode))
        wrote = write_anew(fd, text, nbytes);
    else
        wrote = write(fd, text, nbytes); /* a file on a disk: it has its position, and keeps nobody waiting */
    if (wrote >= 0)
        return wrote;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

/* ---- what is kept; the mutex is held ---- */

static int64_t lines_of(const char *text, size_t nbytes) {
    int64_t n = 0;

    for (size_t i = 0; i < nbytes; i++)
        n += text[i] == '\n';
    return n;
}

static void keep(kept_t *k, const char *text, size_t nbytes) {
    size_t wanted = k->nbytes + nbytes, capacity = wanted < 65536           ? 65536
                                                   : wanted < MOST_KEPT / 4 ? MOST_KEPT / 4
                                                                            : MOST_KEPT;
    char *grown = wanted <= k->capacity ? k->text : wanted <= MOST_KEPT ? realloc(k->text, capacity) : NULL;

    if (!grown) {
        k->n_left_out += lines_of(text, nbytes);
        return;
    }
    if (wanted > k->capacity)
        k->capacity = capacity;
    k->text = grown;
    memcpy(k->text + k->nbytes, text, nbytes);
    k->nbytes += nbytes;
}

/* In portions of whole lines, where they are short enough, for other writers may be at the same pipe. */
static size_t portion(const kept_t *k) {
    const char *last;

    if (k->nbytes <= PIPE_BUF)
        return k->nbytes;
    last = memrchr(k->text, '\n', PIPE_BUF);
    return last ? (size_t)(last - k->text) + 1 : PIPE_BUF;
}

static void tell_left_out(kept_t *k) {
    char line[160];
    int64_t n = k->n_left_out;
    int used =
        snprintf(line, sizeof line, "pyshmem: PE %d: %lld line%s here %s left out, as nobody read those before\n",
                 pysh.pe, (long long)n, n == 1 ? "" : "s", n == 1 ? "is" : "are");

    k->n_left_out = 0;
    keep(k, line, (size_t)used);
}

/* False: nobody will ever read there. */
static bool flush(int fd) {
    kept_t *k = &kept[fd - 1];
    ssize_t wrote = 1;

    for (;;) {
        while (k->nbytes && (wrote = offer(fd, k->text, portion(k))) > 0) {
            k->nbytes -= (size_t)wrote;
            memmove(k->text, k->text + wrote, k->nbytes);
        }
        if (wrote < 0)
            k->nbytes = 0;
        if (k->nbytes || wrote < 0 || !k->n_left_out)
            return wrote >= 0;
        tell_left_out(k);
    }
}

/* ---- what others call ---- */

bool pysh_say(int fd, const char *text, size_t nbytes) {
    kept_t *k = &kept[fd - 1];
    ssize_t wrote = 0;
    bool heard;

    pthread_mutex_lock(&mutex);
    heard = flush(fd);
    if (heard && !k->nbytes) {
        wrote = offer(fd, text, nbytes);
        heard = wrote >= 0;
    }
    if (heard && (size_t)wrote < nbytes)
        keep(k, text + wrote, nbytes - (size_t)wrote);
    atomic_store_explicit(&any, kept[0].nbytes || kept[1].nbytes, memory_order_relaxed);
    pthread_mutex_unlock(&mutex);
    return heard;
}

void pysh_sayf(int fd, const char *format, ...) {
    char text[MOST_LINE];
    va_list arguments;
    int used;

    va_start(arguments, format);
    used = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (used >= (int)sizeof text) {
        used = (int)sizeof text - 1;
        text[used - 1] = '\n';
    }
    if (used > 0)
        pysh_say(fd, text, (size_t)used);
}

void pysh_say_in_handler(int fd, const char *text, size_t nbytes) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};

    if (poll(&ready, 1, 0) == 1 && ready.revents & POLLOUT &&
        write(fd, text, nbytes < PIPE_BUF ? nbytes : PIPE_BUF) < 0)
        return;
}

void pysh_say_more(void) {
    if (!atomic_load_explicit(&any, memory_order_relaxed) || pthread_mutex_trylock(&mutex))
        return;
    flush(1);
    flush(2);
    atomic_store_explicit(&any, kept[0].nbytes || kept[1].nbytes, memory_order_relaxed);
    pthread_mutex_unlock(&mutex);
}

void pysh_say_rest(int64_t limit_ns) {
    const struct timespec nap = {.tv_nsec = NAP_NS};
    int64_t deadline = pysh_now_ns() + limit_ns;

    for (pysh_say_more(); atomic_load_explicit(&any, memory_order_relaxed) && pysh_now_ns() < deadline; pysh_say_more())
        nanosleep(&nap, NULL);
}
