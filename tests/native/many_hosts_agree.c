/* SPDX-License-Identifier: BSD-3-Clause
 * Of many_hosts.c: barrier and exchange over UCX. The file under test knows one PE, the one whose turn it is; what it
 * keeps of each is put in place for that. */
#include "transport/ucx/agree.c"

#include "many_hosts.h"

enum { ROUNDS = 3 };

typedef struct message {
    struct message *next;
    int to, step;
    pysh_ucx_head_t head;
    char *data; /* shared with the one before, where it says the same */
    size_t nbytes;
    int *users;
} message_t;

static char *kept; /* [n_pes] of `own` */
static message_t *first, **last = &first;
static message_t recent;
static bool *speaks; /* [n_pes * n_pes] has sent something to */
static size_t nbytes_said;

pysh_ucx_t pysh_ucx;

static void put_in_place(int pe) {
    if (pysh_ucx.pe == pe)
        return;
    memcpy(kept + (size_t)pysh_ucx.pe * sizeof own, &own, sizeof own);
    memcpy(&own, kept + (size_t)pe * sizeof own, sizeof own);
    pysh_ucx.pe = pe;
}

/* ---- what the library has below ---- */

void pysh_ucx_answer(int pe, const pysh_ucx_head_t *head, const void *data, size_t nbytes) {
    message_t *made = malloc(sizeof *made);

    *made = (message_t){.to = pe, .step = step_of[pysh_ucx.pe] + 1, .head = *head, .nbytes = nbytes};
    made->head.from = pysh_ucx.pe;
    made->head.nbytes = (uint32_t)nbytes;
    if (nbytes && recent.users && *recent.users && recent.nbytes == nbytes && memcmp(recent.data, data, nbytes) == 0) {
        made->data = recent.data;
        made->users = recent.users;
    } else {
        made->data = malloc(nbytes + 1);
        made->users = calloc(1, sizeof *made->users);
        if (nbytes)
            memcpy(made->data, data, nbytes);
        recent = *made;
    }
    ++*made->users;
    *last = made;
    last = &made->next;
    count_message(pysh_ucx.pe, PYSH_UCX_HEAD_BYTES + nbytes);
    if (!speaks[(size_t)pysh_ucx.pe * (size_t)n_pes + (size_t)pe] &&
        !speaks[(size_t)pe * (size_t)n_pes + (size_t)pysh_ucx.pe])
        count.connections++;
    speaks[(size_t)pysh_ucx.pe * (size_t)n_pes + (size_t)pe] = true;
}

void pysh_ucx_send(int pe, pysh_ucx_head_t *head, const void *data, pysh_ucx_done_t *done) {
    (void)done;
    pysh_ucx_answer(pe, head, data, head->nbytes);
}

void pysh_ucx_lock(void) {}

void pysh_ucx_unlock(void) {}

void pysh_ucx_wake_all(void) {}

int pysh_ucx_flush(void) {
    return ISHMEMX_OK;
}

int pysh_ucx_lost(int pe) {
    (void)pe;
    return ISHMEMX_OK;
}

bool pysh_ucx_progress(void) {
    return false;
}

void pysh_wait_begin_barrier(pysh_wait_t *wait, const char *what, const pysh_wait_barrier_t *barrier) {
    *wait = (pysh_wait_t){.what = what, .barrier = barrier};
}

int pysh_wait_pause(pysh_wait_t *wait) {
    (void)wait;
    give_way();
    put_in_place(running);
    return ISHMEMX_OK;
}

void pysh_wait_end(pysh_wait_t *wait) {
    (void)wait;
}

int pysh_exchange_mismatch(const pysh_exchange_t *theirs, uint32_t epoch, const char *what, int pe, int other) {
    (void)theirs, (void)epoch, (void)what, (void)pe, (void)other;
    return ISHMEMX_ERR_MISMATCH;
}

/* ---- all PEs ---- */

static void deliver(message_t *message) {
    int to = message->to;

    put_in_place(to);
    count_arrival(to, message->step);
    switch (message->head.kind) {
    case PYSH_UCX_ARRIVE:
        pysh_ucx_on_arrive(&message->head, message->data);
        break;
    case PYSH_UCX_RELEASE:
        pysh_ucx_on_release(&message->head, message->data);
        break;
    default:
        CHECK(!"a message that nobody sends here");
    }
    if (--*message->users == 0) {
        if (recent.users == message->users)
            recent = (message_t){0};
        free(message->data);
        free(message->users);
    }
}

static bool deliver_all(void) {
    bool some = first;

    while (first) {
        message_t *message = first;
        first = message->next;
        if (!first)
            last = &first;
        deliver(message);
        free(message);
    }
    return some;
}

static bool always(int pe) {
    (void)pe;
    return true;
}

static int entered; /* PEs, to see that nobody comes out before all are in */

static void meet(int pe) {
    char *mine = malloc(nbytes_said + 1), *all = malloc((size_t)n_pes * nbytes_said + 1);

    put_in_place(pe);
    entered++;
    memset(mine, pe % 251, nbytes_said);
    if (nbytes_said)
        CHECK(pysh_agree_ucx.exchange("test", mine, all, nbytes_said) == ISHMEMX_OK);
    else
        CHECK(pysh_agree_ucx.barrier("test", true, NULL) == ISHMEMX_OK);
    CHECK(entered == n_pes);
    for (size_t i = 0; i < (size_t)n_pes * nbytes_said; i++)
        CHECK((unsigned char)all[i] == i / nbytes_said % 251);
    free(mine);
    free(all);
    free(own.all); /* all PEs' would take more memory than machines have */
    own.all = NULL;
    own.capacity = 0;
}

size_t meet_all(size_t said_bytes) {
    size_t nbytes = sizeof own + (size_t)n_pes * (sizeof(arrival_t) + 3 * said_bytes);

    nbytes_said = said_bytes;
    kept = calloc((size_t)n_pes, sizeof own);
    speaks = calloc((size_t)n_pes, (size_t)n_pes);
    pysh_ucx.n_pes = n_pes;
    pysh_ucx.pe = 0;
    memset(&own, 0, sizeof own);
    CHECK(pysh_ucx_agree_open() == ISHMEMX_OK);
    for (int round = 0; round < ROUNDS; round++) {
        entered = 0;
        memset(speaks, 0, (size_t)n_pes * (size_t)n_pes);
        run_all(meet, always, deliver_all);
    }
    put_in_place(0);
    pysh_ucx_agree_close();
    free(kept);
    free(speaks);
    return nbytes;
}
