/* SPDX-License-Identifier: BSD-3-Clause
 * The simulator's streams, used by a thread while another destroys them: the library's own files, with stand-ins for
 * what they call. No operation takes a stream that is destroyed, not even one that was there when it was checked. */
#define _GNU_SOURCE
#include "accel/sim/streams.c"
#include "accel/sim/work.c"
#include "base/thread.c"

#include <stdio.h>

enum { N_ROUNDS = 2000 };

pysh_state_t pysh;
static void *_Atomic shared;
static _Atomic bool over;

int pysh_fail(int status, const char *format, ...) {
    (void)format;
    return status;
}

size_t pysh_type_nbytes(int type) {
    (void)type;
    return 8;
}

const char *pysh_cmp_symbol(int cmp) {
    (void)cmp;
    return "==";
}

static void call(int64_t number) {
    (void)number;
}

/* Each operation of the table, with one handle: how many take it. */
static int n_taking(void *handle) {
    static uint64_t word[2] = {1, 1};
    static job_t job = {.kind = CALL, .call = call};
    queue_t kept = {&job, &job.next};
    bool yes;
    void *graph = NULL;
    const pysh_streams_t *streams = &pysh_sim_streams;
    const pysh_blocks_t blocks = {.dest = word, .source = word};
    int n = !streams->check(handle);

    n += !streams->finished(handle, &yes);
    n += !streams->capturing(handle, &yes);
    n += !streams->copy(word, word + 1, 8, handle);
    n += !streams->copy_blocks(&blocks, handle);
    n += !streams->store(word, 1, 8, handle);
    n += !streams->wait(word + 1, ISHMEMX_CMP_EQ, 1, 8, handle);
    n += !streams->amo(0, 0, word, 1, 0, NULL, handle);
    n += !streams->launch(&(pysh_launch_t){0}, handle);
    n += !streams->replay(&kept, handle);
    n += !ishmemx_sim_call(call, 1, handle);
    n += !streams->capture_begin(handle);
    n += !streams->capture_end(handle, &graph);
    if (graph)
        streams->drop(graph);
    return n;
}

static void *use(void *unused) {
    bool yes;

    while (!over) {
        void *handle = shared;
        pysh_sim_streams.finished(handle, &yes);
        ishmemx_sim_call(call, 1, handle);
        pysh_sim_streams.capturing(handle, &yes);
    }
    return unused;
}

int main(void) {
    pthread_t user;
    void *stream;

    if (pysh_sim_streams.create(&stream) || n_taking(stream) != 13 || pysh_sim_streams.destroy(stream))
        return puts("a stream is not taken"), 1;
    if (n_taking(stream) || !pysh_sim_streams.destroy(stream))
        return puts("a destroyed stream is taken"), 1;
    if (pthread_create(&user, NULL, use, NULL))
        return puts("no thread"), 1;
    for (int round = 0; round < N_ROUNDS; round++) {
        if (pysh_sim_streams.create(&stream))
            return puts("no stream"), 1;
        shared = stream;
        pysh_sim_streams.destroy(stream);
    }
    over = true;
    pthread_join(user, NULL);
    pysh_sim_streams.close();
    puts("ok");
    return 0;
}
