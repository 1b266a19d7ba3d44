/* SPDX-License-Identifier: BSD-3-Clause
 * What each request does. A handler never waits: the copy engine's work is started, and everything else is loads
 * and stores to mapped memory, or a call of the conduit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "elements.h"
#include "rings.h"

static struct {
    pthread_mutex_t mutex;
    ishmemx_handler_t function[ISHMEMX_MAX_HANDLERS];
} user = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static inline void *address(uint64_t word) {
    return (void *)(uintptr_t)word;
}

static inline pysh_outcome_t outcome(int status) {
    return (pysh_outcome_t){.status = status};
}

/* ---- bytes ---- */

static const pysh_arena_t *device_arena(void) {
    return &pysh.arena[ISHMEMX_HEAP_DEVICE];
}

static bool on_device_heap(uint64_t place, uint64_t nbytes) {
    uint64_t offset = place - (uint64_t)(uintptr_t)device_arena()->base;

    return device_arena()->base && offset < (uint64_t)device_arena()->nbytes &&
           nbytes <= (uint64_t)device_arena()->nbytes - offset;
}

/* The engine's work: its stream also writes the reply and the signal, behind the data. */
static pysh_outcome_t start_copy(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, void *dest,
                                 const void *source, const pysh_stamp_t *signal) {
    unsigned flags = pysh_request_flags(request);
    pysh_stamp_t stamp[2];
    uint64_t token = 0;
    int n = 0, status;

    if (signal)
        stamp[n++] = *signal;
    if (flags & PYSH_REQUEST_DONE)
        stamp[n++] = (pysh_stamp_t){.address = &ring->device->word[ring->n + (ticket & ring->mask)],
                                    .value = (uint32_t)(ticket + 1)};
    atomic_fetch_add_explicit(&ring->in_flight, 1, memory_order_relaxed);
    status =
        pysh.accel->offload(pysh_request_pe(request), dest, source, request->word[PYSH_WORD_VALUE], stamp, n, &token);
    if (status)
        return outcome(status);
    if (flags & PYSH_REQUEST_REPLY && !(flags & PYSH_REQUEST_DONE))
        pysh_flight_add(ring, ticket, token);
    return (pysh_outcome_t){.pending = true};
}

static pysh_outcome_t put(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    uint64_t nbytes = word[PYSH_WORD_VALUE];
    int pe = pysh_request_pe(request);
    char *peer = on_device_heap(word[PYSH_WORD_DEST], nbytes) ? device_arena()->peer[pe] : NULL;

    if (peer && nbytes && pysh.p2p)
        return start_copy(ring, ticket, request, peer + (word[PYSH_WORD_DEST] - (uintptr_t)device_arena()->base),
                          address(word[PYSH_WORD_SOURCE]), NULL);
    return outcome(pysh_put(address(word[PYSH_WORD_DEST]), address(word[PYSH_WORD_SOURCE]), nbytes, pe));
}

static pysh_outcome_t get(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    uint64_t nbytes = word[PYSH_WORD_VALUE];
    int pe = pysh_request_pe(request);
    char *peer = on_device_heap(word[PYSH_WORD_SOURCE], nbytes) ? device_arena()->peer[pe] : NULL;

    if (peer && nbytes && pysh.p2p)
        return start_copy(ring, ticket, request, address(word[PYSH_WORD_DEST]),
                          peer + (word[PYSH_WORD_SOURCE] - (uintptr_t)device_arena()->base), NULL);
    return outcome(pysh_get(address(word[PYSH_WORD_DEST]), address(word[PYSH_WORD_SOURCE]), nbytes, pe));
}

static pysh_outcome_t p(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    size_t width = (size_t)pysh_request_type(request);

    (void)ring;
    (void)ticket;
    if (width < 1 || width > 8)
        return outcome(pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel's p of %zu bytes", width));
    return outcome(pysh_put(address(request->word[PYSH_WORD_DEST]), &request->word[PYSH_WORD_VALUE], width,
                            pysh_request_pe(request)));
}

static pysh_outcome_t g(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    size_t width = (size_t)pysh_request_type(request);
    pysh_outcome_t result = {.status = ISHMEMX_OK};

    (void)ring;
    (void)ticket;
    if (width < 1 || width > 8)
        return outcome(pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel's g of %zu bytes", width));
    result.status = pysh_get(&result.value, address(request->word[PYSH_WORD_SOURCE]), width, pysh_request_pe(request));
    return result;
}

static int signal_op(const pysh_request_t *request) {
    return pysh_request_high(request) == ISHMEMX_SIGNAL_ADD ? ISHMEMX_ATOMIC_ADD : ISHMEMX_ATOMIC_SET;
}

static pysh_outcome_t put_signal(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    uint64_t nbytes = word[PYSH_WORD_VALUE], base = (uintptr_t)device_arena()->base;
    int pe = pysh_request_pe(request), status;
    char *peer = on_device_heap(word[PYSH_WORD_DEST], nbytes) ? device_arena()->peer[pe] : NULL;

    if (peer && nbytes && pysh.p2p) {
        pysh_stamp_t signal = {.address = peer + (word[PYSH_WORD_EXTRA] - base), .value = word[PYSH_WORD_EXTRA2]};
        if (pysh_request_high(request) != ISHMEMX_SIGNAL_SET || !on_device_heap(word[PYSH_WORD_EXTRA], 8))
            return outcome(
                pysh_fail(ISHMEMX_ERR_UNSUPPORTED, "a copy engine can only set a signal of the device heap"));
        return start_copy(ring, ticket, request, peer + (word[PYSH_WORD_DEST] - base), address(word[PYSH_WORD_SOURCE]),
                          &signal);
    }
    status = pysh_put(address(word[PYSH_WORD_DEST]), address(word[PYSH_WORD_SOURCE]), nbytes, pe);
    if (!status && nbytes && pysh.conduit->fence)
        status = pysh.conduit->fence();
    if (!status)
        status = pysh_amo(signal_op(request), ISHMEMX_TYPE_UINT64, address(word[PYSH_WORD_EXTRA]),
                          word[PYSH_WORD_EXTRA2], 0, pe, "sig_addr", NULL);
    return outcome(status);
}

static pysh_outcome_t strided(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    int (*move)(ishmemx_ctx_t, void *, const void *, ptrdiff_t, ptrdiff_t, size_t, size_t, size_t, int) =
        pysh_request_op(request) == PYSH_OP_IPUT ? pysh_iput : pysh_iget;

    (void)ring;
    (void)ticket;
    return outcome(move(&ishmemx_ctx_default, address(word[PYSH_WORD_DEST]), address(word[PYSH_WORD_SOURCE]),
                        (ptrdiff_t)word[PYSH_WORD_EXTRA], (ptrdiff_t)word[PYSH_WORD_EXTRA2],
                        (size_t)pysh_request_high(request), word[PYSH_WORD_VALUE], (size_t)pysh_request_type(request),
                        pysh_request_pe(request)));
}

/* ---- values ---- */

static pysh_outcome_t amo(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    int op = pysh_request_high(request), type = pysh_request_type(request);
    pysh_outcome_t result = {.status = pysh_amo_check(op, type)};

    (void)ring;
    (void)ticket;
    if (!result.status)
        result.status = pysh_amo(op, type, address(word[PYSH_WORD_DEST]), word[PYSH_WORD_VALUE], word[PYSH_WORD_EXTRA],
                                 pysh_request_pe(request), "dest", &result.value);
    if (!result.status && word[PYSH_WORD_SOURCE]) /* non-blocking fetch: the old value's place is not the reply */
        result.status = pysh_copy(address(word[PYSH_WORD_SOURCE]), &result.value, pysh_type_nbytes(type));
    return result;
}

static pysh_outcome_t null(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    (void)ring;
    (void)ticket;
    (void)request;
    return outcome(ISHMEMX_OK);
}

/* ---- messages ---- */

static void label_of(const pysh_request_t *request, char *label) {
    memcpy(label, request->word, 24);
    label[24] = '\0';
}

static void place_of(const pysh_request_t *request, char *text, size_t capacity) {
    uint64_t place = request->word[PYSH_WORD_EXTRA2];

    snprintf(text, capacity, "block %" PRIu64 ", thread %" PRIu64, place & 0xffffffff, place >> 32);
}

static pysh_outcome_t print(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    char label[25], place[64], line[160];
    int64_t value = (int64_t)request->word[PYSH_WORD_EXTRA];
    double real;
    int used;

    (void)ring;
    (void)ticket;
    label_of(request, label);
    place_of(request, place, sizeof place);
    memcpy(&real, &value, sizeof real);
    if (pysh_request_high(request) == PYSH_PRINT_INT)
        used = snprintf(line, sizeof line, "PE %d: %s = %" PRId64 " (%s)\n", pysh.pe, label, value, place);
    else if (pysh_request_high(request) == PYSH_PRINT_FLOAT)
        used = snprintf(line, sizeof line, "PE %d: %s = %.17g (%s)\n", pysh.pe, label, real, place);
    else
        used = snprintf(line, sizeof line, "PE %d: %s (%s)\n", pysh.pe, label, place);
    return outcome(write(STDOUT_FILENO, line, (size_t)used) == used
                       ? ISHMEMX_OK
                       : pysh_fail(ISHMEMX_ERR_SYSTEM, "a kernel's print did not reach stdout"));
}

/* Ends the process: its main thread may be waiting for a kernel that waits for the reply. */
static pysh_outcome_t quit(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    char label[25], place[64], why[160];
    int code = pysh_request_pe(request);

    (void)ring;
    (void)ticket;
    label_of(request, label);
    place_of(request, place, sizeof place);
    snprintf(why, sizeof why, "a kernel called abort(%d): %s (%s)", code, label, place);
    pysh.conduit->abort(code, why);
    dprintf(STDERR_FILENO, "PE %d: %s\n", pysh.pe, why);
    _exit(code);
}

static pysh_outcome_t call(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    int number = pysh_request_high(request);
    const int64_t *argument = (const int64_t *)(const void *)request->word;
    ishmemx_handler_t function = NULL;

    (void)ring;
    (void)ticket;
    if (number >= 0 && number < ISHMEMX_MAX_HANDLERS) {
        pthread_mutex_lock(&user.mutex);
        function = user.function[number];
        pthread_mutex_unlock(&user.mutex);
    }
    if (!function)
        return outcome(pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel called handler %d, which is not registered", number));
    return (pysh_outcome_t){.value = (uint64_t)function(argument[0], argument[1], argument[2], argument[3])};
}

int ishmemx_register_handler(ishmemx_handler_t function, int *number) {
    int status = ISHMEMX_ERR_MEMORY;

    if (!function)
        return pysh_fail(ISHMEMX_ERR_ARGUMENT, "the handler is a null pointer");
    pthread_mutex_lock(&user.mutex);
    for (int i = 0; status && i < ISHMEMX_MAX_HANDLERS; i++)
        if (!user.function[i]) {
            user.function[i] = function;
            *number = i;
            status = ISHMEMX_OK;
        }
    pthread_mutex_unlock(&user.mutex);
    return status ? pysh_fail(status, "there are %d handlers already", ISHMEMX_MAX_HANDLERS) : status;
}

int ishmemx_unregister_handler(int number) {
    bool known = false;

    if (number >= 0 && number < ISHMEMX_MAX_HANDLERS) {
        pthread_mutex_lock(&user.mutex);
        known = user.function[number] != NULL;
        user.function[number] = NULL;
        pthread_mutex_unlock(&user.mutex);
    }
    return known ? ISHMEMX_OK : pysh_fail(ISHMEMX_ERR_ARGUMENT, "handler %d is not registered", number);
}

static pysh_outcome_t waiting(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    const uint64_t *word = request->word;
    pysh_kernel_wait_t wait = {.gave_up = word[PYSH_WORD_DEST] >> 32,
                               .meets = pysh_request_high(request),
                               .pe = pysh_request_pe(request),
                               .expected = (int64_t)word[PYSH_WORD_SOURCE]};
    char kernel[64], routine[32], whom[24] = "", place[40], rings[96]; /* with the rest: no more than wait.text */
    int status = ISHMEMX_OK;

    (void)ring;
    (void)ticket;
    pysh_name_get(ISHMEMX_NAME_KERNEL, (int64_t)word[PYSH_WORD_EXTRA], kernel, sizeof kernel);
    pysh_name_get(ISHMEMX_NAME_ROUTINE, (int64_t)(word[PYSH_WORD_DEST] & 0xffff), routine, sizeof routine);
    if (wait.pe >= 0)
        snprintf(whom, sizeof whom, " from PE %d", wait.pe);
    place_of(request, place, sizeof place);
    pysh_proxy_describe(rings, sizeof rings);
    snprintf(wait.text, sizeof wait.text, "kernel %s, %s, %s for %" PRId64 "%s, seen %" PRId64 "; %s", kernel, place,
             routine, wait.expected, whom, (int64_t)word[PYSH_WORD_VALUE], rings);
    if (pysh.conduit->kernel_waits)
        status = pysh.conduit->kernel_waits(&wait);
    if (status) { /* why first: the kernel may be over a moment later, and its host look */
        pysh_ring_complain(PYSH_OP_WAITING, wait.pe, status);
        pysh_end_kernel_waits();
    }
    return outcome(ISHMEMX_OK);
}

/* ---- the table ---- */

static const struct {
    pysh_outcome_t (*handle)(pysh_ring_t *, uint64_t, const pysh_request_t *);
    bool has_pe, moves_bytes;
    bool timed; /* reading the clock twice would be most of the others' time */
} handlers[PYSH_OP_COUNT] = {
    [PYSH_OP_NULL] = {null, false, false, false},
    [PYSH_OP_PUT] = {put, true, true, true},
    [PYSH_OP_GET] = {get, true, true, true},
    [PYSH_OP_IPUT] = {strided, true, false, true},
    [PYSH_OP_IGET] = {strided, true, false, true},
    [PYSH_OP_P] = {p, true, false, false},
    [PYSH_OP_G] = {g, true, false, false},
    [PYSH_OP_AMO] = {amo, true, false, false},
    [PYSH_OP_PUT_SIGNAL] = {put_signal, true, true, true},
    [PYSH_OP_PRINT] = {print, false, false, false},
    [PYSH_OP_ABORT] = {quit, false, false, false},
    [PYSH_OP_CALL] = {call, false, false, true},
    [PYSH_OP_WAITING] = {waiting, false, false, false},
};

static pysh_outcome_t checked(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request, int op) {
    int pe = pysh_request_pe(request);

    if (op <= 0 || op >= PYSH_OP_COUNT)
        return outcome(pysh_fail(ISHMEMX_ERR_ARGUMENT, "a kernel sent a request with the unknown operation %d", op));
    if (handlers[op].has_pe && (unsigned)pe >= (unsigned)pysh.n_pes)
        return outcome(pysh_check_pe(pe, pysh.n_pes));
    return handlers[op].handle(ring, ticket, request);
}

pysh_outcome_t pysh_ring_handle(pysh_ring_t *ring, uint64_t ticket, const pysh_request_t *request) {
    int op = pysh_request_op(request), row = op > 0 && op < PYSH_OP_COUNT ? op : 0;
    int64_t start = handlers[row].timed ? pysh_now_ns() : 0;
    pysh_outcome_t result;

    /* Before the handler: who has seen the engine's reply sees the count. */
    pysh_ring_count(&ring->stats.requests[row], 1);
    if (handlers[row].moves_bytes)
        pysh_ring_count(&ring->stats.bytes[row], (int64_t)request->word[PYSH_WORD_VALUE]);
    result = checked(ring, ticket, request, op);
    if (start)
        pysh_ring_count(&ring->stats.ns[row], pysh_now_ns() - start);
    return result;
}
