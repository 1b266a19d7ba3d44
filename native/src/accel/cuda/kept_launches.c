/* SPDX-License-Identifier: BSD-3-Clause
 * The driver takes 2.4 to 3.0 us of the host's time for a launch of a kernel and 1.3 for one of a graph of that kernel
 * (H100, driver 580). A graph is for what has come FROM times one behind the other in its place of the table.
 *
 * Graphs are made when a job begins: to make one may wait for all kernels that run, when the driver needs memory for
 * it, and one of these may wait for what this thread does next. Later they are only given other kernels, which waits
 * for none.
 *
 * Launches of one graph wait for each other, so each stream has its own. In a capture kernels are launched as they are:
 * graphs in a graph have no programmatic edges. */
#include "accel/cuda/kept_launches.h"

#include <pthread.h>
#include <string.h>

#include "ishmemx.h"

enum {
    PLACES = 64, /* a power of two */
    MOST_WORDS = 32,
    FROM = 4,
    IDLE = 256,           /* launches of others in its place, behind which a graph is for the next */
    FIRST_REAL_STREAM = 3 /* a default stream is another one for each thread, or waits for others */
};

typedef struct kept {
    CUfunction function;
    CUstream stream;
    int64_t shape, words[MOST_WORDS];
    int n_words;
    unsigned times;  /* so often it has come, */
    unsigned others; /* and so many others since */
    CUgraphExec executable;
    bool recorded; /* it is the graph of this launch */
} kept_t;

/* For the table. Who finds it taken launches as usual: a launch waits where the stream's queue is full, and what makes
 * room there may be another thread's. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static kept_t table[PLACES];
static CUstream recording; /* NULL: none are kept */

static unsigned place_of(const pysh_cuda_same_t *same) {
    uint64_t sum = (uintptr_t)same->function ^ (uint64_t)(uintptr_t)same->stream << 17 ^ (uint64_t)same->shape;

    for (int i = 0; i < same->n_words; i++)
        sum = (sum ^ (uint64_t)same->words[i]) * 0x9E3779B97F4A7C15ULL;
    return (unsigned)(sum >> 40) & (PLACES - 1);
}

static bool is_same(const kept_t *kept, const pysh_cuda_same_t *same) {
    return kept->function == same->function && kept->stream == same->stream && kept->shape == same->shape &&
           kept->n_words == same->n_words &&
           !memcmp(kept->words, same->words, (size_t)same->n_words * sizeof *same->words);
}

/* Once more, or one more of the others: false, and it goes as usual. */
static bool count_launch(kept_t *kept, const pysh_cuda_same_t *same) {
    if (is_same(kept, same)) {
        kept->others = 0;
        return ++kept->times >= FROM;
    }
    if (kept->recorded && ++kept->others < IDLE)
        return false;
    kept->recorded = false;
    kept->function = same->function;
    kept->stream = same->stream;
    kept->shape = same->shape;
    kept->n_words = same->n_words;
    memcpy(kept->words, same->words, (size_t)same->n_words * sizeof *same->words);
    kept->others = 0;
    kept->times = 1;
    return false;
}

static CUresult capture(pysh_cuda_start_t *start, const void *work, CUgraph *graph) {
    CUresult result = pysh_cuda.StreamBeginCapture(recording, CU_STREAM_CAPTURE_MODE_RELAXED), ended;

    *graph = NULL;
    if (result)
        return result;
    result = start(work, recording);
    ended = pysh_cuda.StreamEndCapture(recording, graph);
    return result ? result : ended;
}

/* What was launched of it before runs as it was. */
static bool record(kept_t *kept, pysh_cuda_start_t *start, const void *work) {
    CUgraphExecUpdateResultInfo told;
    CUgraph graph;
    CUresult result = capture(start, work, &graph);

    if (!result)
        result = pysh_cuda.GraphExecUpdate(kept->executable, graph, &told);
    if (graph)
        pysh_cuda.GraphDestroy(graph);
    return kept->recorded = !result;
}

/* With the mutex held. */
static bool launch_again(kept_t *kept, const pysh_cuda_same_t *same, pysh_cuda_start_t *start, const void *work,
                         CUresult *result_p) {
    int capturing = 1;

    if (!count_launch(kept, same) || pysh_cuda.StreamIsCapturing(same->stream, &capturing) || capturing)
        return false;
    if (!kept->recorded && !record(kept, start, work)) {
        kept->times = 0; /* it is tried again, and goes as usual meanwhile */
        return false;
    }
    *result_p = pysh_cuda.GraphLaunch(kept->executable, same->stream);
    return true;
}

bool pysh_cuda_launched_again(const pysh_cuda_same_t *same, pysh_cuda_start_t *start, const void *work,
                              CUresult *result_p) {
    bool launched;

    if ((uintptr_t)same->stream < FIRST_REAL_STREAM || same->n_words > MOST_WORDS || pthread_mutex_trylock(&mutex))
        return false;
    launched = recording && launch_again(&table[place_of(same)], same, start, work, result_p);
    pthread_mutex_unlock(&mutex);
    return launched;
}

static CUresult make_graphs(pysh_cuda_start_t *start) {
    CUgraph graph;
    CUresult result = capture(start, NULL, &graph);

    for (int i = 0; i < PLACES && !result; i++)
        result = pysh_cuda.GraphInstantiate(&table[i].executable, graph, 0);
    if (graph)
        pysh_cuda.GraphDestroy(graph);
    return result;
}

void pysh_cuda_kept_open(pysh_cuda_start_t *start) {
    int64_t wanted = 0;

    if (ishmemx_setting_number("STREAM_GRAPHS", &wanted) || !wanted || !pysh_cuda.GraphExecUpdate)
        return;
    if (pysh_cuda.StreamCreate(&recording, CU_STREAM_NON_BLOCKING))
        recording = NULL;
    else if (make_graphs(start))
        pysh_cuda_kept_close();
}

void pysh_cuda_kept_close(void) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < PLACES; i++)
        if (table[i].executable)
            pysh_cuda.GraphExecDestroy(table[i].executable);
    memset(table, 0, sizeof table); /* functions of the next job may have the same addresses */
    if (recording)
        pysh_cuda.StreamDestroy(recording);
    recording = NULL;
    pthread_mutex_unlock(&mutex);
}
