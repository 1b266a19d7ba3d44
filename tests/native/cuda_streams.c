/* SPDX-License-Identifier: BSD-3-Clause
 * Streams on the CUDA accelerator: which of the driver's calls an operation makes, what it refuses, and that it gets
 * through beside another thread's capture. */
#include "fake_cuda.h"

enum { NBYTES = 4096 };

#define CTX (&ishmemx_ctx_default)

static char *dest, *source;
static uint64_t *sig;
static void *stream;

static void finish(void) {
    MUST(ishmemx_stream_finish(stream));
}

/* Bytes, also through a pointer that the compiler may not see through. */
static uint64_t word_at(const void *address, size_t nbytes) {
    uint64_t word = 0;

    memcpy(&word, address, nbytes);
    return word;
}

static void by_copies(void) {
    memset(source, 1, NBYTES);
    memset(dest, 0, NBYTES);
    MUST(ishmemx_put_on_stream(CTX, dest, source, NBYTES / 2, 0, stream));
    finish();
    CHECK(dest[NBYTES / 2 - 1] == 1 && dest[NBYTES / 2] == 0);
    MUST(ishmemx_get_on_stream(CTX, dest, source, NBYTES, 0, stream));
    finish();
    CHECK(dest[NBYTES - 1] == 1);
    memset(dest, 0, NBYTES);
    MUST(ishmemx_iput_on_stream(CTX, dest, source, 4, 2, 1, 8, 4, 0, stream));
    finish();
    CHECK(word_at(dest + 16 * 7, 4) == 0x01010101 && word_at(dest + 16 * 7 + 4, 4) == 0);
    CHECK(word_at(dest + 16 * 8, 4) == 0);
}

static void by_words(void) {
    const uint64_t value[2] = {0x1122334455667788, 0x99};
    uint64_t *words = (uint64_t *)(void *)dest;

    for (int width = 1; width <= 16; width *= 2) {
        memset(dest, 0, NBYTES);
        MUST(ishmemx_p_on_stream(CTX, dest, value, (size_t)width, 0, stream));
        finish();
        CHECK(!memcmp(dest, value, (size_t)width) && dest[width] == 0);
    }
    memset(dest, 0, NBYTES);
    words[0] = 5;
    MUST(ishmemx_atomic_on_stream(CTX, ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_UINT64, words, 7, 0, 0, &words[1], stream));
    MUST(ishmemx_atomic_on_stream(CTX, ISHMEMX_ATOMIC_ADD, ISHMEMX_TYPE_UINT64, words, 1, 0, 0, NULL, stream));
    finish();
    CHECK(words[0] == 13 && words[1] == 5);
    words[3] = UINT64_MAX; /* an element of 4 bytes leaves what is beside it alone */
    MUST(ishmemx_atomic_on_stream(CTX, ISHMEMX_ATOMIC_SWAP, ISHMEMX_TYPE_INT32, words, 3, 0, 0, &words[3], stream));
    finish();
    CHECK(word_at(words, 4) == 3 && words[3] == 0xffffffff0000000d);
    MUST(ishmemx_atomic_on_stream(CTX, ISHMEMX_ATOMIC_FETCH, ISHMEMX_TYPE_INT32, words, 0, 0, 0, &words[4], stream));
    finish();
    CHECK(words[4] == 3);
}

/* The stream waits, the host does not. */
static void by_signals(void) {
    int finished = 1;

    *sig = 0;
    memset(dest, 0, NBYTES);
    MUST(ishmemx_wait_until_on_stream(ISHMEMX_TYPE_UINT64, sig, ISHMEMX_CMP_GE, 2, stream));
    MUST(ishmemx_put_on_stream(CTX, dest, source, 1, 0, stream));
    MUST(ishmemx_stream_finished(stream, &finished));
    CHECK(!finished && dest[0] == 0);
    MUST(ishmemx_put_signal_on_stream(CTX, dest + 8, source, 8, sig, 2, ISHMEMX_SIGNAL_SET, 0, NULL));
    finish();
    CHECK(*sig == 2 && dest[0] == 1 && dest[15] == 1);
    MUST(ishmemx_signal_op_on_stream(CTX, sig, 3, ISHMEMX_SIGNAL_ADD, 0, stream));
    finish();
    CHECK(*sig == 5);
}

/* The same by kernels of a thread, where they are wanted: not by those who ask for the driver. */
static void by_signal_kernels(void) {
    int before = fake_cuda("fake_cuda_word_kernels", 0);
    int32_t *narrow = (int32_t *)(void *)dest;

    MUST(ishmemx_stream_signals(ISHMEMX_SIGNALS_EARLY, ISHMEMX_SIGNALS_EARLY));
    by_signals();
    CHECK(fake_cuda("fake_cuda_word_kernels", 0) == before + 1); /* the wait; put_signal stores behind its copy */
    MUST(ishmemx_signal_op_on_stream(CTX, sig, UINT64_MAX, ISHMEMX_SIGNAL_SET, 0, stream));
    MUST(ishmemx_wait_until_on_stream(ISHMEMX_TYPE_UINT64, sig, ISHMEMX_CMP_EQ, UINT64_MAX, stream));
    *narrow = 3;
    MUST(ishmemx_wait_until_on_stream(ISHMEMX_TYPE_INT32, narrow, ISHMEMX_CMP_GE, 2, stream));
    finish();
    CHECK(*sig == UINT64_MAX && fake_cuda("fake_cuda_word_kernels", 0) == before + 4);
    MUST(ishmemx_signal_op_by_driver(CTX, sig, 8, ISHMEMX_SIGNAL_SET, 0, stream));
    MUST(ishmemx_wait_by_driver(ISHMEMX_TYPE_UINT64, sig, ISHMEMX_CMP_EQ, 8, stream));
    finish(); /* before the host writes the word again */
    MUST(ishmemx_stream_signals(0, 0));
    by_signals();
    CHECK(fake_cuda("fake_cuda_word_kernels", 0) == before + 4);
    MUST(ishmemx_stream_signals(0, ISHMEMX_SIGNALS_KERNEL)); /* as the setting says by default */
    by_signals();
    CHECK(fake_cuda("fake_cuda_word_kernels", 0) == before + 5);
    MUST(ishmemx_stream_signals(-1, -1));
    by_signals();
    CHECK(fake_cuda("fake_cuda_word_kernels", 0) == before + 6);
    CHECK(ishmemx_stream_signals(3, 0) == ISHMEMX_ERR_ARGUMENT);
    CHECK(ishmemx_signal_op_on_stream(CTX, sig, 1, ISHMEMX_SIGNAL_SET, 1, stream) == ISHMEMX_ERR_ARGUMENT);
}

/* Copies between meetings; with one PE there is the own one alone, on a stream beside. */
static void by_engine(void) {
    int64_t meeting = ISHMEMX_KERNEL_TEAM_SYNC;
    const int64_t engine[] = {INT64_MAX, 2, 1, 32};
    void *graph = NULL;
    int before;

    MUST(ishmemx_stream_rows_set(ISHMEMX_KERNEL_BROADCAST, 1, engine));
    MUST(ishmemx_stream_rows_set(ISHMEMX_KERNEL_ALLTOALL, 1, engine));
    CHECK(ishmemx_stream_rows_set(ISHMEMX_KERNEL_REDUCE, 1, engine) == ISHMEMX_ERR_ARGUMENT);
    if (!ishmemx_kernel_loaded(meeting)) {
        CHECK(ishmemx_broadcast_on_stream(&ishmemx_team_world, dest, source, 24, 0, stream) == ISHMEMX_ERR_UNPREPARED);
        CHECK(ishmemx_kernel_missing() == meeting);
        MUST(ishmemx_kernel_load(meeting, "8", "entry", 100));
    }
    before = fake_cuda("fake_cuda_launched", 0);
    memset(source, 4, NBYTES);
    memset(dest, 0, NBYTES);
    fake_cuda("fake_cuda_slow", 2000); /* the meeting behind it must wait for the copy beside */
    MUST(ishmemx_broadcast_on_stream(&ishmemx_team_world, dest, source, NBYTES, 0, stream));
    finish();
    CHECK(dest[NBYTES - 1] == 4 && fake_cuda("fake_cuda_launched", 0) == before + 2);
    memset(dest, 0, NBYTES);
    MUST(ishmemx_capture_begin(stream));
    MUST(ishmemx_alltoall_on_stream(&ishmemx_team_world, dest, source, NBYTES, stream));
    MUST(ishmemx_capture_end(stream, &graph));
    CHECK(dest[0] == 0);
    MUST(ishmemx_graph_replay(graph, stream));
    finish();
    CHECK(dest[NBYTES - 1] == 4 && fake_cuda("fake_cuda_launched", 0) == before + 4);
    MUST(ishmemx_graph_drop(graph));
    fake_cuda("fake_cuda_slow", 0);
}

static int64_t key_of(int kind, int op, int type) {
    return kind | (int64_t)op << ISHMEMX_KEY_OP_SHIFT | (int64_t)type << ISHMEMX_KEY_TYPE_SHIFT;
}

/* Its image is what the fake driver takes: how many words the kernel has. */
static void by_kernels(void) {
    int64_t broadcast = key_of(ISHMEMX_KERNEL_BROADCAST, 0, ISHMEMX_TYPE_UINT8);
    int64_t sum = key_of(ISHMEMX_KERNEL_REDUCE, ISHMEMX_REDUCE_SUM, ISHMEMX_TYPE_FLOAT);
    const int64_t few[] = {INT64_MAX, 0, 4, 64}, both[] = {48, 0, 4, 64, INT64_MAX, 1, 2, 32};
    int before = fake_cuda("fake_cuda_launched", 0), most = 0;

    MUST(ishmemx_stream_rows_set(ISHMEMX_KERNEL_BROADCAST, 1, few));
    MUST(ishmemx_stream_rows_set(ISHMEMX_KERNEL_REDUCE, 2, both));
    CHECK(ishmemx_stream_rows_set(ISHMEMX_KERNEL_SCAN, 1, few) == ISHMEMX_ERR_ARGUMENT);
    CHECK(ishmemx_stream_rows_set(ISHMEMX_KERNEL_REDUCE, 0, few) == ISHMEMX_ERR_ARGUMENT);
    MUST(ishmemx_stream_blocks(&most));
    CHECK(most > 0 && most <= 128);
    if (!ishmemx_kernel_loaded(broadcast)) { /* the second time they are there */
        CHECK(ishmemx_broadcast_on_stream(&ishmemx_team_world, dest, source, 24, 0, stream) == ISHMEMX_ERR_UNPREPARED);
        CHECK(ishmemx_kernel_missing() == broadcast);
        MUST(ishmemx_kernel_load(broadcast, "23", "entry", 3000));
        CHECK(fake_cuda("fake_cuda_stack", 0) == 3008);
        MUST(ishmemx_kernel_load(sum, "22", "entry", 100));
        CHECK(fake_cuda("fake_cuda_stack", 0) == 3008);
        CHECK(ishmemx_kernel_load(sum + 1, "22", "no entry", 100) == ISHMEMX_ERR_SYSTEM);
    }
    MUST(ishmemx_broadcast_on_stream(&ishmemx_team_world, dest, source, 24, 0, stream));
    finish();
    CHECK(fake_cuda("fake_cuda_launched", 0) == before + 1);
    CHECK(fake_cuda("fake_cuda_word", 0) == 0 && fake_cuda("fake_cuda_word", 2) == 1); /* the world team: slot, PEs */
    CHECK(fake_cuda("fake_cuda_word", 9) == 24);                                       /* elements of dest */
    CHECK(fake_cuda("fake_cuda_word", 21) == 24 && fake_cuda("fake_cuda_word", 22) == 0);
    CHECK(fake_cuda("fake_cuda_shape", 0) == 1 && fake_cuda("fake_cuda_shape", 1) == 0);
    CHECK(ishmemx_only_gpu(dest, source) && !ishmemx_only_gpu(dest, &before));
    MUST(ishmemx_reduce_on_stream(&ishmemx_team_world, ISHMEMX_REDUCE_SUM, ISHMEMX_TYPE_FLOAT, dest, source, 6,
                                  ISHMEMX_STREAM_OWN));
    CHECK(fake_cuda("fake_cuda_launched", 0) == before + 2); /* it has waited */
    CHECK(fake_cuda("fake_cuda_word", 10) == 4 && fake_cuda("fake_cuda_word", 21) == 6);
    CHECK(ishmemx_reduce_on_stream(&ishmemx_team_world, ISHMEMX_REDUCE_SUM, ISHMEMX_TYPE_FLOAT, dest, source, 13,
                                   stream) == ISHMEMX_ERR_UNPREPARED);
    CHECK(ishmemx_kernel_missing() == (sum | ISHMEMX_KEY_WIDE)); /* the second row's */
}

static void in_graphs(void) {
    void *graph = NULL;
    int before = fake_cuda("fake_cuda_launched", 0), capturing = 0;

    *sig = 0;
    MUST(ishmemx_capture_begin(stream));
    MUST(ishmemx_stream_capturing(stream, &capturing));
    CHECK(capturing);
    MUST(ishmemx_broadcast_on_stream(&ishmemx_team_world, dest, source, 24, 0, stream));
    MUST(ishmemx_signal_op_on_stream(CTX, sig, 1, ISHMEMX_SIGNAL_ADD, 0, stream));
    MUST(ishmemx_capture_end(stream, &graph));
    CHECK(*sig == 0);
    for (int i = 0; i < 10; i++)
        MUST(ishmemx_graph_replay(graph, stream));
    finish();
    CHECK(*sig == 10 && fake_cuda("fake_cuda_launched", 0) == before + 10);
    MUST(ishmemx_graph_drop(graph));
}

static int graphs_of(int calls, size_t nbytes, void *where) {
    int before = fake_cuda("fake_cuda_graphs", 0), launched = fake_cuda("fake_cuda_launched", 0);

    for (int i = 0; i < calls; i++)
        MUST(ishmemx_broadcast_on_stream(&ishmemx_team_world, dest, source, nbytes, 0, where));
    MUST(ishmemx_stream_finish(where));
    CHECK(fake_cuda("fake_cuda_launched", 0) == launched + calls);
    CHECK(fake_cuda("fake_cuda_word", 21) == (int)nbytes);
    return fake_cuda("fake_cuda_graphs", 0) - before;
}

/* What comes a fourth time in its place is a graph; a capture has the kernel itself; each stream has its own. */
static void by_kept_graphs(void) {
    void *other, *graph = NULL;
    size_t nbytes = 16;
    int before, first, few;

    MUST(ishmemx_stream_create(&other));
    while ((first = graphs_of(5, nbytes, other)) == 0 && nbytes < 32) /* its place is another's from before */
        nbytes++;
    CHECK(first >= 2 && first <= 5);
    CHECK(graphs_of(5, nbytes, other) == 5);
    CHECK(graphs_of(5, nbytes, NULL) == 0); /* a default stream has none */
    few = graphs_of(3, 12, other) + graphs_of(3, 33, other);
    CHECK(few == 0);
    CHECK(graphs_of(5, nbytes, other) >= 4); /* one of them may have had to give way */
    MUST(ishmemx_capture_begin(other));
    before = fake_cuda("fake_cuda_graphs", 0);
    MUST(ishmemx_broadcast_on_stream(&ishmemx_team_world, dest, source, nbytes, 0, other));
    CHECK(fake_cuda("fake_cuda_graphs", 0) == before);
    MUST(ishmemx_capture_end(other, &graph));
    MUST(ishmemx_graph_replay(graph, other));
    MUST(ishmemx_stream_finish(other));
    CHECK(fake_cuda("fake_cuda_word", 21) == (int)nbytes);
    MUST(ishmemx_graph_drop(graph));
    for (nbytes = 1; nbytes < 2000; nbytes++) /* more than the table has room for; each is right */
        graphs_of(2, nbytes, other);
    MUST(ishmemx_stream_destroy(other));
}

static void refused(const char *what, int status, int expected, const char *part) {
    if (status != expected || !strstr(ishmemx_error(), part))
        fail("%s: status %d, %s", what, status, ishmemx_error());
}

/* To ask for the end of work that is captured spoils the capture; when that has been ended, all is as before. */
static void spoilt_captures(void) {
    void *graph = NULL;
    int finished;

    MUST(ishmemx_capture_begin(stream));
    MUST(ishmemx_put_on_stream(CTX, dest, source, 8, 0, stream));
    refused("finished", ishmemx_stream_finished(stream, &finished), ISHMEMX_ERR_SYSTEM, "900");
    refused("put", ishmemx_put_on_stream(CTX, dest, source, 8, 0, stream), ISHMEMX_ERR_SYSTEM, "capture failed");
    refused("destroy", ishmemx_stream_destroy(stream), ISHMEMX_ERR_SYSTEM, "capture failed");
    refused("end", ishmemx_capture_end(stream, &graph), ISHMEMX_ERR_SYSTEM, "901");
    CHECK(!graph);
    in_graphs();
}

static void mistakes(void) {
    static char host[8];
    void *gone, *foreign = NULL, *context = NULL;
    int (*create)(void **, unsigned), (*current)(void *), (*get)(void **);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    MUST(ishmemx_stream_create(&gone));
    MUST(ishmemx_stream_destroy(gone));
    refused("destroyed", ishmemx_put_on_stream(CTX, dest, source, 8, 0, gone), ISHMEMX_ERR_ARGUMENT, "destroyed");
    *(void **)&create = dlsym(library, "cuStreamCreate");
    *(void **)&current = dlsym(library, "cuCtxSetCurrent");
    *(void **)&get = dlsym(library, "cuCtxGetCurrent");
    get(&context);
    current(host); /* another GPU's */
    create(&foreign, 0);
    current(context);
    refused("foreign", ishmemx_put_on_stream(CTX, dest, source, 8, 0, foreign), ISHMEMX_ERR_ARGUMENT, "another GPU");
    refused("host", ishmemx_put_on_stream(CTX, dest, host, 8, 0, stream), ISHMEMX_ERR_ARGUMENT, "source is not GPU");
    refused("pe", ishmemx_put_on_stream(CTX, dest, source, 8, 7, stream), ISHMEMX_ERR_ARGUMENT, "pe 7");
    refused("root", ishmemx_broadcast_on_stream(&ishmemx_team_world, dest, source, 8, 3, stream), ISHMEMX_ERR_ARGUMENT,
            "root 3");
    refused(
        "type",
        ishmemx_reduce_on_stream(&ishmemx_team_world, ISHMEMX_REDUCE_AND, ISHMEMX_TYPE_FLOAT, dest, source, 1, stream),
        ISHMEMX_ERR_TYPE, "float");
}

/* Of somebody else, who has destroyed it with work on it: finalize waits for that, and asks nothing of the stream. */
static void somebodys(void) {
    void *foreign, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*create)(void **, unsigned), (*destroy)(void *);

    *(void **)&create = dlsym(library, "cuStreamCreate");
    *(void **)&destroy = dlsym(library, "cuStreamDestroy_v2");
    create(&foreign, 0);
    MUST(ishmemx_put_on_stream(CTX, dest, source, 8, 0, foreign));
    destroy(foreign);
}

static void checked(void (*body)(void), const char *what) {
    body();
    fake_cuda("fake_cuda_capture", 1);
    body();
    if (fake_cuda("fake_cuda_refused", 0))
        fail("%s: a call in global mode", what);
    CHECK(fake_cuda("fake_cuda_mode", 0) == 0);
    fake_cuda("fake_cuda_capture", 0);
}

static void begin(void) {
    kernel_begin_on(ISHMEMX_DEVICE_CUDA);
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, NBYTES, 0, 1, (void **)&dest));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, NBYTES, 0, 1, (void **)&source));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, sizeof *sig, 0, 1, (void **)&sig));
    MUST(ishmemx_stream_create(&stream));
}

int main(void) {
    void *graph = NULL;
    int capability = 0;

    begin();
    MUST(ishmemx_cuda_capability(&capability));
    CHECK(capability == 90);
    checked(by_copies, "copies");
    checked(by_words, "words");
    checked(by_signals, "signals");
    checked(by_kernels, "kernels");
    checked(by_signal_kernels, "kernels of signals");
    checked(in_graphs, "graphs");
    checked(spoilt_captures, "captures that fail");
    checked(by_kept_graphs, "graphs that are kept");
    checked(by_engine, "copy engines");
    mistakes();
    MUST(ishmemx_capture_begin(stream));
    MUST(ishmemx_capture_end(stream, &graph) == ISHMEMX_ERR_SYSTEM ? 0 : 1); /* nothing was captured */
    MUST(ishmemx_capture_begin(stream));
    MUST(ishmemx_put_on_stream(CTX, dest, source, 8, 0, stream));
    MUST(ishmemx_capture_end(stream, &graph));
    CHECK(fake_cuda("fake_cuda_has_job", 0));
    MUST(ishmemx_finalize());
    CHECK(!fake_cuda("fake_cuda_has_job", 0)); /* a kernel in a graph of somebody's does nothing now */
    refused("after finalize", ishmemx_graph_replay(graph, stream), ISHMEMX_ERR_STATE, "finalised");
    begin();
    refused("another job", ishmemx_graph_replay(graph, stream), ISHMEMX_ERR_STATE, "a job that has ended");
    MUST(ishmemx_graph_drop(graph));
    MUST(ishmemx_kernels_refill());
    by_kernels(); /* they stay loaded, with the state of this job */
    somebodys();
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
