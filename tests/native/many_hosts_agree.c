/* SPDX-License-Identifier: BSD-3-Clause
 * Of many_hosts.c: barrier and exchange over UCX. The file under test knows one PE, the one whose turn it is; what it
 * keeps of each is put in place for that. Nodes share nothing; where there are many, their segments are one, as those
 * of PYSHMEM_NODE_SIZE are, for each has a slot for each PE. */
#include "transport/ucx/agree.c"

#include "many_hosts.h"

enum { ROUNDS = 3, FEW_NODES = 16 };

typedef struct message {
    struct message *next;
    int to, step;
    pysh_ucx_head_t head;
    char *data; /* shared with the one before, where it says the same */
    size_t nbytes;
    int *users;
} message_t;

static char *kept; /* [n_pes] of `own` */
static int *first_of;
static pysh_control_slot_t *slots; /* [n_segments * n_pes] */
static int n_nodes, n_segments;
static message_t *first, **last = &first;
static message_t recent;
static bool *speaks; /* [n_pes * n_pes] has sent something to */
static size_t nbytes_said;
static int (*pause_of)(pysh_wait_t *wait);
static bool (*waits_no_more)(int pe);
static bool placed_in_turn; /* PEs, on one node after the other */

pysh_ucx_t pysh_ucx;
pysh_node_t pysh_node;

static void put_in_place(int pe) {
    if (pysh_ucx.pe == pe)
        return;
    memcpy(kept + (size_t)pysh_ucx.pe * sizeof own, &own, sizeof own);
    memcpy(&own, kept + (size_t)pe * sizeof own, sizeof own);
    pysh_ucx.pe = pe;
}

static bool on_host(int pe) {
    return n_segments == 1 || first_of[pe] == first_of[pysh_ucx.pe];
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

void pysh_ucx_lock(void) {}

void pysh_ucx_unlock(void) {}

void pysh_sleep_wake(_Atomic uint32_t *word, uint32_t bits) {
    (void)word, (void)bits;
}

int pysh_ucx_flush(void) {
    return ISHMEMX_OK;
}

/* Of who asks whether it may leave. */
bool pysh_ucx_progress(void) {
    give_way();
    put_in_place(running);
    pysh_ucx.n_failed = waits_no_more && waits_no_more(running);
    return false;
}

void pysh_wait_begin_barrier(pysh_wait_t *wait, const char *what, const pysh_wait_barrier_t *barrier) {
    *wait = (pysh_wait_t){.what = what, .barrier = barrier};
}

int pysh_wait_pause(pysh_wait_t *wait) {
    give_way();
    put_in_place(running);
    return pause_of ? pause_of(wait) : ISHMEMX_OK;
}

void pysh_wait_end(pysh_wait_t *wait) {
    (void)wait;
}

void pysh_exchange_begin(pysh_exchange_t *mine, uint32_t epoch, const char *routine, const void *said, size_t nbytes) {
    mine->epoch = epoch;
    mine->nbytes = (uint32_t)nbytes;
    snprintf(mine->routine, sizeof mine->routine, "%s", routine);
    memcpy(mine->bytes, said, nbytes);
}

static char their_routine[64];

int pysh_exchange_mismatch(const pysh_exchange_t *theirs, uint32_t epoch, const char *what, int pe, int other) {
    (void)epoch, (void)what, (void)pe, (void)other;
    snprintf(their_routine, sizeof their_routine, "%s", theirs->routine);
    return ISHMEMX_ERR_MISMATCH;
}

/* ---- all PEs ---- */

static void hand_over(const message_t *message) {
    static pysh_ucx_handler_t *const handlers[] = {
        [PYSH_UCX_SAID] = pysh_ucx_on_said,       [PYSH_UCX_ARRIVE] = pysh_ucx_on_arrive,
        [PYSH_UCX_LEAVE] = pysh_ucx_on_leave,     [PYSH_UCX_LEFT] = pysh_ucx_on_left,
        [PYSH_UCX_RELEASE] = pysh_ucx_on_release,
    };

    put_in_place(message->to);
    count_arrival(message->to, message->step);
    CHECK(message->head.kind >= PYSH_UCX_SAID && message->head.kind <= PYSH_UCX_RELEASE);
    handlers[message->head.kind](&message->head, message->data);
}

static void let_go_of(message_t *message) {
    if (--*message->users == 0) {
        if (recent.users == message->users)
            recent = (message_t){0};
        free(message->data);
        free(message->users);
    }
    free(message);
}

static bool deliver_all(void) {
    bool some = first;

    while (first) {
        message_t *message = first;
        first = message->next;
        if (!first)
            last = &first;
        hand_over(message);
        let_go_of(message);
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
    for (size_t i = 0; i < (size_t)n_pes * nbytes_said && is_head(); i++)
        CHECK((unsigned char)own.said[(own.passed - 1) & 1][i] == own.order[i / nbytes_said] % 251);
    free(mine);
    free(all);
}

static void open_all(int size) {
    size_t n = (size_t)n_pes;

    n_nodes = (n_pes + size - 1) / size;
    kept = calloc(n, sizeof own);
    speaks = calloc(n, n);
    first_of = calloc(n, sizeof *first_of);
    n_segments = n_nodes <= FEW_NODES ? n_pes : 1; /* by the first PE of a node */
    slots = aligned_alloc(PYSH_CACHE_LINE, (size_t)n_segments * n * sizeof *slots);
    memset(slots, 0, (size_t)n_segments * n * sizeof *slots);
    pysh_ucx.n_pes = n_pes;
    pysh_ucx.pe = 0;
    pysh_node.on_host = on_host;
    memset(&own, 0, sizeof own);
    for (int pe = 0; pe < n_pes; pe++)
        first_of[pe] = placed_in_turn ? pe % n_nodes : pe / size * size;
    for (int pe = 0; pe < n_pes; pe++) {
        put_in_place(pe);
        CHECK(pysh_ucx_agree_open(slots + (size_t)(n_segments == 1 ? 0 : first_of[pe] * n_pes), first_of) == 0);
    }
}

static void close_all(void) {
    for (int pe = 0; pe < n_pes; pe++) {
        put_in_place(pe);
        pysh_ucx_agree_close();
    }
    free(kept);
    free(speaks);
    free(first_of);
    free(slots);
}

size_t sync_all(int size, size_t said_bytes) {
    nbytes_said = said_bytes;
    open_all(size);
    for (int round = 0; round < ROUNDS; round++) {
        entered = 0;
        memset(speaks, 0, (size_t)n_pes * (size_t)n_pes);
        run_all(meet, always, deliver_all);
    }
    close_all();
    return sizeof own + (size_t)n_pes * (2 * sizeof(int) + 2 * said_bytes);
}

/* ---- meetings one behind the other, whose PEs leave, return, differ and die ---- */

typedef struct pe_state {
    int round;     /* that it is in, or behind */
    bool is_out;   /* of it, for a while */
    bool is_hasty; /* waits for no answer when it leaves */
    bool is_dead;
} pe_state_t;

static pe_state_t *state_of;
static int n_rounds, victim, death_round, odd_pe; /* -1: none */
static bool known_dead;
static int n_left, n_returned, n_gave_up, n_differed; /* what has happened, so that the test sees something */

/* What a PE says, or calls, in a round; of `odd_pe` it is something else. */
static bool exchanges_in(int round) {
    return round % 3 == 1;
}

static bool differs_in(int round) {
    return round % 7 == 5;
}

static size_t bytes_in(int round) {
    return round % 2 ? 8 : 200;
}

static bool votes_in(int round, int pe) {
    return round % 4 != 2 || pe != round % n_pes;
}

static bool is_impatient(int pe) {
    return known_dead || state_of[pe].is_hasty;
}

static int random_pause(pysh_wait_t *wait) {
    pe_state_t *state = &state_of[running];

    pysh_ucx.n_failed = is_impatient(running);
    if (known_dead)
        return ISHMEMX_ERR_PEER;
    if (any(50 * (uint32_t)n_pes) == 0)
        return ISHMEMX_ERR_TIMEOUT;
    if (any(3 * (uint32_t)n_pes) || !wait->barrier->leave(wait))
        return ISHMEMX_OK;
    n_left++;
    state->is_out = !own.counted;
    for (uint32_t turns = any(6); turns; turns--) {
        give_way();
        put_in_place(running);
    }
    if (any(3) == 0) {
        wait->has_left = true;
        return ISHMEMX_ERR_INTERRUPTED;
    }
    state->is_out = false;
    n_returned++;
    wait->barrier->come_back(wait);
    return ISHMEMX_OK;
}

static int call_in(int round, int pe, bool *all_voted_p) {
    bool exchange = exchanges_in(round), odd = differs_in(round) && pe == odd_pe;
    unsigned char mine[256], *all = malloc((size_t)n_pes * sizeof mine);
    size_t nbytes = bytes_in(round) + (odd && round % 2 ? 8 : 0);
    int status;

    memset(mine, (round * 31 + pe) % 251, sizeof mine);
    if (odd && round % 2 == 0)
        exchange = !exchange;
    if (exchange)
        status = pysh_agree_ucx.exchange(odd ? "odd" : "even", mine, all, nbytes);
    else
        status = pysh_agree_ucx.barrier(odd ? "odd" : "even", votes_in(round, pe), all_voted_p);
    for (size_t i = 0; !status && exchange && i < (size_t)n_pes * nbytes; i++)
        CHECK(all[i] == (round * 31 + (int)(i / nbytes)) % 251);
    free(all);
    return status;
}

/* Whoever passes a round: nobody is before it, nor away. */
static void check_passed(int round) {
    for (int pe = 0; pe < n_pes; pe++)
        CHECK(state_of[pe].round > round || (state_of[pe].round == round && !state_of[pe].is_out));
}

static void check_result(int round, int pe, int status, bool all_voted) {
    bool is_mixed = differs_in(round) && odd_pe >= 0 && (round % 2 == 0 || exchanges_in(round));
    bool all_vote = true;

    for (int other = 0; other < n_pes; other++)
        all_vote = all_vote && votes_in(round, other);
    CHECK(status == (is_mixed ? ISHMEMX_ERR_MISMATCH : ISHMEMX_OK));
    if (status == ISHMEMX_ERR_MISMATCH) {
        n_differed++;
        CHECK(strcmp(their_routine, pe == odd_pe ? "even" : "odd") == 0);
    } else if (!exchanges_in(round)) {
        CHECK(all_voted == all_vote);
    }
}

static void meet_at_random(int pe) {
    pe_state_t *state = &state_of[pe];

    put_in_place(pe);
    for (int round = 0; round < n_rounds;) {
        bool all_voted = false;
        int status;
        for (uint32_t turns = any(4); turns; turns--) {
            give_way();
            put_in_place(pe);
        }
        state->round = round;
        state->is_out = false;
        status = call_in(round, pe, &all_voted);
        if (status == ISHMEMX_ERR_INTERRUPTED || status == ISHMEMX_ERR_TIMEOUT || status == ISHMEMX_ERR_PEER) {
            state->is_out = !own.counted;
            n_gave_up++;
            if (status == ISHMEMX_ERR_PEER)
                return;
            continue; /* its program goes elsewhere, and comes again */
        }
        check_passed(round);
        check_result(round, pe, status, all_voted);
        round++;
    }
    state->round = n_rounds;
}

/* The victim has no more turns from some time on. That it is dead is known to the others later. */
static bool has_turns(int pe) {
    if (pe != victim || state_of[pe].round < death_round || any(3))
        return true;
    state_of[pe].is_dead = true;
    end_turns(pe);
    return false;
}

/* Messages of a PE to another are in order; those of different ones are not. */
static bool deliver_some(void) {
    for (uint32_t n = any(4); first && n; n--) {
        message_t **chosen = &first, **at = &first, *message;
        for (uint32_t steps = any(8); steps && (*chosen)->next; steps--)
            chosen = &(*chosen)->next;
        while ((*at)->to != (*chosen)->to || (*at)->head.from != (*chosen)->head.from)
            at = &(*at)->next;
        message = *at;
        *at = message->next;
        if (last == &message->next)
            last = at;
        if (!state_of[message->to].is_dead)
            hand_over(message);
        let_go_of(message);
    }
    if (victim >= 0 && state_of[victim].is_dead && any(50) == 0)
        known_dead = true;
    return first;
}

void meet_in_any_order(int size, int rounds, bool kill_one) {
    state_of = calloc((size_t)n_pes, sizeof *state_of);
    n_rounds = rounds;
    victim = kill_one && n_pes > 1 ? (int)any((uint32_t)n_pes) : -1;
    death_round = (int)any((uint32_t)rounds);
    odd_pe = n_pes > 1 && any(2) ? (int)any((uint32_t)n_pes) : -1;
    known_dead = false;
    placed_in_turn = any(2) && n_pes % size == 0;
    nbytes_said = 0;
    pause_of = random_pause;
    waits_no_more = is_impatient;
    open_all(size);
    for (int pe = 0; pe < n_pes; pe++)
        state_of[pe].is_hasty = any(8) == 0;
    run_all(meet_at_random, has_turns, deliver_some);
    deliver_all();
    for (int pe = 0; pe < n_pes && victim < 0; pe++)
        CHECK(state_of[pe].round == rounds);
    close_all();
    free(state_of);
    pause_of = NULL;
    waits_no_more = NULL;
    placed_in_turn = false;
    pysh_ucx.n_failed = 0;
}

void say_what_happened(void) {
    printf("{\"left\": %d, \"returned\": %d, \"gave_up\": %d, \"differed\": %d}\n", n_left, n_returned, n_gave_up,
           n_differed);
}
