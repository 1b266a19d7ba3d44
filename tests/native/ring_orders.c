/* SPDX-License-Identifier: BSD-3-Clause
 * Copies that end in any order, or not for long: replies come out of order, others go on meanwhile, and quiet waits.
 * The linker puts the two functions here before those of the simulator's copy engine (--wrap). */
#include "kernel.h"

enum { COPIES = 48, WORDS = 16 };

typedef struct completion { /* pysh_completion_t */
    void *address;
    uint64_t value;
} completion_t;

static atomic_bool held, more_behind;
static atomic_int n_kept;
static completion_t kept[COPIES]; /* the replies of the first copies, which the engine does not write */

int __real_pysh_sim_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const completion_t *completions,
                                int n_completions, uint64_t *token_p);
int __wrap_pysh_sim_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const completion_t *completions,
                                int n_completions, uint64_t *token_p);
int __real_pysh_sim_engine_finished(bool *marked_p, bool *all_p);
int __wrap_pysh_sim_engine_finished(bool *marked_p, bool *all_p);

int __wrap_pysh_sim_engine_copy(int pe, void *dest, const void *source, size_t nbytes, const completion_t *completions,
                                int n_completions, uint64_t *token_p) {
    if (n_completions == 1)
        kept[atomic_fetch_add(&n_kept, 1)] = completions[0];
    return __real_pysh_sim_engine_copy(pe, dest, source, nbytes, completions, 0, token_p);
}

int __wrap_pysh_sim_engine_finished(bool *marked_p, bool *all_p) {
    int status = __real_pysh_sim_engine_finished(marked_p, all_p);

    *marked_p = *marked_p && !atomic_load(&held);
    *all_p = *all_p && *marked_p && !atomic_load(&more_behind);
    return status;
}

static bool has_reply(uint64_t ticket) {
    return (uint32_t)__atomic_load_n(done_of(ticket), __ATOMIC_ACQUIRE) == (uint32_t)(ticket + 1);
}

static void replies_come_in_any_order(uint64_t (*dest)[WORDS], uint64_t (*source)[WORDS]) {
    pysh_request_t nothing = request_of(PYSH_OP_NULL, 0, 0, 0, 0);
    uint64_t ticket[COPIES];
    bool marked, all = false;
    int status;

    for (int i = 0; i < COPIES; i++) {
        pysh_request_t request = put_of(dest[i], source[i], sizeof *source, PYSH_REQUEST_REPLY | PYSH_REQUEST_DONE);
        for (int j = 0; j < WORDS; j++)
            source[i][j] = (uint64_t)(i * WORDS + j + 1);
        ticket[i] = send_request(&request);
    }
    for (int i = 0; i < 100; i++)
        ask(nothing); /* answered while all the copies are held */
    CHECK(atomic_load(&n_kept) == COPIES);
    while (!all)
        MUST(__real_pysh_sim_engine_finished(&marked, &all));
    for (int i = 0; i < COPIES; i++) {
        int next = (i + 1) * 29 % COPIES; /* each once, up and down */
        CHECK(!has_reply(ticket[next]));
        __atomic_store_n((uint64_t *)kept[next].address, kept[next].value, __ATOMIC_RELEASE);
        await_reply(ticket[next], true, &status);
        CHECK(status == ISHMEMX_OK && !memcmp(dest[next], source[next], sizeof *source));
    }
}

/* The kernel's quiet and the host's wait for a held copy; afterwards they do not ask whether others have begun. */
static void quiet_waits_for_copies(uint64_t *dest, uint64_t *source) {
    pysh_request_t nothing = request_of(PYSH_OP_NULL, 0, 0, 0, 0), request = put_of(dest, source, 8, 0);
    uint64_t need;

    atomic_store(&held, true);
    atomic_store(&more_behind, true);
    source[0] = 4711;
    tell(&request);
    need = look(&kernel.device->pending);
    raise_to(&kernel.control->asked, need);
    for (int i = 0; i < 100; i++)
        ask(nothing);
    CHECK(look(&kernel.control->acked) < need);
    atomic_store(&held, false);
    quiet();
    CHECK(dest[0] == 4711);
    MUST(ishmemx_quiet(&ishmemx_ctx_default));
    source[0] = 4712;
    tell(&request);
    MUST(ishmemx_quiet(&ishmemx_ctx_default)); /* the kernel has not asked for this one */
    CHECK(dest[0] == 4712);
    atomic_store(&more_behind, false);
}

int main(void) {
    uint64_t (*dest)[WORDS], (*source)[WORDS];

    kernel_begin();
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, COPIES * sizeof *dest, 0, 1, (void **)&dest));
    MUST(ishmemx_malloc(ISHMEMX_HEAP_DEVICE, COPIES * sizeof *source, 0, 1, (void **)&source));
    replies_come_in_any_order(dest, source);
    quiet_waits_for_copies(*dest, *source);
    MUST(ishmemx_finalize());
    puts("ok");
    return 0;
}
