/* SPDX-License-Identifier: BSD-3-Clause
 * What the parts of many_hosts.c share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check_or_exit.h"

typedef struct count {
    uint64_t messages, bytes;
    int connections, steps, busiest;
} count_t;
extern count_t count;
extern int n_pes, running, *step_of;

uint32_t any(uint32_t below);
/* Of a coroutine: the others have their turns. */
void give_way(void);
void turn_to(int pe);
/* It has no more, as if it had done all. */
void end_turns(int pe);
/* A PE that is not ready has no turn; `between` says whether it has something left to do. */
void run_all(void (*what)(int pe), bool (*is_ready)(int pe), bool (*between)(void));
void count_message(int from, size_t nbytes);
void count_arrival(int to, int step);

/* What PEs do, checked; the bytes that the busiest of them keeps for it. */
size_t join_all(size_t card_bytes); /* many_hosts_join.c */
/* many_hosts_agree.c: nodes of `size` PEs. */
size_t sync_all(int size, size_t said_bytes);
void meet_in_any_order(int size, int rounds, bool kill_one);
void say_what_happened(void);
