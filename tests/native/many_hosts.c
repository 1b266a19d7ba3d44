/* SPDX-License-Identifier: BSD-3-Clause
 * How jobs of many hosts join and meet: join/tcp.c and transport/ucx/agree.c themselves, for all PEs in one process,
 * above a network that carries and counts. Arguments: PEs, PEs of a node, bytes of a card, of what a PE says in an
 * exchange, and a seed, by which PEs take turns. Each PE is a coroutine. Steps are how many messages
 * came one behind the other, each sent by who had the one before; `busiest` is how many one PE takes and sends.
 * Or: "any", a number of jobs, and a seed: few PEs meet again and again while some leave, differ and die. */
#define _GNU_SOURCE
#include "many_hosts.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/clock.h"
#include "base/interrupt.h"

#define STACK_BYTES (64 * 1024)
#define FEW_PES     27
#define MOST_TURNS  100000 /* of who waits for nothing that comes */

count_t count;
int n_pes, running; /* the PE whose turn it is */
int *step_of;       /* [n_pes] messages that came to it one behind the other */

static ucontext_t scheduler, *coroutine;
static bool *is_done;
static uint64_t chance, now;
static void (*work)(int pe);
static int *load_of; /* [n_pes] messages of a PE */

/* Time is turns: nothing here waits for a clock. */
int64_t pysh_now_ns(void) {
    return (int64_t)++now;
}

int pysh_wait_interrupted(const char *what) {
    (void)what;
    return 0;
}

uint32_t any(uint32_t below) {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (uint32_t)(chance >> 32) % below;
}

void give_way(void) {
    swapcontext(&coroutine[running], &scheduler);
}

void count_message(int from, size_t nbytes) {
    count.messages++;
    count.bytes += nbytes;
    load_of[from]++;
}

void count_arrival(int to, int step) {
    load_of[to]++;
    if (step_of[to] < step)
        step_of[to] = step;
}

static void enter(void) {
    int pe = running;

    work(pe);
    is_done[pe] = true;
}

void turn_to(int pe) {
    running = pe;
    if (!is_done[pe])
        swapcontext(&scheduler, &coroutine[pe]);
}

/* All PEs do `what`, in turns that the seed decides, with `between` two rounds of turns. */
void run_all(void (*what)(int pe), bool (*is_ready)(int pe), bool (*between)(void)) {
    int *order = malloc((size_t)n_pes * sizeof *order);
    volatile int left = n_pes;

    work = what;
    count = (count_t){0};
    for (int pe = 0; pe < n_pes; pe++) {
        char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED)
            exit(1);
        order[pe] = pe;
        is_done[pe] = false;
        step_of[pe] = load_of[pe] = 0;
        getcontext(&coroutine[pe]);
        coroutine[pe].uc_stack.ss_sp = stack;
        coroutine[pe].uc_stack.ss_size = STACK_BYTES;
        coroutine[pe].uc_link = &scheduler;
        makecontext(&coroutine[pe], enter, 0);
    }
    for (int turns = 0; left || between(); turns++) {
        int running_yet = 0;
        CHECK(turns < MOST_TURNS);
        for (int i = 0; i < left; i++) {
            int other = i + (int)any((uint32_t)(left - i)), pe = order[other];
            order[other] = order[i];
            if (is_ready(pe))
                turn_to(pe);
            if (!is_done[pe])
                order[running_yet++] = pe;
        }
        left = running_yet;
        between();
    }
    for (int pe = 0; pe < n_pes; pe++) {
        munmap(coroutine[pe].uc_stack.ss_sp, STACK_BYTES);
        if (count.steps < step_of[pe])
            count.steps = step_of[pe];
        if (count.busiest < load_of[pe])
            count.busiest = load_of[pe];
    }
    free(order);
}

static void report(const char *what, size_t nbytes_of_pe) {
    printf("{\"what\": \"%s\", \"pes\": %d, \"messages\": %llu, \"bytes\": %llu, \"connections\": %d, \"steps\": %d, "
           "\"busiest\": %d, \"bytes_of_pe\": %zu}\n",
           what, n_pes, (unsigned long long)count.messages, (unsigned long long)count.bytes, count.connections,
           count.steps, count.busiest, nbytes_of_pe);
}

void end_turns(int pe) {
    is_done[pe] = true;
}

static void make_pes(int most) {
    step_of = calloc((size_t)most, sizeof *step_of);
    load_of = calloc((size_t)most, sizeof *load_of);
    is_done = calloc((size_t)most, sizeof *is_done);
    coroutine = calloc((size_t)most, sizeof *coroutine);
}

/* 1 to 9 nodes of 1 to 3 PEs; the last may have fewer. */
static int meet_in_jobs(int n_jobs) {
    make_pes(FEW_PES);
    for (int job = 0; job < n_jobs; job++) {
        int size = 1 + (int)any(3);
        n_pes = 1 + (int)any((uint32_t)(FEW_PES / 3 * size));
        meet_in_any_order(size, 30, job % 3 == 2);
    }
    say_what_happened();
    return 0;
}

int main(int argc, char **argv) {
    size_t card_bytes, said_bytes;
    int size;

    if (argc != 6 && argc != 4)
        return 2;
    chance = strtoull(argv[argc - 1], NULL, 10) * 2 + 1;
    if (argc == 4)
        return meet_in_jobs(atoi(argv[2]));
    n_pes = atoi(argv[1]);
    size = atoi(argv[2]);
    card_bytes = (size_t)atoi(argv[3]);
    said_bytes = (size_t)atoi(argv[4]);
    make_pes(n_pes);
    report("join", join_all(card_bytes));
    report("barrier", sync_all(size, 0));
    report("exchange", sync_all(size, said_bytes));
    return 0;
}
