/* SPDX-License-Identifier: BSD-3-Clause
 * How a PE waits; one loop for all waits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/node.h"

/* Looks of a PE with a core of its own, before it begins to wait: what is on its way takes less than the beginning. */
enum { PYSH_FIRST_LOOKS = 100 };

/* What a wait for words of memory is for, and what it sees of them: ">= 7, seen 5". */
typedef struct pysh_wait_aim {
    /* By the thread that waits, when the wait is slow; the text may be empty. NULL: it is for none. */
    void (*describe)(const void *of, char *text, size_t capacity);
    const void *of;
} pysh_wait_aim_t;

typedef struct pysh_wait {
    const char *what;       /* "barrier_all", "wait_until": shown to others as this PE's activity, with `aim` */
    pysh_wait_aim_t aim;    /* set after begin */
    bool for_memory;        /* any store by another PE may end it */
    pysh_activity_t kind;   /* as others see it, from when it is slow */
    bool reported;          /* it has been reported as long */
    bool may_sleep;         /* it is counted among the PE's sleepers: sleep.h */
    uint32_t ticket;        /* of its sleep */
    pysh_members_t members; /* of the collective that it belongs to */
    /* How long it lasts, less what the PE stood still, and until when that is counted. */
    int64_t waited_ns, checked_ns;
    int64_t alone_ns; /* see pysh_report_due() */
    int64_t polls, start_ns, next_check_ns, next_handlers_ns, next_liveness_ns;
    struct pysh_wait *next_slow;             /* in the list of the PE's slow waits */
    struct pysh_wait *outer;                 /* that this thread is in besides, as its handlers may wait too */
    const struct pysh_wait_barrier *barrier; /* that it is in; NULL: none */
    bool has_left;                           /* the barrier, when a pause has failed */
    bool by_main;                            /* thread of the process; set when it is slow */
    bool placed;                             /* its line of the program has been asked for */
    /* What others are shown of it, and that line, or nothing. Begin leaves them as they are: a slow wait sets them. */
    char name[PYSH_ACTIVITY_TEXT], place[PYSH_PLACE_TEXT];
} pysh_wait_t;

/* A barrier must not complete with a PE whose signal handlers run and may take it elsewhere, to finalize for one: it
 * leaves before they run and comes back after them. */
typedef struct pysh_wait_barrier {
    bool (*leave)(pysh_wait_t *wait); /* false: too late, the barrier is complete */
    void (*come_back)(pysh_wait_t *wait);
    int64_t check_ns; /* how often it is worth that */
} pysh_wait_barrier_t;

/* Begin publishes nothing until the wait turns slow. Pause idles a little, longer each time; it returns
 * non-OK when the wait must end (PEER, TIMEOUT, INTERRUPTED). End clears the published activity. */
void pysh_wait_begin(pysh_wait_t *wait, const char *what);
/* In a barrier of all PEs; pysh_wake() does not end it. */
void pysh_wait_begin_barrier(pysh_wait_t *wait, const char *what, const pysh_wait_barrier_t *barrier);
int pysh_wait_pause(pysh_wait_t *wait);
/* For who has something to do meanwhile: what can end the wait is looked at, without a pause. */
int pysh_wait_look(pysh_wait_t *wait);
void pysh_wait_end(pysh_wait_t *wait);
/* What the calling thread's waits were named by ishmemx_name_waits(); else `what`. */
const char *pysh_wait_given_name(const char *what);
/* What every wait is to move on at each turn; NULL: nothing. It must not wait itself. */
void pysh_wait_set_progress(void (*progress)(void));
/* The calling thread ends the job, or serves kernels until it has ended: its waits and calls go on in PYSH_ENDING. */
void pysh_wait_to_the_end(bool really);
bool pysh_waits_to_the_end(void);
/* What the calling thread waits in: then the caller is a signal's handler. NULL: nothing, or its first look. */
const char *pysh_wait_inside(void);
/* In PYSH_ENDING other threads' waits end with STATE. True once no thread is in one, and none is `busy`. False after a
 * while: one of them does not come out, and what waits look at must stay where it is. */
bool pysh_waits_drain(bool (*busy)(void));
/* Wakes `pe` if it sleeps in a wait for memory; after every store that a wait may be for. */
void pysh_wake(int pe);
