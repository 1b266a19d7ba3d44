/* SPDX-License-Identifier: BSD-3-Clause
 * A libcuda.so.1 for tests without a GPU: its device memory is memory of the host, its streams are lists that one
 * thread works off. It knows the rules that the library has to live with: stream captures in global mode forbid other
 * threads' calls, a free that waits for a kernel stops other threads' copies and launches, a GPU full of kernels runs
 * no other. A test turns these on by the fake_cuda_ functions; each process has its own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

enum { SUCCESS = 0, INVALID_VALUE = 1, NO_DEVICE = 100, INVALID_HANDLE = 400, NOT_READY = 600 };
enum { CAPTURE_UNSUPPORTED = 900 };
enum { MODE_GLOBAL = 0, MAX_BLOCKS = 256, HANDLE_BYTES = 64, MAX_WORDS = 32, STATE_WORDS = 256 };
enum { POLL_NS = 100000 }; /* for words that others store */

typedef struct work { /* of a stream: a copy, a stored word, a memset, a kernel */
    struct work *next;
    enum { COPY, PLANE, STORE, SET, WAIT, KERNEL, LIBRARY_KERNEL } kind; /* KERNEL: that for atomic operations */
    CUdeviceptr dest, source, result;
    uint64_t value, cond;
    size_t nbytes, height, dest_pitch, source_pitch;
    int number, narrow;
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
    bool running, capturing;
    work_t *captured, **captured_last;
    void *context;
} stream_t;

typedef struct event {
    stream_t *stream;
    uint64_t asked;
} event_t;

typedef struct ipc_handle {
    int pid, fd;
    size_t nbytes;
} ipc_handle_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static stream_t *streams, null_stream = {.last = &null_stream.first};
static struct {
    char *base;
    size_t nbytes;
    int fd;
} blocks[MAX_BLOCKS];
static bool capturing, freeing, full, started;
static int refused, slow_us, launched, launched_blocks, launched_cooperative;
static int64_t launched_words[MAX_WORDS];
static size_t stack_limit = 1024;
static __thread int mode = MODE_GLOBAL;
static __thread void *current_context;

/* ---- what tests turn on and ask ---- */

static void turn(bool *what, int on) {
    pthread_mutex_lock(&mutex);
    *what = on;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

void fake_cuda_capture(int on) { /* a capture in global mode, on a thread that does nothing else */
    turn(&capturing, on);
}
void fake_cuda_free(int on) { /* a free that waits for a kernel */
    turn(&freeing, on);
}
void fake_cuda_fill(int on) { /* a kernel that leaves no room for another */
    turn(&full, on);
}
void fake_cuda_slow(int us) { /* how long a copy takes */
    slow_us = us;
}
int fake_cuda_refused(void) { /* calls that a capture has forbidden */
    return __atomic_load_n(&refused, __ATOMIC_SEQ_CST);
}
int fake_cuda_mode(void) {
    return mode;
}
static library_t *last_library;
int fake_cuda_has_job(void) { /* the state block of the library loaded last */
    return last_library->state[0] != 0;
}
int fake_cuda_launched(void) { /* kernels of libraries that have run */
    return __atomic_load_n(&launched, __ATOMIC_SEQ_CST);
}
int fake_cuda_word(int at) { /* of the last one */
    return (int)launched_words[at];
}
int fake_cuda_shape(int cooperative) {
    return cooperative ? launched_cooperative : launched_blocks;
}
int fake_cuda_stack(void) {
    return (int)stack_limit;
}

/* ---- streams ---- */

static void run_kernel(const work_t *work) { /* case numbers of the kernel: see cuda_amo.c */
    uint64_t old = 0, *wide = (uint64_t *)(uintptr_t)work->dest, *result = &old;
    uint32_t *narrow = (uint32_t *)(uintptr_t)work->dest, cond = (uint32_t)work->cond;
    uint64_t cond_wide = work->cond;

    switch (work->number) {
    case 1:
    case 2:
        *result = __atomic_exchange_n(narrow, (uint32_t)work->value, __ATOMIC_SEQ_CST);
        break;
    case 3:
        __atomic_compare_exchange_n(narrow, &cond, (uint32_t)work->value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        *result = cond;
        break;
    case 4:
        *result = __atomic_fetch_add(narrow, (uint32_t)work->value, __ATOMIC_SEQ_CST);
        break;
    case 8:
        *result = __atomic_load_n(wide, __ATOMIC_SEQ_CST);
        break;
    case 9:
    case 10:
        *result = __atomic_exchange_n(wide, work->value, __ATOMIC_SEQ_CST);
        break;
    case 11:
        __atomic_compare_exchange_n(wide, &cond_wide, work->value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        *result = cond_wide;
        break;
    case 12:
        *result = __atomic_fetch_add(wide, work->value, __ATOMIC_SEQ_CST);
        break;
    case 16: {
        float sum, more;
        *result = *narrow;
        memcpy(&sum, narrow, sizeof sum);
        memcpy(&more, &work->value, sizeof more);
        sum += more;
        memcpy(narrow, &sum, sizeof sum);
        break;
    }
    default:
        fprintf(stderr, "fake_cuda: kernel case %d is not there\n", work->number);
        abort();
    }
    if (work->narrow)
        *(uint32_t *)(uintptr_t)work->result = (uint32_t)old;
    else
        *(uint64_t *)(uintptr_t)work->result = old;
}

/* What a kernel of a test does: adds the words up, and keeps them. */
static void run_library_kernel(const work_t *work) {
    memcpy(launched_words, work->words, sizeof launched_words);
    launched_blocks = work->number;
    launched_cooperative = work->narrow;
    __atomic_add_fetch(&launched, 1, __ATOMIC_SEQ_CST);
}

static bool holds(const work_t *work) {
    if (work->nbytes == 4) {
        uint32_t seen = __atomic_load_n((uint32_t *)(uintptr_t)work->source, __ATOMIC_ACQUIRE);
        return work->number ? seen == (uint32_t)work->value : (int32_t)(seen - (uint32_t)work->value) >= 0;
    } else {
        uint64_t seen = __atomic_load_n((uint64_t *)(uintptr_t)work->source, __ATOMIC_ACQUIRE);
        return work->number ? seen == work->value : (int64_t)(seen - work->value) >= 0;
    }
}

static void run(const work_t *work) {
    if (work->kind == COPY) {
        if (slow_us)
            usleep((useconds_t)slow_us);
        memmove((void *)(uintptr_t)work->dest, (void *)(uintptr_t)work->source, work->nbytes);
    } else if (work->kind == PLANE) {
        for (size_t i = 0; i < work->height; i++)
            memmove((char *)(uintptr_t)work->dest + i * work->dest_pitch,
                    (char *)(uintptr_t)work->source + i * work->source_pitch, work->nbytes);
    } else if (work->kind == SET) {
        memset((void *)(uintptr_t)work->dest, (int)work->value, work->nbytes);
    } else if (work->kind == STORE && work->nbytes == 2) {
        __atomic_store_n((uint16_t *)(uintptr_t)work->dest, (uint16_t)work->value, __ATOMIC_RELEASE);
    } else if (work->kind == STORE && work->nbytes == 4) {
        __atomic_store_n((uint32_t *)(uintptr_t)work->dest, (uint32_t)work->value, __ATOMIC_RELEASE);
    } else if (work->kind == STORE) {
        __atomic_store_n((uint64_t *)(uintptr_t)work->dest, work->value, __ATOMIC_RELEASE);
    } else if (work->kind == LIBRARY_KERNEL) {
        run_library_kernel(work);
    } else if (work->kind == KERNEL) {
        run_kernel(work);
    }
}

static stream_t *runnable(void) {
    for (stream_t *stream = streams; stream; stream = stream->next)
        if (stream->first && !stream->running && !(full && stream->first->kind == KERNEL) &&
            !(stream->first->kind == WAIT && !holds(stream->first)))
            return stream;
    return NULL;
}

static void *work_off(void *argument) {
    pthread_mutex_lock(&mutex);
    for (;;) {
        stream_t *stream = runnable();
        work_t *work;
        if (!stream) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += POLL_NS;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_timedwait(&changed, &mutex, &until);
            continue;
        }
        work = stream->first;
        stream->running = true;
        pthread_mutex_unlock(&mutex);
        run(work);
        pthread_mutex_lock(&mutex);
        stream->running = false;
        if (!(stream->first = work->next))
            stream->last = &stream->first;
        stream->finished++;
        free(work);
        pthread_cond_broadcast(&changed);
    }
    return argument;
}

static bool forbidden(void) {
    bool yes;

    pthread_mutex_lock(&mutex);
    yes = capturing && mode == MODE_GLOBAL;
    if (yes)
        __atomic_add_fetch(&refused, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&mutex);
    return yes;
}

#define UNSAFE()                        \
    do {                                \
        if (forbidden())                \
            return CAPTURE_UNSUPPORTED; \
    } while (0)

static CUresult enqueue(stream_t *stream, work_t work) {
    work_t *copy;
    pthread_t thread;

    UNSAFE();
    if (!(copy = malloc(sizeof *copy)))
        return INVALID_VALUE;
    *copy = work;
    copy->next = NULL;
    pthread_mutex_lock(&mutex);
    while (freeing && work.kind != STORE) /* a stored word gets through: measured on an H200 */
        pthread_cond_wait(&changed, &mutex);
    if (!started && !pthread_create(&thread, NULL, work_off, NULL)) {
        pthread_detach(thread);
        started = true;
    }
    stream = stream ? stream : &null_stream;
    if (stream->capturing) {
        *stream->captured_last = copy;
        stream->captured_last = &copy->next;
    } else {
        *stream->last = copy;
        stream->last = &copy->next;
        stream->asked++;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return SUCCESS;
}

CUresult cuStreamCreate(stream_t **stream, unsigned flags) {
    UNSAFE();
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    (*stream)->last = &(*stream)->first;
    (*stream)->context = current_context;
    pthread_mutex_lock(&mutex);
    (*stream)->next = streams;
    streams = *stream;
    pthread_mutex_unlock(&mutex);
    return SUCCESS;
}
CUresult cuStreamDestroy_v2(stream_t *stream) {
    UNSAFE();
    pthread_mutex_lock(&mutex);
    while (stream->first)
        pthread_cond_wait(&changed, &mutex);
    for (stream_t **at = &streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    pthread_mutex_unlock(&mutex);
    free(stream);
    return SUCCESS;
}
CUresult cuStreamSynchronize(stream_t *stream) {
    UNSAFE();
    stream = stream ? stream : &null_stream;
    pthread_mutex_lock(&mutex);
    for (uint64_t until = stream->asked; stream->finished < until;)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return SUCCESS;
}
CUresult cuStreamQuery(stream_t *stream) {
    bool done;

    UNSAFE();
    stream = stream ? stream : &null_stream;
    pthread_mutex_lock(&mutex);
    done = stream->finished == stream->asked;
    pthread_mutex_unlock(&mutex);
    return done ? SUCCESS : NOT_READY;
}
CUresult cuStreamIsCapturing(stream_t *stream, int *status) {
    *status = stream && stream->capturing;
    return SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(int *other) {
    int old = mode;

    mode = *other;
    *other = old;
    return SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr dest, CUdeviceptr source, size_t nbytes, stream_t *stream) {
    return enqueue(stream, (work_t){.kind = COPY, .dest = dest, .source = source, .nbytes = nbytes});
}
CUresult cuMemsetD8Async(CUdeviceptr dest, unsigned char value, size_t nbytes, stream_t *stream) {
    return enqueue(stream, (work_t){.kind = SET, .dest = dest, .value = value, .nbytes = nbytes});
}
CUresult cuStreamWriteValue64_v2(stream_t *stream, CUdeviceptr dest, uint64_t value, unsigned flags) {
    (void)flags;
    return enqueue(stream, (work_t){.kind = STORE, .dest = dest, .value = value, .nbytes = 8});
}
CUresult cuStreamWriteValue32_v2(stream_t *stream, CUdeviceptr dest, uint32_t value, unsigned flags) {
    (void)flags;
    return enqueue(stream, (work_t){.kind = STORE, .dest = dest, .value = value, .nbytes = 4});
}
CUresult cuMemsetD16Async(CUdeviceptr dest, unsigned short value, size_t count, stream_t *stream) {
    return count == 1 ? enqueue(stream, (work_t){.kind = STORE, .dest = dest, .value = value, .nbytes = 2})
                      : INVALID_VALUE;
}
CUresult cuStreamWaitValue64_v2(stream_t *stream, CUdeviceptr source, uint64_t value, unsigned flags) {
    return enqueue(stream, (work_t){.kind = WAIT, .source = source, .value = value, .nbytes = 8, .number = (int)flags});
}
CUresult cuStreamWaitValue32_v2(stream_t *stream, CUdeviceptr source, uint32_t value, unsigned flags) {
    return enqueue(stream, (work_t){.kind = WAIT, .source = source, .value = value, .nbytes = 4, .number = (int)flags});
}
typedef struct {
    size_t source_x, source_y;
    int source_type;
    const void *source_host;
    CUdeviceptr source;
    void *source_array;
    size_t source_pitch;
    size_t dest_x, dest_y;
    int dest_type;
    void *dest_host;
    CUdeviceptr dest;
    void *dest_array;
    size_t dest_pitch, width, height;
} plane_t;
CUresult cuMemcpy2DAsync_v2(const plane_t *plane, stream_t *stream) {
    if (plane->source_type != 2 || plane->dest_type != 2 || plane->dest_pitch < plane->width ||
        plane->source_pitch < plane->width)
        return INVALID_VALUE;
    return enqueue(stream, (work_t){.kind = PLANE,
                                    .dest = plane->dest,
                                    .source = plane->source,
                                    .nbytes = plane->width,
                                    .height = plane->height,
                                    .dest_pitch = plane->dest_pitch,
                                    .source_pitch = plane->source_pitch});
}
CUresult cuStreamGetCtx(stream_t *stream, void **context) {
    CUresult result = INVALID_HANDLE;

    pthread_mutex_lock(&mutex);
    for (const stream_t *known = streams; known; known = known->next)
        if (known == stream) {
            *context = stream->context;
            result = SUCCESS;
        }
    pthread_mutex_unlock(&mutex);
    return result;
}

/* ---- graphs: the captured work, which is both the graph and what can be launched ---- */

CUresult cuStreamBeginCapture_v2(stream_t *stream, int how) {
    (void)how;
    if (!stream || stream->capturing)
        return INVALID_VALUE;
    stream->captured = NULL;
    stream->captured_last = &stream->captured;
    stream->capturing = true;
    return SUCCESS;
}
CUresult cuStreamEndCapture(stream_t *stream, work_t **graph) {
    if (!stream->capturing)
        return INVALID_VALUE;
    stream->capturing = false;
    *graph = stream->captured;
    return SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(work_t **executable, work_t *graph, unsigned long long flags) {
    (void)flags;
    *executable = graph;
    return SUCCESS;
}
CUresult cuGraphLaunch(work_t *executable, stream_t *stream) {
    for (const work_t *work = executable; work; work = work->next)
        if (enqueue(stream, *work))
            return INVALID_VALUE;
    return SUCCESS;
}
CUresult cuGraphDestroy(work_t *graph) {
    (void)graph;
    return SUCCESS;
}
CUresult cuGraphExecDestroy(work_t *executable) {
    while (executable) {
        work_t *work = executable;
        executable = work->next;
        free(work);
    }
    return SUCCESS;
}

/* ---- libraries ---- */

CUresult cuLibraryLoadData(library_t **library, const void *image, void *a, void *b, unsigned c, void *d, void *e,
                           unsigned f) {
    UNSAFE();
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    *library = calloc(1, sizeof **library);
    (*library)->n_words = atoi(image);
    return SUCCESS;
}
CUresult cuLibraryGetKernel(library_t **kernel, library_t *library, const char *name) {
    if (strcmp(name, "entry"))
        return INVALID_VALUE;
    *kernel = library;
    return SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *nbytes, library_t *library, const char *name) {
    if (strncmp(name, "pyshmem_state_", 14))
        return INVALID_VALUE;
    *address = (CUdeviceptr)(uintptr_t)library->state;
    *nbytes = sizeof library->state;
    return SUCCESS;
}
CUresult cuKernelGetFunction(library_t **function, library_t *kernel) {
    *function = kernel;
    return SUCCESS;
}
CUresult cuFuncLoad(library_t *function) {
    UNSAFE();
    function->loaded = true;
    last_library = function;
    return SUCCESS;
}
typedef struct {
    int id, pad, value[16];
} attribute_t;
typedef struct {
    unsigned grid[3], block[3], shared;
    stream_t *stream;
    attribute_t *attributes;
    unsigned n_attributes;
} launch_t;
/* A kernel that is not loaded, or finds no job in its state block, is a mistake of the library. */
CUresult cuLaunchKernelEx(const launch_t *launch, library_t *function, void **argument, void **extra) {
    work_t work = {.kind = LIBRARY_KERNEL,
                   .library = function,
                   .number = (int)launch->grid[0],
                   .narrow = launch->n_attributes == 1 && launch->attributes[0].id == 2};

    (void)extra;
    if (!function->loaded || !function->state[0] || launch->block[0] < 1 || launch->block[0] > 1024)
        return INVALID_VALUE;
    for (int i = 0; i < function->n_words; i++)
        work.words[i] = *(int64_t *)argument[i];
    return enqueue(launch->stream, work);
}
CUresult cuCtxGetLimit(size_t *value, int limit) {
    *value = stack_limit;
    return limit ? INVALID_VALUE : SUCCESS;
}
CUresult cuCtxSetLimit(int limit, size_t value) {
    stack_limit = value;
    return limit ? INVALID_VALUE : SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 75 ? 9 : attribute == 16 ? 132 : 0;
    return SUCCESS;
}

CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, stream_t *stream, void **argument, void **extra) {
    (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    return enqueue(stream, (work_t){.kind = KERNEL,
                                    .dest = *(CUdeviceptr *)argument[0],
                                    .value = *(uint64_t *)argument[1],
                                    .cond = *(uint64_t *)argument[2],
                                    .result = *(CUdeviceptr *)argument[3],
                                    .number = *(int *)argument[4],
                                    .narrow = *(int *)argument[5]});
}
CUresult cuEventCreate(event_t **event, unsigned flags) {
    UNSAFE();
    (void)flags;
    *event = calloc(1, sizeof **event);
    return SUCCESS;
}
CUresult cuEventDestroy_v2(event_t *event) {
    UNSAFE();
    free(event);
    return SUCCESS;
}
CUresult cuEventRecord(event_t *event, stream_t *stream) {
    UNSAFE();
    pthread_mutex_lock(&mutex);
    *event = (event_t){.stream = stream, .asked = stream->asked};
    pthread_mutex_unlock(&mutex);
    return SUCCESS;
}
CUresult cuEventQuery(event_t *event) {
    bool done;

    UNSAFE();
    pthread_mutex_lock(&mutex);
    done = !event->stream || event->stream->finished >= event->asked;
    pthread_mutex_unlock(&mutex);
    return done ? SUCCESS : NOT_READY;
}

/* ---- memory ---- */

static CUresult block_add(int fd, size_t nbytes, CUdeviceptr *address) {
    char *base = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED)
        return INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (!blocks[i].base) {
            blocks[i].base = base;
            blocks[i].nbytes = nbytes;
            blocks[i].fd = fd;
            break;
        }
    pthread_mutex_unlock(&mutex);
    *address = (CUdeviceptr)(uintptr_t)base;
    return SUCCESS;
}
static CUresult block_drop(CUdeviceptr address) {
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (blocks[i].base == (char *)(uintptr_t)address) {
            munmap(blocks[i].base, blocks[i].nbytes);
            close(blocks[i].fd);
            blocks[i].base = NULL;
            return SUCCESS;
        }
    return INVALID_VALUE;
}
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t nbytes) {
    int fd = memfd_create("fake_cuda", MFD_CLOEXEC);

    UNSAFE();
    if (fd < 0 || ftruncate(fd, (off_t)nbytes))
        return INVALID_VALUE;
    return block_add(fd, nbytes, address);
}
CUresult cuMemFree_v2(CUdeviceptr address) {
    UNSAFE();
    return block_drop(address);
}
CUresult cuMemGetInfo_v2(size_t *vacant, size_t *all) {
    UNSAFE();
    *vacant = *all = (size_t)1 << 30;
    return SUCCESS;
}
CUresult cuIpcGetMemHandle(void *handle, CUdeviceptr address) {
    UNSAFE();
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (blocks[i].base == (char *)(uintptr_t)address) {
            ipc_handle_t mine = {.pid = getpid(), .fd = blocks[i].fd, .nbytes = blocks[i].nbytes};
            memset(handle, 0, HANDLE_BYTES);
            memcpy(handle, &mine, sizeof mine);
            return SUCCESS;
        }
    return INVALID_VALUE;
}
typedef struct {
    char bytes[HANDLE_BYTES];
} handle_bytes_t;
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, handle_bytes_t handle, unsigned flags) {
    ipc_handle_t theirs;
    char path[64];
    int fd;

    UNSAFE();
    (void)flags;
    memcpy(&theirs, &handle, sizeof theirs);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", theirs.pid, theirs.fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? INVALID_VALUE : block_add(fd, theirs.nbytes, address);
}
CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    UNSAFE();
    return block_drop(address);
}
CUresult cuMemHostAlloc(void **address, size_t nbytes, unsigned flags) {
    UNSAFE();
    (void)flags;
    *address = aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
    return *address ? SUCCESS : INVALID_VALUE;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
    UNSAFE();
    (void)flags;
    *device = (CUdeviceptr)(uintptr_t)host;
    return SUCCESS;
}
CUresult cuMemFreeHost(void *address) {
    UNSAFE();
    free(address);
    return SUCCESS;
}
CUresult cuMemHostRegister_v2(void *address, size_t nbytes, unsigned flags) {
    UNSAFE();
    (void)address, (void)nbytes, (void)flags;
    return SUCCESS;
}
CUresult cuMemHostUnregister(void *address) {
    UNSAFE();
    (void)address;
    return SUCCESS;
}
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address) {
    UNSAFE();
    (void)attribute;
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (blocks[i].base && address - (CUdeviceptr)(uintptr_t)blocks[i].base < blocks[i].nbytes) {
            *(unsigned *)value = 2; /* CU_MEMORYTYPE_DEVICE */
            return SUCCESS;
        }
    return INVALID_VALUE;
}

/* ---- the rest: one GPU a PE, and nothing to load ---- */

CUresult cuInit(unsigned flags) {
    (void)flags;
    return SUCCESS;
}
CUresult cuGetErrorName(CUresult result, const char **name) {
    *name = result == CAPTURE_UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : "an error";
    return SUCCESS;
}
CUresult cuGetErrorString(CUresult result, const char **text) {
    (void)result;
    *text = "of the fake driver";
    return SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
    *count = 4;
    return SUCCESS;
}
CUresult cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return SUCCESS;
}
CUresult cuDeviceGetName(char *name, int capacity, int device) {
    snprintf(name, (size_t)capacity, "fake %d", device);
    return SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *nbytes, int device) {
    (void)device;
    *nbytes = (size_t)1 << 30;
    return SUCCESS;
}
CUresult cuDeviceGetUuid_v2(char *uuid, int device) {
    memset(uuid, 0, 16);
    uuid[0] = (char)device;
    return SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char *text, int capacity, int device) {
    snprintf(text, (size_t)capacity, "0000:0%d:00.0", device);
    return SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int *can, int device, int peer) {
    (void)device, (void)peer;
    *can = 1;
    return SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(void **context, int device) {
    static char contexts[8];

    UNSAFE();
    *context = &contexts[device];
    return SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(int device) {
    UNSAFE();
    (void)device;
    return SUCCESS;
}
CUresult cuCtxGetCurrent(void **context) {
    *context = current_context;
    return SUCCESS;
}
CUresult cuCtxSetCurrent(void *context) {
    current_context = context;
    return SUCCESS;
}
CUresult cuCtxPushCurrent_v2(void *context) { /* one deep: enough for visits */
    current_context = context;
    return SUCCESS;
}
CUresult cuCtxPopCurrent_v2(void **context) {
    *context = current_context;
    current_context = NULL;
    return SUCCESS;
}
CUresult cuModuleLoadData(void **module, const void *image) {
    UNSAFE();
    (void)image;
    *module = &mutex;
    return SUCCESS;
}
CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
    UNSAFE();
    (void)name;
    *function = module;
    return SUCCESS;
}
CUresult cuModuleUnload(void *module) {
    UNSAFE();
    (void)module;
    return SUCCESS;
}
/* The null stream is worked off like the others. */
__attribute__((constructor)) static void add_null_stream(void) {
    null_stream.next = streams;
    streams = &null_stream;
}
