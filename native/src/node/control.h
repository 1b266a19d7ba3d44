/* SPDX-License-Identifier: BSD-3-Clause
 * The control segment of a job on one host: what its PEs, and the launcher post mortem, know about
 * each other. A header, then a slot a PE. Words of a slot are written by its PE, except `sleeping`. */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/process.h"
#include "base/state.h"
#include "join/hello.h"
#include "node/node.h"

#define PYSH_ACTIVITY_WORDS (PYSH_ACTIVITY_TEXT / 8)

/* The word `aborted`; a PE's abort ends with the job, the launcher's is for good. */
enum { PYSH_ABORT_NONE = 0, PYSH_ABORT_IN_WRITING = PYSH_ALARM_RISES, PYSH_ABORT_BY_PE, PYSH_ABORT_BY_LAUNCHER };
/* LEFT: its process ends in the middle of the job, with the exit status 0. */
enum pysh_pe_state { PYSH_PE_ABSENT = 0, PYSH_PE_RUNNING, PYSH_PE_FINALIZED, PYSH_PE_LEFT };

/* The word `arrivals` of the barrier of many PEs: the running epoch, and three counts of ten bits of the PEs that
 * arrived, that voted true, that came from an exchange. */
#define PYSH_ARRIVAL     1ULL
#define PYSH_VOTE        (1ULL << 10)
#define PYSH_EXCHANGE    (1ULL << 20)
#define PYSH_COUNT_MASK  0x3ffULL
#define PYSH_EPOCH_SHIFT 32
/* The word `released`: epochs completed, and two bits about the last one. */
#define PYSH_ALL_VOTED     1ULL
#define PYSH_MIXED         2ULL /* some PEs came from an exchange, others did not */
#define PYSH_RELEASE_SHIFT 2

/* The words `arrived` of the barrier of few PEs: two bits, how often the PE has left a barrier, the epoch. While a PE
 * decides whether it leaves its word is the epoch with the highest bit; 0: it is not there. A count that wraps
 * between two looks of another PE, after 4096 times of at least 10 ms, would hide that the PE was away. */
#define PYSH_FEW_PES       8
#define PYSH_FEW_VOTE      1ULL
#define PYSH_FEW_EXCHANGE  2ULL
#define PYSH_FEW_LEFT      4ULL /* a time that the PE has left */
#define PYSH_FEW_LEFT_MASK 0xfffULL
#define PYSH_ARRIVED_SHIFT 14
#define PYSH_FEW_LEAVING   (1ULL << 63)

typedef struct pysh_exchange {
    alignas(PYSH_CACHE_LINE) uint32_t epoch; /* tells, as nbytes, that all PEs are in the same exchange */
    uint32_t nbytes;
    uint32_t barrier; /* the epoch of a plain barrier that says its routine, too */
    char routine[PYSH_CACHE_LINE - 3 * sizeof(uint32_t)];
    alignas(PYSH_CACHE_LINE) unsigned char bytes[PYSH_EXCHANGE_BYTES];
} pysh_exchange_t;

/* What a kernel of a PE waits for, or gave up. */
typedef struct pysh_posted_wait {
    int64_t posted_ns, since_ns;      /* CLOCK_MONOTONIC: posted last, and first of this wait; posted_ns 0: nothing */
    int64_t state;                    /* enum pysh_kernel_state */
    int64_t collective, pe, expected; /* see pysh_kernel_wait_t */
    char text[PYSH_WAIT_TEXT];
} pysh_posted_wait_t;

/* How PEs of one node meet those of others: in the slot of the first of them, see transport/ucx/agree.c. */
typedef struct pysh_gathering {
    alignas(PYSH_CACHE_LINE) _Atomic uint64_t arrivals; /* as those of the barrier of many PEs, and two bits */
    uint64_t about;                                     /* of the last epoch, as the word `released` has it */
    int32_t differ[2];                                  /* if it is MIXED: of two PEs */
} pysh_gathering_t;

/* Where a PE posts it: one thread at a time writes, see base/versioned.h. */
typedef struct pysh_board {
    _Atomic uint64_t version;
    _Atomic uint64_t word[sizeof(pysh_posted_wait_t) / 8];
    /* 1 + the PE whose host is in a collective that the kernel waits in, which says so here; -1: while it writes `in`;
     * 0: none, and that PE's to take. */
    _Atomic int32_t refused_by;
    _Atomic uint64_t
        in[PYSH_ACTIVITY_WORDS]; /* its collective, " at " and the line: terminated, from before refused_by */
} pysh_board_t;

typedef struct pysh_control_slot {
    /* Futex: see sleep.h. */
    alignas(PYSH_CACHE_LINE) _Atomic uint32_t sleeping;
    /* Barrier of few PEs: where this PE has arrived, by the parity of the epoch, so that a PE that is in the
     * next one leaves readable what the others may not have seen yet. */
    alignas(PYSH_CACHE_LINE) _Atomic uint64_t arrived[2];
    alignas(PYSH_CACHE_LINE) _Atomic uint32_t state; /* enum pysh_pe_state */
    _Atomic int32_t pid;
    _Atomic int32_t core;        /* 1 + the one that a thread which polls or waits was seen on last; 0: none yet */
    _Atomic int64_t reported_ns; /* see pysh_control_claim_report(); used by the PEs of the host */
    _Atomic int32_t launches;    /* that its threads are in: such a launch returns when its kernel has ended */
    uint64_t passed, left;       /* epochs of the barrier of few PEs, times left; own PE only */
    _Atomic uint64_t pid_namespace, pid_start;      /* with pid: which process, see process.h */
    _Atomic uint64_t activity_version;              /* of the two below: base/versioned.h */
    _Atomic int64_t activity_ns;                    /* since when, CLOCK_MONOTONIC; 0: not waiting */
    _Atomic uint32_t activity_kind;                 /* enum pysh_activity, of that wait */
    _Atomic int64_t polled_ns;                      /* when a loop of tests was seen to go on; 0: it is none */
    _Atomic uint64_t activity[PYSH_ACTIVITY_WORDS]; /* text, not always terminated */
    /* Two buffers by the parity of the epoch that the barrier after the writing begins: the one of
     * epoch e is written again for e + 2, and nobody gets there before all have read it. */
    pysh_exchange_t exchange[2];
    pysh_gathering_t gathering; /* of the PE's node, if it is the first there */
    alignas(PYSH_CACHE_LINE) pysh_board_t board;
} pysh_control_slot_t;

typedef struct pysh_control {
    uint64_t magic;
    int32_t n_pes;
    uint32_t few; /* 1: the barrier is that of few PEs; decided by PE 0 for all */
    _Atomic uint32_t aborted;
    int32_t failed; /* 1 + the PE that aborted; 0: the launcher. As `why`, from before `aborted` says so */
    char why[512];
    /* Counter and release word change at different times: waiters poll only the second. */
    alignas(PYSH_CACHE_LINE) _Atomic uint64_t arrivals; /* see PYSH_ARRIVAL */
    alignas(PYSH_CACHE_LINE) _Atomic uint64_t released; /* see PYSH_ALL_VOTED */
    _Atomic uint32_t sleepers;                          /* threads in a wait that may sleep */
    alignas(PYSH_CACHE_LINE) pysh_control_slot_t slot[];
} pysh_control_t;

static_assert(sizeof(pysh_posted_wait_t) % 8 == 0, "it is copied as words");
static_assert(sizeof(pysh_control_slot_t) % PYSH_CACHE_LINE == 0, "slots keep to their cache lines");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics work between processes");

/* Maps the segment behind `fd`; n_pes 0 accepts any number, else a segment of another size fails. */
int pysh_control_map(int fd, int n_pes, pysh_control_t **control_p);
/* Says in the own buffer that this PE is in the exchange that ends `epoch`. */
void pysh_exchange_begin(pysh_exchange_t *own, uint32_t epoch, const char *routine, const void *mine, size_t nbytes);
/* A plain barrier's routine, for who is in an exchange meanwhile. Before the arrival, as above. */
void pysh_exchange_name_barrier(pysh_exchange_t *own, uint32_t epoch, const char *routine);
/* Fails: `pe` called `what`, and `other` something else, by its buffer: the routine if it is told there. */
int pysh_exchange_mismatch(const pysh_exchange_t *theirs, uint32_t epoch, const char *what, int pe, int other);
void pysh_control_unmap(pysh_control_t *control);
/* Everything as after creation, but an abort by the launcher stays. By one process, while no other uses the segment. */
void pysh_control_reset(pysh_control_t *control);

/* The process that the PE is. It is told before the state says RUNNING. */
void pysh_control_set_process(pysh_control_slot_t *slot, const pysh_process_t *process);
pysh_process_t pysh_control_process(const pysh_control_slot_t *slot);
/* Notes the core that the calling thread is on. Was another PE of the host seen there last? True where nothing is
 * known. */
bool pysh_control_shares_core(pysh_control_slot_t *own, pysh_control_slot_t *const *slots, int n_pes);
/* NULL: not waiting. One thread at a time. */
/* The line of the program at which the PE waits, or nothing. */
void pysh_control_place(const pysh_control_slot_t *slot, char *text, size_t capacity);
void pysh_control_set_activity(pysh_control_slot_t *slot, const char *what, int64_t since_ns, pysh_activity_t kind);
/* " while this PE was in barrier_all", or nothing when it does not wait. */
void pysh_control_during(const pysh_control_slot_t *slot, char *text, size_t capacity);
/* How a PE stands to others' waits for memory: see pysh_node_nobody_left(). */
pysh_standing_t pysh_control_standing(const pysh_control_slot_t *slot);
/* One line on where a PE stands, and its kernel. */
void pysh_control_describe_slot(const pysh_control_slot_t *slot, char *text, size_t capacity);
/* The first reason stays; `pe` is whose failure it is, -1: no PE's. */
void pysh_control_set_abort(pysh_control_t *control, uint32_t by, int pe, const char *why);
/* The reason, once there is one, else NULL. */
const char *pysh_control_abort_reason(const pysh_control_t *control);
/* See pysh_node_claim_report(); `word`, of one PE of the host, is when the last report was. */
bool pysh_control_claim_report(_Atomic int64_t *word, int64_t since_ns);
