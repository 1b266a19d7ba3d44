/* SPDX-License-Identifier: BSD-3-Clause
 * What UCX takes by itself to be answered: a message of 8 bytes there and one back, as a get of pyshmem is over conduit
 * ucx. network.py compiles and runs it, on one host as PE 1, on the other as PE 0.
 *
 *     bare_ucx label pe address port op
 *
 * op: get (PE 1 makes progress all the time), busy_get or busy_get_apart (it computes, and a thread of it on the same
 * core sleeps in poll on the worker's descriptor; PE 0 asks again at once, or a millisecond later). PE 0 prints one
 * JSON line. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { CALLS = 1500, BUSY_CALLS = 300, AM_ID = 7, SLEEP_MS = 100 };

static ucp_worker_h worker;
static ucp_ep_h ep;
static long heard, answered;
static int descriptor;
static atomic_bool stop;

static void must(int holds, const char *what) {
    if (holds)
        return;
    perror(what);
    exit(1);
}

static double now_us(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_nbytes, void *data, size_t nbytes,
                               const ucp_am_recv_param_t *param) {
    (void)arg, (void)header, (void)header_nbytes, (void)data, (void)nbytes, (void)param;
    heard++;
    return UCS_OK;
}

static void send_word(void) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_COPY_HEADER};
    long word = heard;
    void *request = ucp_am_send_nbx(ep, AM_ID, &word, sizeof word, NULL, 0, &param);

    must(!UCS_PTR_IS_ERR(request), "ucp_am_send_nbx");
    if (request)
        ucp_request_free(request);
}

static void answer(void) {
    while (ucp_worker_progress(worker))
        ;
    for (; answered < heard; answered++)
        send_word();
}

static void *serve(void *unused) {
    struct pollfd ready = {.fd = descriptor, .events = POLLIN};

    while (!atomic_load(&stop)) {
        answer();
        if (ucp_worker_arm(worker) == UCS_OK)
            poll(&ready, 1, SLEEP_MS);
    }
    return unused;
}

/* ---- to meet ---- */

static int meet(int pe, const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int one = 1, made = socket(AF_INET, SOCK_STREAM, 0), other;

    must(inet_pton(AF_INET, host, &address.sin_addr) == 1, host);
    if (pe == 0) {
        while (connect(made, (struct sockaddr *)&address, sizeof address)) {
            close(made);
            usleep(10000);
            made = socket(AF_INET, SOCK_STREAM, 0);
        }
        return made;
    }
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    must(bind(made, (struct sockaddr *)&address, sizeof address) == 0 && listen(made, 1) == 0, "listen");
    must((other = accept(made, NULL, NULL)) >= 0, "accept");
    close(made);
    return other;
}

static void open_worker(int other) {
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = AM_ID, .cb = on_message};
    ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                          .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    ucp_context_h context;
    ucp_address_t *own;
    size_t nbytes, their_nbytes;
    char *theirs;

    must(ucp_init(&params, NULL, &context) == UCS_OK, "ucp_init");
    must(ucp_worker_create(context, &single, &worker) == UCS_OK, "ucp_worker_create");
    must(ucp_worker_get_efd(worker, &descriptor) == UCS_OK, "ucp_worker_get_efd");
    must(ucp_worker_set_am_recv_handler(worker, &handler) == UCS_OK, "ucp_worker_set_am_recv_handler");
    must(ucp_worker_get_address(worker, &own, &nbytes) == UCS_OK, "ucp_worker_get_address");
    must(write(other, &nbytes, sizeof nbytes) == sizeof nbytes && write(other, own, nbytes) == (ssize_t)nbytes,
         "write");
    must(recv(other, &their_nbytes, sizeof their_nbytes, MSG_WAITALL) == sizeof their_nbytes, "recv");
    must((theirs = malloc(their_nbytes)) != NULL, "malloc");
    must(recv(other, theirs, their_nbytes, MSG_WAITALL) == (ssize_t)their_nbytes, "recv");
    to.address = (ucp_address_t *)theirs;
    must(ucp_ep_create(worker, &to, &ep) == UCS_OK, "ucp_ep_create");
}

/* ---- what is measured ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void ask(const char *label, const char *op) {
    static double sample[CALLS];
    int n = strcmp(op, "get") ? BUSY_CALLS : CALLS;

    for (int i = -20; i < n; i++) {
        double begin_us = now_us();
        long before = heard;
        while (strcmp(op, "busy_get_apart") == 0 && now_us() < begin_us + 1e3)
            ;
        begin_us = now_us();
        send_word();
        while (heard == before)
            ucp_worker_progress(worker);
        if (i >= 0)
            sample[i] = now_us() - begin_us;
    }
    qsort(sample, (size_t)n, sizeof *sample, by_size);
    printf("{\"op\": \"%s\", \"provider\": \"%s\", \"bytes\": 8, \"pes\": 2, \"us\": %.2f, \"tenth_us\": %.2f, "
           "\"nine_tenths_us\": %.2f, \"calls\": %d}\n",
           op, label, sample[n / 2], sample[n / 10], sample[n * 9 / 10], n);
}

int main(int argc, char **argv) {
    char byte;
    int other, pe;

    if (argc != 6)
        return 2;
    pe = atoi(argv[2]);
    other = meet(pe, argv[3], argv[4]);
    open_worker(other);
    if (pe == 0) {
        ask(argv[1], argv[5]);
    } else {
        pthread_t thread;
        bool sleeps = strcmp(argv[5], "get");
        if (sleeps)
            must(pthread_create(&thread, NULL, serve, NULL) == 0, "pthread_create");
        /* Until PE 0 has gone: a look at its socket is a call of the system in a program that computes, now and then.
         */
        for (long i = 0; recv(other, &byte, 1, MSG_DONTWAIT) < 0; i++)
            for (double end_us = now_us() + 1e4; now_us() < end_us;)
                if (!sleeps)
                    answer();
    }
    fflush(stdout);
    _exit(0); /* the connection ends as the process does */
}
