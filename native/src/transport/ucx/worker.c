/* SPDX-License-Identifier: BSD-3-Clause
 * The worker: connections, messages in their order, progress, and the thread that sleeps on its descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "node/control.h"
#include "node/node.h"
#include "transport/ucx/ucx.h"

#define AM_ID       7
#define TURNS       16                         /* of progress, before the mutex is given away */
#define WAIT_TURNS  32                         /* before the core is: longer than a message and its answer take */
#define AWAY_NS     (1000 * 1000LL)            /* how long the thread stays away from those who make progress */
#define PROBE_NS    (50 * 1000LL)              /* in which they come back if they do */
#define LIVELY_NS   (200 * 1000LL)             /* after a message, for the next: a wait makes progress itself so long */
#define KEEN_NS     (20 * 1000LL)              /* after one, that the thread looks for the next before it sleeps */
#define REST        8                          /* messages that it does not, once none has come */
#define CLOSE_NS    (2 * 1000 * 1000 * 1000LL) /* for connections to end in order */
#define PATIENCE_NS (200 * 1000 * 1000LL)      /* for the reason why a connection has ended to come from elsewhere */
#define SLEEP_MS    100

pysh_ucx_t pysh_ucx = {.fd = -1, .mutex = PTHREAD_MUTEX_INITIALIZER};

struct pysh_ucx_early { /* a message that came before one sent earlier */
    pysh_ucx_early_t *next;
    pysh_ucx_head_t head;
    char data[];
};

typedef struct answer {
    struct answer *next;
    int pe;
    pysh_ucx_head_t head;
    const char *data;
    size_t nbytes;
} answer_t;

static answer_t *answers, **last_answer = &answers;

/* ---- who makes progress ----
 *
 * A thread of the program that waits does, and the background thread keeps off: it would hold the mutex when the waiter
 * wants it, and a switch to it costs more than a message does. It serves while no wait is awake.
 *
 * `awake`, `asleep` count waits; `away` is a futex on which the background thread sleeps. It sets `away`, then looks at
 * the counts, and sleeps unless waits sleep and none is awake. Who changes the counts so does that first, and clears
 * `away` then. All are sequentially consistent, so one of the two sees the other: the thread does not sleep, or is
 * woken. Who ends its wait to compute, and leaves nobody asleep, does not wake it, as most wait again soon: the thread
 * looks by itself, AWAY_NS later at most. */

static _Atomic int awake, asleep;
static _Atomic uint32_t away;
static _Atomic uint32_t served;  /* how often callers have made progress */
static _Atomic int64_t heard_ns; /* when the last message came. Both are hints, which order nothing */

/* Where the thread sleeps: on the worker's descriptor, and on a timer. A wait that begins meanwhile takes the
 * descriptor away, as it serves what comes itself, and on the same core the thread would be woken first each time,
 * which costs the waiter more than a message does. The thread then sleeps on until the timer has it look who serves,
 * AWAY_NS later; or until the descriptor is put back by a wait that goes to sleep and leaves nobody awake.
 *
 * The thread puts the descriptor in, sets `on`, and looks at `awake` once more; a wait counts itself in `awake`, and
 * then looks at `on`: one of the two sees the other. Who takes the descriptor away is counted in `awake` until it has
 * done so: who leaves nobody awake later finds that it is away. */
static struct {
    int set, timer;
    pthread_mutex_t mutex;
    bool started;
    _Atomic bool watches; /* the descriptor is in the set; changed with the mutex. As each message tells all sets in
                             which it is, only while the thread sleeps there */
    _Atomic bool on;      /* the thread sleeps there, and no wait has taken the descriptor away */
} doze = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void watch_descriptor(bool on) {
    struct epoll_event event = {.events = EPOLLIN};

    pthread_mutex_lock(&doze.mutex);
    if (doze.started && on != atomic_load(&doze.watches)) {
        epoll_ctl(doze.set, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, pysh_ucx.fd, &event);
        atomic_store(&doze.watches, on);
    }
    pthread_mutex_unlock(&doze.mutex);
}

static void let_it_sleep(void) {
    const struct itimerspec moment = {.it_value = {.tv_nsec = AWAY_NS}};

    watch_descriptor(false);
    pthread_mutex_lock(&doze.mutex);
    if (doze.started)
        timerfd_settime(doze.timer, 0, &moment, NULL);
    pthread_mutex_unlock(&doze.mutex);
}

static void sleep_on_descriptor(void) {
    struct epoll_event ready;

    watch_descriptor(true);
    atomic_store(&doze.on, true);
    if (atomic_load(&awake) == 0)
        epoll_wait(doze.set, &ready, 1, SLEEP_MS);
    atomic_store(&doze.on, false);
}

static int open_doze(void) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}; /* each time that it expires */

    doze.set = epoll_create1(EPOLL_CLOEXEC);
    doze.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    atomic_store(&doze.watches, false);
    doze.started = doze.set >= 0 && doze.timer >= 0 && epoll_ctl(doze.set, EPOLL_CTL_ADD, doze.timer, &event) == 0;
    return doze.started ? 0 : errno;
}

static void close_doze(void) {
    pthread_mutex_lock(&doze.mutex);
    doze.started = false;
    if (doze.set >= 0)
        close(doze.set);
    if (doze.timer >= 0)
        close(doze.timer);
    pthread_mutex_unlock(&doze.mutex);
}

/* The thread is to serve at once. */
static void call_it(void) {
    if (atomic_exchange(&away, 0))
        syscall(SYS_futex, &away, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    if (!atomic_load(&doze.watches))
        watch_descriptor(true);
}

void pysh_ucx_awake(int change) {
    int now = atomic_fetch_add(&awake, change) + change;

    if (change > 0 && atomic_load(&doze.on) && atomic_exchange(&doze.on, false))
        let_it_sleep();
    if (now <= 0 && atomic_load(&asleep) > 0)
        call_it();
}

void pysh_ucx_asleep(int change) {
    atomic_fetch_add(&asleep, change);
    pysh_ucx_awake(-change);
}

static void stay_away(void) {
    const struct timespec timeout = {.tv_nsec = AWAY_NS};

    watch_descriptor(false);
    atomic_store(&away, 1);
    if (atomic_load(&awake) > 0 || atomic_load(&asleep) == 0)
        syscall(SYS_futex, &away, FUTEX_WAIT_PRIVATE, 1, &timeout, NULL, 0);
    atomic_store(&away, 0);
}

/* A message came a moment ago, so another may: it is not worth a sleep, nor waking who sleeps, before it. */
static bool is_lively(void) {
    return pysh_ucx.may_spin && atomic_load_explicit(&heard_ns, memory_order_relaxed) > pysh_now_ns() - LIVELY_NS;
}

void pysh_ucx_lock(void) {
    if (pthread_mutex_trylock(&pysh_ucx.mutex) == 0)
        return;
    pysh_ucx_awake(1);
    pthread_mutex_lock(&pysh_ucx.mutex);
    pysh_ucx_awake(-1);
}

/* ---- who is gone ---- */

static void fail_peer(pysh_ucx_peer_t *peer, pysh_ucs_status_t status) {
    if (atomic_load(&peer->failed) || atomic_load(&pysh_ucx.closing))
        return;
    peer->failed_ns = pysh_now_ns();
    atomic_store(&peer->failed, status ? status : PYSH_UCS_ERR_LAST);
    if (!atomic_load(&peer->left))
        atomic_fetch_add(&pysh_ucx.n_failed, 1);
}

static void on_error(void *arg, void *ep, pysh_ucs_status_t status) {
    (void)ep;
    fail_peer(arg, status);
}

int pysh_ucx_first_lost(void) {
    int first = -1;

    for (int pe = 0; pe < pysh_ucx.n_pes; pe++) {
        const pysh_ucx_peer_t *peer = &pysh_ucx.peer[pe];
        if (atomic_load(&peer->failed) && !atomic_load(&peer->left) &&
            (first < 0 || peer->failed_ns < pysh_ucx.peer[first].failed_ns))
            first = pe;
    }
    return first;
}

int pysh_ucx_lost(int pe) {
    char during[PYSH_ACTIVITY_TEXT + 32];
    int failed = atomic_load(&pysh_ucx.peer[pe].failed);

    if (!failed || pysh_now_ns() < pysh_ucx.peer[pe].failed_ns + PATIENCE_NS)
        return ISHMEMX_OK;
    if (pysh_ucx_first_lost() >= 0)
        pe = pysh_ucx_first_lost();
    failed = atomic_load(&pysh_ucx.peer[pe].failed);
    pysh_control_during(pysh_node.own, during, sizeof during);
    /* acquire: pairs with the release in pysh_ucx_on_news() */
    if (atomic_load_explicit(&pysh_ucx.has_news, memory_order_acquire))
        return pysh_fail(ISHMEMX_ERR_PEER, "%s%s", pysh_ucx.news, during);
    return pysh_fail(ISHMEMX_ERR_PEER, "PE %d on host %s died or cannot be reached (UCX: %s)%s", pe, pysh_ucx.host[pe],
                     pysh_ucx.library->status_text((pysh_ucs_status_t)failed), during);
}

/* ---- sending ---- */

static void on_sent(void *request, pysh_ucs_status_t status, void *user_data) {
    pysh_ucx_done_t *done = user_data;

    (void)status; /* of a connection that has ended: on_error() says so */
    if (done)
        atomic_fetch_sub_explicit(&done->left, 1, memory_order_release); /* pairs with who waits for it */
    pysh_ucx.library->request_free(request);
}

static void *connection(pysh_ucx_peer_t *peer) {
    pysh_ucp_ep_params_t params = {.field_mask = PYSH_UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                 PYSH_UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                 PYSH_UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                   .address = peer->address,
                                   .err_mode = PYSH_UCP_ERR_HANDLING_MODE_PEER,
                                   .err_handler = {on_error, peer}};
    pysh_ucs_status_t status;

    if (!peer->ep && (status = pysh_ucx.library->ep_create(pysh_ucx.worker, &params, &peer->ep))) {
        peer->ep = NULL;
        fail_peer(peer, status);
    }
    return peer->ep;
}

static void send_one(int pe, pysh_ucx_head_t *head, const void *data, size_t nbytes, pysh_ucx_done_t *done) {
    pysh_ucx_peer_t *peer = &pysh_ucx.peer[pe];
    pysh_ucp_request_param_t param = {.op_attr_mask = PYSH_UCP_OP_ATTR_FIELD_FLAGS | PYSH_UCP_OP_ATTR_FIELD_CALLBACK |
                                                      PYSH_UCP_OP_ATTR_FIELD_USER_DATA |
                                                      PYSH_UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                      .flags = PYSH_UCP_AM_SEND_FLAG_EAGER | PYSH_UCP_AM_SEND_FLAG_COPY_HEADER,
                                      .cb = on_sent,
                                      .user_data = done,
                                      .memory_type = PYSH_UCS_MEMORY_TYPE_HOST};
    bool inside = nbytes <= PYSH_UCX_INSIDE;
    pysh_ucp_request_t request;

    if (!connection(peer) || atomic_load(&peer->failed))
        return;
    head->key = peer->key;
    head->from = pysh_ucx.pe;
    head->number = peer->sent++;
    head->nbytes = (uint32_t)nbytes;
    if (inside && nbytes && data != head->inside)
        memcpy(head->inside, data, nbytes);
    if (done)
        atomic_fetch_add_explicit(&done->left, 1, memory_order_relaxed);
    request = pysh_ucx.library->am_send_nbx(peer->ep, AM_ID, head, PYSH_UCX_HEAD_BYTES + (inside ? nbytes : 0),
                                            inside ? NULL : data, inside ? 0 : nbytes, &param);
    if (pysh_ucx_is_error(request))
        fail_peer(peer, pysh_ucx_error_of(request));
    if (done && (!request || pysh_ucx_is_error(request)))
        atomic_fetch_sub_explicit(&done->left, 1, memory_order_relaxed);
}

void pysh_ucx_send(int pe, pysh_ucx_head_t *head, const void *data, pysh_ucx_done_t *done) {
    send_one(pe, head, data, head->nbytes, done);
}

void pysh_ucx_answer(int pe, const pysh_ucx_head_t *head, const void *data, size_t nbytes) {
    answer_t *answer = malloc(sizeof *answer);

    if (!answer) /* as if the network had lost it */
        return fail_peer(&pysh_ucx.peer[pe], PYSH_UCS_ERR_LAST);
    *answer = (answer_t){.pe = pe, .head = *head, .data = data, .nbytes = nbytes};
    if (nbytes && nbytes <= PYSH_UCX_INSIDE)
        answer->data = memcpy(answer->head.inside, data, nbytes);
    *last_answer = answer;
    last_answer = &answer->next;
}

/* In pieces: each says in `offset` where in the whole it is. */
static void send_answers(void) {
    while (answers) {
        answer_t *answer = answers;
        size_t at = 0;

        if (!(answers = answer->next))
            last_answer = &answers;
        do {
            size_t n = answer->nbytes - at < PYSH_UCX_PIECE ? answer->nbytes - at : PYSH_UCX_PIECE;
            if (answer->nbytes)
                answer->head.offset = at;
            send_one(answer->pe, &answer->head, answer->data + at, n, NULL);
            at += n;
        } while (at < answer->nbytes);
        free(answer);
    }
}

/* Answers to what was served here, not by a message, are sent too. */
void pysh_ucx_unlock(void) {
    if (answers && pysh_ucx.worker)
        send_answers();
    pthread_mutex_unlock(&pysh_ucx.mutex);
}

/* ---- receiving ---- */

static void keep_early(pysh_ucx_peer_t *peer, const pysh_ucx_head_t *head, const void *data) {
    size_t nbytes = head->nbytes > PYSH_UCX_INSIDE ? head->nbytes : 0;
    pysh_ucx_early_t *early = malloc(sizeof *early + nbytes);

    if (!early)
        return fail_peer(peer, PYSH_UCS_ERR_LAST);
    early->head = *head;
    if (nbytes)
        memcpy(early->data, data, nbytes);
    early->next = peer->early;
    peer->early = early;
}

static void serve_early(pysh_ucx_peer_t *peer) {
    for (pysh_ucx_early_t **at = &peer->early; *at;) {
        pysh_ucx_early_t *early = *at;
        if (early->head.number != peer->heard) {
            at = &early->next;
            continue;
        }
        *at = early->next;
        peer->heard++;
        pysh_ucx_serve(&early->head, early->head.nbytes > PYSH_UCX_INSIDE ? early->data : early->head.inside);
        free(early);
        at = &peer->early;
    }
}

/* Whatever comes, OK: another answer would end the process. What is not of the job is let go. */
static pysh_ucs_status_t on_message(void *arg, const void *header, size_t header_nbytes, void *data, size_t nbytes,
                                    const pysh_ucp_am_recv_param_t *param) {
    pysh_ucx_head_t head = {0};
    pysh_ucx_peer_t *peer;

    (void)arg;
    if (header_nbytes < PYSH_UCX_HEAD_BYTES || header_nbytes > sizeof head ||
        param->recv_attr & PYSH_UCP_AM_RECV_ATTR_FLAG_RNDV)
        return 0;
    memcpy(&head, header, header_nbytes);
    if (head.key != pysh_ucx.key || head.from < 0 || head.from >= pysh_ucx.n_pes || head.kind >= PYSH_UCX_KINDS ||
        head.nbytes != nbytes + (header_nbytes - PYSH_UCX_HEAD_BYTES))
        return 0;
    atomic_store_explicit(&heard_ns, pysh_now_ns(), memory_order_relaxed);
    peer = &pysh_ucx.peer[head.from];
    if (head.number != peer->heard) {
        keep_early(peer, &head, data);
        return 0;
    }
    peer->heard++;
    pysh_ucx_serve(&head, nbytes ? data : head.inside);
    if (peer->early)
        serve_early(peer);
    return 0;
}

/* With the mutex. */
static unsigned step(void) {
    unsigned n = pysh_ucx.library->worker_progress(pysh_ucx.worker);

    if (answers)
        send_answers();
    return n;
}

bool pysh_ucx_progress(void) {
    unsigned n = 0;

    if (pthread_mutex_trylock(&pysh_ucx.mutex))
        return false;
    if (pysh_ucx.worker)
        n = step();
    if (n)
        atomic_fetch_add_explicit(&served, 1, memory_order_relaxed);
    pysh_ucx_unlock();
    return n;
}

bool pysh_ucx_linger(void) {
    if (!is_lively())
        return false;
    for (int i = 0; i < WAIT_TURNS; i++)
        if (pysh_ucx_progress())
            return true;
    sched_yield();
    return true;
}

/* ---- the thread that serves while nobody waits ---- */

static struct {
    bool started;
    pthread_t thread;
    _Atomic bool stop;
} background;

/* Does the thread look on for the next message? Who gets one word after the other asks for the next once the last is
 * there. To sleep and be woken for it costs the program's core as much time as to look for it does, and the asker more:
 * so the thread looks for as long as that costs (KEEN_NS), which at worst doubles what a message takes from the
 * program, and where none came not again for REST messages. Called by the thread alone. */
static bool is_keen(void) {
    static int64_t last_ns;
    static int rest;
    static bool looks;
    int64_t heard = atomic_load_explicit(&heard_ns, memory_order_relaxed);

    if (heard != last_ns) {
        last_ns = heard;
        looks = false;
        rest -= rest > 0;
    }
    if (pysh_ucx.may_spin && !rest && pysh_now_ns() - heard < KEEN_NS)
        return looks = true;
    if (looks)
        rest = REST;
    return looks = false;
}

/* True: there is nothing to do before the descriptor says so. */
static bool serve_and_arm(void) {
    pysh_ucs_status_t status = PYSH_UCS_ERR_BUSY;
    bool spins = false;

    pthread_mutex_lock(&pysh_ucx.mutex);
    for (int i = 0; i < TURNS; i++)
        if (!step()) {
            spins = atomic_load(&asleep) > 0 && is_lively(); /* their core is free */
            if (!spins && !is_keen())
                status = pysh_ucx.library->worker_arm(pysh_ucx.worker);
            break;
        }
    pysh_ucx_unlock();
    if (spins)
        sched_yield();
    return status == 0;
}

static uint32_t count_served(void) {
    return atomic_load_explicit(&served, memory_order_relaxed);
}

/* Have callers made progress since they had done so `before` times, and do they still? What has woken the thread may
 * have been a waiter's to serve, who is between two waits now: `awake` alone does not tell. As he comes back for the
 * next message, the thread would come with each, and be behind it. */
static bool callers_serve(uint32_t before) {
    const struct timespec probe = {.tv_nsec = PROBE_NS};
    uint32_t now = count_served();

    if (now == before)
        return false;
    nanosleep(&probe, NULL);
    return count_served() != now;
}

static void *ucx_serve(void *unused) {
    uint32_t before = count_served();

    prctl(PR_SET_TIMERSLACK, 1); /* 50 us else */
    while (!atomic_load(&background.stop)) {
        if (atomic_load(&awake) > 0 || callers_serve(before)) {
            before = count_served();
            stay_away();
        } else {
            before = count_served();
            if (serve_and_arm())
                sleep_on_descriptor();
        }
    }
    return unused;
}

int pysh_ucx_serve_in_background(void) {
    int why = open_doze();

    atomic_store(&background.stop, false);
    if (!why)
        why = pysh_thread_start(&background.thread, "pysh-conduit", ucx_serve, NULL);
    if (why) {
        close_doze();
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "the thread that serves other hosts: %s", strerror(why));
    }
    background.started = true;
    return ISHMEMX_OK;
}

void pysh_ucx_serve_no_more(void) {
    if (!background.started)
        return;
    atomic_store(&background.stop, true);
    watch_descriptor(true);
    pysh_ucx.library->worker_signal(pysh_ucx.worker);
    pthread_join(background.thread, NULL);
    background.started = false;
    close_doze();
}

/* ---- from open to close ---- */

static int ucx_fail(const char *call, pysh_ucs_status_t status) {
    return pysh_fail(ISHMEMX_ERR_SYSTEM, "%s of %s: %s", call, pysh_ucx.library->path,
                     pysh_ucx.library->status_text(status));
}

static int make_context(const pysh_ucx_library_t *library) {
    pysh_ucp_params_t params = {.field_mask = PYSH_UCP_PARAM_FIELD_FEATURES | PYSH_UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                /* No puts and gets of UCX's: so there are none for a stranger to misuse. */
                                .features = PYSH_UCP_FEATURE_AM | PYSH_UCP_FEATURE_WAKEUP,
                                .estimated_num_eps = (size_t)pysh_ucx.n_pes};
    pysh_ucs_status_t status;
    void *config;

    if (pysh_ucx.context)
        return ISHMEMX_OK;
    if ((status = library->config_read(NULL, NULL, &config)))
        return ucx_fail("ucp_config_read", status);
    /* Connections that tell of dead peers do not take shared memory, but each worker would make files of it in
     * /dev/shm, which a process that is killed meanwhile leaves behind. Of our context alone: others' may use it. */
    if (!getenv("UCX_TLS"))
        status = library->config_modify(config, "TLS", "^sm");
    /* The version asked for is the least that has what is called, not that of any header. */
    if (!status)
        status = library->init_version(1, 12, &params, config, &pysh_ucx.context);
    library->config_release(config);
    return status ? ucx_fail("ucp_init", status) : ISHMEMX_OK;
}

int pysh_ucx_worker_open(int pe, int n_pes) {
    pysh_ucp_worker_params_t params = {.field_mask = PYSH_UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                       .thread_mode = PYSH_UCS_THREAD_MODE_SERIALIZED};
    pysh_ucp_am_handler_param_t handler = {.field_mask = PYSH_UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                         PYSH_UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                                                         PYSH_UCP_AM_HANDLER_PARAM_FIELD_CB,
                                           .id = AM_ID,
                                           .flags = PYSH_UCP_AM_FLAG_WHOLE_MSG,
                                           .cb = on_message};
    const pysh_ucx_library_t *library;
    pysh_ucs_status_t status;
    int failed = pysh_ucx_open(&library);

    if (failed)
        return failed;
    pysh_ucx.library = library;
    pysh_ucx.pe = pe;
    pysh_ucx.n_pes = n_pes;
    pysh_ucx.peer = calloc((size_t)n_pes, sizeof *pysh_ucx.peer);
    pysh_ucx.host = calloc((size_t)n_pes, sizeof *pysh_ucx.host);
    if (!pysh_ucx.peer || !pysh_ucx.host)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", n_pes);
    atomic_store(&pysh_ucx.n_failed, 0);
    atomic_store(&pysh_ucx.closing, false);
    atomic_store(&pysh_ucx.outstanding, false);
    atomic_store(&pysh_ucx.has_news, false);
    if ((failed = make_context(library)))
        return failed;
    if ((status = library->worker_create(pysh_ucx.context, &params, &pysh_ucx.worker)))
        return ucx_fail("ucp_worker_create", status);
    if ((status = library->worker_get_efd(pysh_ucx.worker, &pysh_ucx.fd)) ||
        (status = library->worker_set_am_recv_handler(pysh_ucx.worker, &handler)))
        return ucx_fail("ucp_worker_get_efd", status);
    return ISHMEMX_OK;
}

int pysh_ucx_address(void *to, size_t capacity, size_t *nbytes_p) {
    void *address;
    size_t nbytes;
    pysh_ucs_status_t status = pysh_ucx.library->worker_get_address(pysh_ucx.worker, &address, &nbytes);

    if (status)
        return ucx_fail("ucp_worker_get_address", status);
    *nbytes_p = nbytes;
    if (nbytes <= capacity)
        memcpy(to, address, nbytes);
    pysh_ucx.library->worker_release_address(pysh_ucx.worker, address);
    if (nbytes > capacity)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "UCX describes this PE's network devices in %zu bytes, more than %zu; name those to use in "
                         "PYSHMEM_INTERFACE",
                         nbytes, capacity);
    return ISHMEMX_OK;
}

/* Begins to end the connection; what is returned is to be waited for. */
static pysh_ucp_request_t begin_close(pysh_ucx_peer_t *peer, bool force) {
    pysh_ucp_request_param_t param = {.op_attr_mask = force ? PYSH_UCP_OP_ATTR_FIELD_FLAGS : 0,
                                      .flags = force ? PYSH_UCP_EP_CLOSE_FLAG_FORCE : 0};
    pysh_ucp_request_t request = pysh_ucx.library->ep_close_nbx(peer->ep, &param);

    peer->ep = NULL;
    return pysh_ucx_is_error(request) ? NULL : request;
}

static void finish_close(pysh_ucp_request_t request, int64_t deadline_ns) {
    while (request && pysh_ucx.library->request_check_status(request) == PYSH_UCS_INPROGRESS &&
           pysh_now_ns() < deadline_ns)
        pysh_ucx.library->worker_progress(pysh_ucx.worker);
    if (request)
        pysh_ucx.library->request_free(request);
}

void pysh_ucx_cut(int pe) {
    pysh_ucx_peer_t *peer = &pysh_ucx.peer[pe];

    pysh_ucx_lock();
    fail_peer(peer, PYSH_UCS_ERR_LAST);
    if (peer->ep)
        finish_close(begin_close(peer, true), pysh_now_ns() + CLOSE_NS);
    pysh_ucx_unlock();
}

static void close_connections(bool together) {
    pysh_ucp_request_t *closing = calloc((size_t)pysh_ucx.n_pes, sizeof *closing);
    int64_t deadline_ns = pysh_now_ns() + CLOSE_NS;

    for (int pe = 0; closing && pe < pysh_ucx.n_pes; pe++) {
        pysh_ucx_peer_t *peer = &pysh_ucx.peer[pe];
        pysh_ucx_head_t bye = {.kind = PYSH_UCX_BYE};
        if (peer->ep && together)
            send_one(pe, &bye, NULL, 0, NULL);
        if (peer->ep)
            closing[pe] = begin_close(peer, !together || atomic_load(&peer->failed));
    }
    for (int pe = 0; closing && pe < pysh_ucx.n_pes; pe++)
        finish_close(closing[pe], deadline_ns);
    free(closing);
}

void pysh_ucx_worker_close(bool together) {
    pysh_ucx_serve_no_more();
    pysh_ucx_lock();
    if (together && pysh_ucx.worker)
        send_answers();
    atomic_store(&pysh_ucx.closing, true);
    if (pysh_ucx.worker) {
        close_connections(together);
        pysh_ucx.library->worker_destroy(pysh_ucx.worker);
    }
    pysh_ucx.worker = NULL;
    while (answers) {
        answer_t *answer = answers;
        answers = answer->next;
        free(answer);
    }
    last_answer = &answers;
    for (int pe = 0; pysh_ucx.peer && pe < pysh_ucx.n_pes; pe++)
        while (pysh_ucx.peer[pe].early) {
            pysh_ucx_early_t *early = pysh_ucx.peer[pe].early;
            pysh_ucx.peer[pe].early = early->next;
            free(early);
        }
    free(pysh_ucx.peer);
    free(pysh_ucx.host);
    pysh_ucx.peer = NULL;
    pysh_ucx.host = NULL;
    pysh_ucx_unlock();
}
