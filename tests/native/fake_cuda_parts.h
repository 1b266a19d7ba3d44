/* SPDX-License-Identifier: BSD-3-Clause
 * What the files of the fake driver share; fake_cuda.c says what it is. */
#pragma once

#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    NO_DEVICE = 100,
    ECC_UNCORRECTABLE = 214,
    INVALID_HANDLE = 400,
    NOT_READY = 600
};
enum { CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };
enum { MODE_GLOBAL = 0, MAX_WORDS = 32 };
enum { STATE_ABI = 8, STATE_WORDS = 256 }; /* of the contract */
enum { POLL_NS = 100000 };                 /* for words that others store */

typedef struct work { /* of a stream: a copy, a stored word, a memset, a kernel */
    struct work *next;
    enum {
        COPY,
        PLANE,
        STORE,
        SET,
        WAIT,
        BEHIND,
        KERNEL,
        SERVER,
        LIBRARY_KERNEL
    } kind; /* KERNEL, SERVER: for atomic operations */
    CUdeviceptr dest, source, result;
    uint64_t value, cond;
    size_t nbytes, height, dest_pitch, source_pitch;
    int number, narrow;
    struct stream *first; /* BEHIND: until that one has finished `value` pieces of work */
    struct library *library;
    int64_t words[MAX_WORDS];
} work_t;

/* A library of the test: its image is the number of its kernel's words, as text. */
typedef struct library {
    int n_words;
    bool loaded;
    int64_t state[STATE_WORDS];
} library_t;

typedef struct stream {
    struct stream *next;
    work_t *first, **last;
    uint64_t asked, finished;
    bool running, capturing, spoilt; /* the capture failed: all is refused until it is ended */
    work_t *captured, **captured_last;
    struct stream *captured_by; /* its work is part of that one's capture */
    void *context;
} stream_t;

/* Of the process: one lock, and one condition for whatever changes. */
typedef struct fake {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool capturing, freeing, full; /* what tests turn on */
    CUresult lost;                 /* what every call returns from now on; 0: the GPU is there */
    int slow_us;
    int refused, launched, launched_blocks, launched_cooperative, atomics, word_kernels, graphs;
    int64_t launched_words[MAX_WORDS];
    library_t *last_library;
} fake_t;
extern fake_t fake;
extern __thread int fake_mode;      /* of captures, of the calling thread */
extern __thread void *fake_context; /* current */
int fake_device(void);              /* whose it is */
/* mapped.c: the GPU that has what is mapped at the address; -1: nothing is. */
int fake_mapped_owner(CUdeviceptr address);

/* The functions of the module for words, and one of another library; any other is that for atomic operations. */
#define FAKE_SET     ((void *)1)
#define FAKE_WAIT    ((void *)2)
#define FAKE_SERVER  ((void *)3)
#define FAKE_FOREIGN ((void *)4)

/* Does a capture forbid the call? */
bool fake_forbidden(void);
#define UNSAFE()                        \
    do {                                \
        if (fake.lost)                  \
            return fake.lost;           \
        if (fake_forbidden())           \
            return CAPTURE_UNSUPPORTED; \
    } while (0)

/* streams.c: puts work behind a stream's. */
CUresult fake_enqueue(stream_t *stream, work_t work);
/* kernels.c: what the kinds of kernels do. */
void fake_run_kernel(const work_t *work);
void fake_run_server(const work_t *work);
void fake_run_library_kernel(const work_t *work);
