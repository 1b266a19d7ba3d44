/* SPDX-License-Identifier: BSD-3-Clause
 * The transport over UCX: PEs of one host share memory as on the shm conduit, all others are reached by messages. It
 * joins in two steps: all PEs learn all cards, then those of a host meet at its socket. Where nothing names a meeting
 * point of several hosts all PEs are on this one, and tell each other their cards in the segment that they share; with
 * PYSHMEM_NODE_SIZE parts of them then behave as hosts do. */
#define _GNU_SOURCE
#include "transport/ucx/start.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "agree/shared_memory.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/state.h"
#include "base/status.h"
#include "join/hello.h"
#include "join/join.h"
#include "node/control.h"
#include "node/liveness.h"
#include "node/node.h"
#include "node/sleep.h"
#include "transport/mapped/host.h"
#include "transport/ucx/agree.h"
#include "transport/ucx/fork.h"
#include "transport/ucx/transfer.h"
#include "transport/ucx/ucx.h"

#define CARD_BYTES 2048
#define PUSH_NS    (500 * 1000 * 1000LL) /* for an abort to leave */

typedef struct card {
    uint64_t key;
    pysh_hello_t hello;
    char host[64];     /* its name, for messages */
    char identity[64]; /* what PEs of one host have in common: it, or what the launcher says */
    int64_t node_size; /* PYSHMEM_NODE_SIZE */
    uint32_t ucx_major, ucx_minor, address_nbytes;
    char address[];
} card_t;

_Static_assert(sizeof(card_t) + 512 <= CARD_BYTES, "there is room for an address");

static struct {
    char *cards; /* [n_pes * CARD_BYTES], for as long as the worker is open */
    int *pes;    /* [n] of this host */
    bool told_news;
    pid_t owner;
} own;

static card_t *card_of(int pe) {
    return (card_t *)(void *)(own.cards + (size_t)pe * CARD_BYTES);
}

/* ---- the end of PEs ---- */

static bool on_host(int pe) {
    return strcmp(card_of(pe)->identity, card_of(pysh_ucx.pe)->identity) == 0;
}

static const char *host_name(int pe) {
    return pysh_ucx.host[pe];
}

/* `near` too: those of this host as well. */
static void tell_others(enum pysh_ucx_kind kind, bool near, uint32_t word, const char *text, pysh_ucx_done_t *done) {
    pysh_ucx_lock();
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++) {
        pysh_ucx_head_t head = {.kind = (uint8_t)kind, .value = word, .nbytes = (uint32_t)strlen(text) + 1};
        if (!on_host(pe) || (near && pe != pysh_ucx.pe))
            pysh_ucx_send(pe, &head, text, done);
    }
    pysh_ucx_unlock();
}

static void copy_text(char *to, size_t capacity, const pysh_ucx_head_t *head, const void *data) {
    snprintf(to, capacity, "%.*s", (int)head->nbytes, (const char *)data);
}

void pysh_ucx_on_abort(const pysh_ucx_head_t *head, const void *data) {
    char why[512];

    copy_text(why, sizeof why, head, data);
    pysh_control_set_abort(pysh_host.control, (uint32_t)head->value, head->from, why);
    pysh_shm_wake_all(pysh_host.control);
}

void pysh_ucx_on_news(const pysh_ucx_head_t *head, const void *data) {
    if (atomic_load(&pysh_ucx.has_news))
        return;
    copy_text(pysh_ucx.news, sizeof pysh_ucx.news, head, data);
    /* release: pairs with the acquire in ucx_liveness() */
    atomic_store_explicit(&pysh_ucx.has_news, true, memory_order_release);
}

/* What this PE knows of a dead one others may not: they have no connection there, or no sight of its process. */
static void tell_news(const char *text, bool near) {
    if (own.told_news)
        return;
    own.told_news = true;
    tell_others(PYSH_UCX_NEWS, near, 0, text, NULL);
}

/* A PE of this host that is gone, by its process. */
static int gone_here(void) {
    for (int i = 0; i < pysh_host.n; i++) {
        const pysh_control_slot_t *slot = &pysh_host.control->slot[pysh_host.pes ? pysh_host.pes[i] : i];
        pysh_process_t process = pysh_control_process(slot);
        if (slot != pysh_host.slot && pysh_process_ended(&process) && atomic_load(&slot->state) == PYSH_PE_RUNNING)
            return pysh_host.pes ? pysh_host.pes[i] : i;
    }
    return -1;
}

static int ucx_liveness(void) {
    char text[256], during[PYSH_ACTIVITY_TEXT + 32];
    int status = pysh_host_liveness(), pe;

    if (status) {
        if (!pysh_control_abort_reason(pysh_host.control) && (pe = gone_here()) >= 0) {
            snprintf(text, sizeof text, "PE %d on host %s died", pe, host_name(pe));
            tell_news(text, false);
        }
        return status;
    }
    pysh_control_during(pysh_host.slot, during, sizeof during);
    if (atomic_load_explicit(&pysh_ucx.has_news, memory_order_acquire))
        return pysh_fail(ISHMEMX_ERR_PEER, "%s%s", pysh_ucx.news, during);
    if (!atomic_load(&pysh_ucx.n_failed) || (pe = pysh_ucx_first_lost()) < 0)
        return ISHMEMX_OK;
    snprintf(text, sizeof text, "PE %d on host %s died or cannot be reached", pe, host_name(pe));
    tell_news(text, true); /* at once, as this PE may end before it tells its own program */
    return pysh_ucx_lost(pe);
}

/* Does not wait for the others: they may serve nobody any more. */
static void ucx_abort(uint32_t word, const char *why) {
    const struct timespec moment = {.tv_nsec = 1000 * 1000};
    int64_t deadline_ns = pysh_now_ns() + PUSH_NS;
    static pysh_ucx_done_t left; /* the text may be read after this call */
    static char reason[512];

    pysh_control_set_abort(pysh_host.control, word, pysh_host.pe, why);
    pysh_shm_wake_all(pysh_host.control);
    snprintf(reason, sizeof reason, "%s", why);
    tell_others(PYSH_UCX_ABORT, false, word, reason, &left);
    do {
        pysh_ucx_progress();
        nanosleep(&moment, NULL);
    } while (atomic_load(&left.left) && pysh_now_ns() < deadline_ns);
}

static void ucx_progress(void) {
    pysh_ucx_progress();
}

/* ---- cards ---- */

static int fill_card(const ishmemx_config_t *config, card_t *card) {
    const char *identity, *origin;
    size_t nbytes;
    int status;

    if (getrandom(&card->key, sizeof card->key, 0) != sizeof card->key)
        return pysh_fail(ISHMEMX_ERR_SYSTEM, "no random numbers");
    pysh_hello_fill(config, &card->hello);
    gethostname(card->host, sizeof card->host - 1);
    if ((status = ishmemx_setting("HOST", &identity, &origin)) ||
        (status = ishmemx_setting_number("NODE_SIZE", &card->node_size)))
        return status;
    snprintf(card->identity, sizeof card->identity, "%s", *identity ? identity : card->host);
    card->ucx_major = pysh_ucx.library->major;
    card->ucx_minor = pysh_ucx.library->minor;
    status = pysh_ucx_address(card->address, CARD_BYTES - sizeof *card, &nbytes);
    card->address_nbytes = (uint32_t)nbytes;
    pysh_ucx.key = card->key;
    return status;
}

/* All have the same cards, so all fail alike. */
static int compare_cards(void) {
    const card_t *first = card_of(0);

    for (int pe = 1; pe < pysh_ucx.n_pes; pe++) {
        const card_t *card = card_of(pe);
        if (strncmp(card->hello.version, first->hello.version, sizeof first->hello.version))
            return pysh_hello_mismatch(&card->hello, &first->hello);
        if (card->ucx_major != first->ucx_major || card->ucx_minor != first->ucx_minor)
            return pysh_fail(
                ISHMEMX_ERR_MISMATCH,
                "PE %d on host %s has UCX %u.%u, PE 0 on host %s has %u.%u; install one version for all PEs, "
                "or name it in PYSHMEM_UCX_LIBRARY",
                pe, card->host, card->ucx_major, card->ucx_minor, first->host, first->ucx_major, first->ucx_minor);
        if (pysh_hello_heaps(&card->hello, &first->hello))
            return ISHMEMX_ERR_MISMATCH;
    }
    return ISHMEMX_OK;
}

static void take_cards(void) {
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++) {
        pysh_ucx.peer[pe].address = card_of(pe)->address;
        pysh_ucx.peer[pe].key = card_of(pe)->key;
        snprintf(pysh_ucx.host[pe], sizeof pysh_ucx.host[pe], "%s", card_of(pe)->host);
    }
}

/* ---- joining ---- */

/* The first PE of each PE's node, which has those of its host; with PYSHMEM_NODE_SIZE neighbours of them. All go by
 * what PE 0 has set, until they find out that others have not: agree/nodes.c. NULL: no memory. */
static int *find_nodes(void) {
    int *first = malloc((size_t)pysh_ucx.n_pes * sizeof *first);
    int64_t size = card_of(0)->node_size;

    for (int pe = 0; first && pe < pysh_ucx.n_pes; pe++) {
        int head = 0;
        while (head < pe && (first[head] != head || strcmp(card_of(head)->identity, card_of(pe)->identity) != 0 ||
                             (size && head / size != pe / size)))
            head++;
        first[pe] = head;
    }
    return first;
}

static int agree_open(void) {
    int *first = find_nodes();
    int status = first ? pysh_ucx_agree_open(pysh_host.control->slot, first)
                       : pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", pysh_ucx.n_pes);

    free(first);
    return status;
}

static int meet_across_hosts(const pysh_join_t *join, const ishmemx_config_t *config, const card_t *mine) {
    int status = join->exchange(config, mine, own.cards, CARD_BYTES), n = 0, index = 0;
    ishmemx_config_t here = *config;
    char job[512];

    if (status || (status = compare_cards()))
        return status;
    take_cards();
    for (int pe = 0; pe < pysh_ucx.n_pes; pe++)
        if (on_host(pe)) {
            index = pe == config->pe ? n : index;
            own.pes[n++] = pe;
        }
    /* Two launchers of a job may be on one machine, and the PEs of each meet by themselves. */
    snprintf(job, sizeof job, "%s.%s", config->job, mine->identity);
    here.job = job;
    return pysh_host_open(&here, own.pes, n, index);
}

static int meet_on_host(const ishmemx_config_t *config, const card_t *mine) {
    int status;

    if (pysh.several_hosts)
        return pysh_fail(ISHMEMX_ERR_UNSUPPORTED,
                         "the launcher put the %d PEs on several hosts, and nothing says where they meet: start them "
                         "with `python -m pyshmem run --hosts`, or by srun with --mpi=pmi2 or --mpi=pmix, or set "
                         "PYSHMEM_RENDEZVOUS and PYSHMEM_SECRET%s",
                         config->n_pes, pysh.one_host_advice);
    if ((status = pysh_host_open(config, NULL, config->n_pes, config->pe)))
        return status;
    pysh_shm_agree(pysh_host.control, config->pe);
    if ((status = pysh_host_watch()))
        return status;
    pysh_node.liveness = pysh_host_liveness;
    if ((status = pysh_agree_shm.exchange("init", mine, own.cards, CARD_BYTES)) || (status = compare_cards()))
        return status;
    take_cards();
    pysh_node_close();
    pysh_peers_unwatch();
    return ISHMEMX_OK;
}

static int node_open(void) {
    int status = pysh_host_watch();

    pysh_ucx.may_spin = pysh_host.n <= pysh_cores();
    pysh_node.liveness = ucx_liveness;
    pysh_node.abort = ucx_abort;
    pysh_node.on_host = on_host;
    pysh_node.host = host_name;
    pysh_node.progress = ucx_progress;
    pysh_node.awake = pysh_ucx_awake;
    pysh_node.asleep = pysh_ucx_asleep;
    pysh_node.linger = pysh_ucx_linger;
    return status;
}

static int join(const ishmemx_config_t *config) {
    const pysh_join_t *way = pysh_join_find();
    char bytes[CARD_BYTES] = {0};
    card_t *mine = (card_t *)(void *)bytes;
    int status = pysh_ucx_worker_open(config->pe, config->n_pes);

    if (status)
        return status;
    own.cards = calloc((size_t)config->n_pes, CARD_BYTES);
    own.pes = calloc((size_t)config->n_pes, sizeof *own.pes);
    if (!own.cards || !own.pes)
        return pysh_fail(ISHMEMX_ERR_MEMORY, "no memory to meet %d PEs", config->n_pes);
    if ((status = fill_card(config, mine)) ||
        (status = way ? meet_across_hosts(way, config, mine) : meet_on_host(config, mine)))
        return status;
    pysh_sleep_prepare();
    pysh.agree = &pysh_agree_ucx;
    if ((status = node_open()) || (status = agree_open()) || (status = pysh_ucx_serve_in_background()))
        return status;
    return pysh_agree_ucx.barrier("init", false, NULL);
}

/* ---- the table ---- */

static void forget_job(bool together) {
    pysh_ucx_worker_close(together);
    pysh_ucx_agree_close();
    pysh_ucx_forget();
    own.told_news = false;
}

static void forget_cards(void) {
    free(own.cards);
    free(own.pes);
    own.cards = NULL;
    own.pes = NULL;
}

/* A program that ends without finalize: its thread must not be in UCX when that is taken apart. */
static void at_exit(void) {
    if (own.owner == getpid())
        pysh_ucx_serve_no_more();
}

/* A child of this process only: what a child of that has under these numbers is its own affair. */
static void in_child(void) {
    if (pysh_ucx.worker && own.owner == getppid())
        pysh_ucx_let_go(pysh_ucx.fd);
}

static int ucx_open(const ishmemx_config_t *config, int *pe_p, int *n_pes_p) {
    int status = join(config);

    if (status) {
        forget_job(false);
        if (pysh_host.control)
            pysh_host_open_failed();
        forget_cards();
        return status;
    }
    if (!own.owner) {
        atexit(at_exit);
        pthread_atfork(NULL, NULL, in_child);
    }
    own.owner = getpid();
    *pe_p = config->pe;
    *n_pes_p = config->n_pes;
    return ISHMEMX_OK;
}

static void ucx_close(const int64_t *blocks) {
    bool together = pysh_ucx_ended_together() && !atomic_load(&pysh_host.control->aborted);

    pysh_host_leave();
    forget_job(together);
    pysh_host_close(blocks);
    forget_cards();
}

/* Of what this host's PEs share, those of other nodes are not for this one's loads and stores. */
static int ucx_arena(int heap, int64_t nbytes, char **base_p, char **peer) {
    int status = pysh_host_arena(heap, nbytes, base_p, peer);

    for (int pe = 0; !status && pe < pysh_ucx.n_pes; pe++)
        if (!pysh_near(pe))
            peer[pe] = NULL;
    return status;
}

static bool reaches(const void *address, size_t nbytes, int pe) {
    (void)address, (void)nbytes, (void)pe;
    return true; /* the owner does it, in its own */
}

const pysh_transport_t pysh_transport_ucx = {
    .name = "ucx",
    .open = ucx_open,
    .close = ucx_close,
    .leave = pysh_host_leave,
    .arena = ucx_arena,
    .arena_file = pysh_host_arena_file,
    .give_back = pysh_host_give_back,
    .put = pysh_ucx_put,
    .get = pysh_ucx_get,
    .amo = pysh_ucx_amo,
    .raise = pysh_ucx_raise,
    .post = pysh_ucx_post,
    .flush = pysh_ucx_flush,
    .in_order = true,
    .outstanding = pysh_ucx_outstanding,
    .reaches = reaches,
};
