/* SPDX-License-Identifier: BSD-3-Clause
 * What it costs by itself to be answered by a thread that sleeps, without UCX: 64 bytes over TCP, there and back.
 *
 *     bare_wake server ADDRESS PORT HOW      on one host, on core 1
 *     bare_wake client ADDRESS PORT HOW      on the other, on core 0
 *
 * The server SPINs; or one thread of it computes, while another, on the same core, sleeps in RECV, in POLL on two nested
 * epolls as UCX has them, there with a SLICE of 0.1 ms, or there with a nice value of -10 (NICE; root). The client
 * spins, and prints one JSON line. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 1000, BYTES = 64, PAUSE_US = 5 };

typedef struct policy { /* sched_setattr's */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} policy_t;

static const char *how;
static int peer;
static volatile int stop;

static double now_us(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void keep_to(int core) {
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof cores, &cores);
}

static void *answer(void *unused) {
    policy_t policy = {.size = sizeof policy};
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}, found[16];
    int inner = epoll_create1(0), outer = epoll_create1(0);
    int polls = strcmp(how, "SPIN") && strcmp(how, "RECV"), n;
    struct pollfd ready = {.fd = outer, .events = POLLIN};
    char bytes[BYTES];

    policy.runtime = strcmp(how, "SLICE") ? 0 : 100000;
    policy.nice = strcmp(how, "NICE") ? 0 : -10;
    if ((policy.runtime || policy.nice) && syscall(SYS_sched_setattr, 0, &policy, 0))
        perror("sched_setattr");
    if (strcmp(how, "RECV"))
        fcntl(peer, F_SETFL, O_NONBLOCK);
    epoll_ctl(inner, EPOLL_CTL_ADD, peer, &event);
    event.events = EPOLLIN;
    epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event);
    for (;;) {
        if (polls) {
            poll(&ready, 1, 100);
            epoll_wait(inner, found, 16, 0);
        }
        if ((n = (int)recv(peer, bytes, BYTES, 0)) == 0)
            break;
        if (n > 0)
            send(peer, bytes, BYTES, 0);
    }
    stop = 1;
    return unused;
}

static void serve(struct sockaddr_in *address) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;

    keep_to(1);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bind(listener, (struct sockaddr *)address, sizeof *address);
    listen(listener, 1);
    peer = accept(listener, NULL, NULL);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (strcmp(how, "SPIN") == 0) {
        answer(NULL);
        return;
    }
    pthread_create(&thread, NULL, answer, NULL);
    while (!stop)
        now_us();
    pthread_join(thread, NULL);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void ask(struct sockaddr_in *address) {
    static double sample[CALLS];
    char bytes[BYTES] = {0};
    int one = 1;

    keep_to(0);
    peer = socket(AF_INET, SOCK_STREAM, 0);
    while (connect(peer, (struct sockaddr *)address, sizeof *address))
        usleep(10000);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(peer, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < CALLS; i++) {
        double begin_us = now_us();
        send(peer, bytes, BYTES, 0);
        while (recv(peer, bytes, BYTES, 0) < 0)
            ;
        sample[i] = now_us() - begin_us;
        for (double end_us = now_us() + PAUSE_US; now_us() < end_us;)
            ;
    }
    qsort(sample, CALLS, sizeof *sample, by_size);
    printf("{\"op\": \"bare_wake\", \"provider\": \"%s\", \"bytes\": %d, \"pes\": 2, \"us\": %.2f, \"tenth_us\": %.2f, "
           "\"nine_tenths_us\": %.2f, \"calls\": %d}\n",
           how, BYTES, sample[CALLS / 2], sample[CALLS / 10], sample[CALLS * 9 / 10], CALLS);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET};

    if (argc != 5 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
        return 2;
    address.sin_port = htons((uint16_t)atoi(argv[3]));
    how = argv[4];
    if (strcmp(argv[1], "server") == 0)
        serve(&address);
    else
        ask(&address);
    return 0;
}
