/* SPDX-License-Identifier: BSD-3-Clause
 * Teams that two threads would end at the same time, and one that is in use: the library's own team.c and dropped.c,
 * with stand-ins for what they call. The threads meet inside, where a team's contexts are looked for. */
#define _GNU_SOURCE
#include "teams/team.c"
#undef SLOTS

#include <stdio.h>
#include <unistd.h>

#include "teams/dropped.c"

pysh_state_t pysh;
static _Atomic int n_ends, n_to_meet;
static uint64_t told_slots;

int pysh_enter(void) {
    return ISHMEMX_OK;
}

int pysh_fail(int status, const char *format, ...) {
    (void)format;
    return status;
}

int pysh_team_nodes_make(ishmemx_team_t team) {
    (void)team;
    return ISHMEMX_OK;
}

void pysh_team_nodes_drop(ishmemx_team_t team) {
    (void)team;
}

void pysh_ctx_drop_team(ishmemx_team_t team) {
    if (!team)
        return;
    n_ends++;
    for (int i = 0; i < 500 && n_ends < n_to_meet; i++)
        usleep(1000);
}

static void *sweep(void *unused) {
    int pe = 0;

    (void)unused;
    pysh_teams_sweep(&pe, 1, &told_slots, sizeof told_slots);
    return NULL;
}

static void *drop(void *team) {
    pysh_team_drop(team);
    return NULL;
}

static ishmemx_team_t make(int slot) {
    int pes[1] = {0};
    ishmemx_team_t team = NULL;

    return pysh_team_make(pes, 1, slot, &team) ? NULL : team;
}

/* The slot whose team lives stays taken, and one handle is buried for one team. */
static int once(void *(*one)(void *), void *(*other)(void *)) {
    ishmemx_team_t ends = make(3), lives = make(63);
    int dead = n_dead, failed;
    pthread_t thread[2];

    n_ends = 0;
    n_to_meet = 2;
    told_slots = UINT64_C(1) << 3;
    ishmemx_team_release(ends);
    pthread_create(&thread[0], NULL, one, ends);
    pthread_create(&thread[1], NULL, other, ends);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    failed = n_ends != 1 || pysh_team_free_slots() >> 63 & 1 || !(pysh_team_free_slots() >> 3 & 1) ||
             n_dead != dead + 1 || lives->slot != 63;
    if (failed)
        printf("ended %d times, free %#llx, buried %d\n", (int)n_ends, (unsigned long long)pysh_team_free_slots(),
               n_dead - dead);
    pysh_team_drop(lives);
    return failed;
}

/* A team that is in use ends when it is not; nobody finds it meanwhile. */
static int waits_for_users(void) {
    ishmemx_team_t team = make(5), used = pysh_team_use(5);
    int failed = used != team;
    pthread_t thread;

    n_to_meet = 0;
    pthread_create(&thread, NULL, drop, team);
    for (int i = 0; i < 100; i++) { /* it is gone for others soon, and stays for who uses it */
        failed |= used->slot != 5 || !used->pes;
        usleep(1000);
    }
    failed |= pysh_team_use(5) != NULL;
    pysh_team_unuse(5);
    pysh_team_unuse(5);
    pthread_join(thread, NULL);
    failed |= used->slot != -1;
    if (failed)
        printf("a team ended while it was used, or not at all\n");
    return failed;
}

int main(void) {
    int failed = 0;

    pysh.n_pes = 1;
    atomic_store(&pysh.ready, 1);
    pysh.arena[ISHMEMX_HEAP_HOST].base = calloc(1, 256 << 20);
    free_slots = ~UINT64_C(7);
    failed |= once(sweep, sweep);
    failed |= once(sweep, drop);
    failed |= once(drop, drop);
    failed |= waits_for_users();
    if (!failed)
        printf("ok\n");
    return failed;
}
