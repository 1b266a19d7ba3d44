/* SPDX-License-Identifier: BSD-3-Clause
 * How nodes meet: the first PE of each, its head, speaks for it, and heads are a binomial tree. Node h tells the node
 * that has the number of h without its lowest bit, once it and all that tell it are there. The two at the top, node 0
 * and the one with the highest bit alone, tell each other, so that of two nodes each knows after one message. What has
 * come about goes down the same way: 2 (nodes - 1) messages, and 2 log2(nodes) - 1 of them one behind the other.
 *
 * A node may leave before all are there. Where its arrival has been passed on, the question goes up to where it has
 * not, and the answer comes down. Messages between two heads are in order, so of a release and of an answer that says
 * "too late" the first is the first. No function waits, so handlers of messages may call them; one thread at a time.
 * tests/model/tree_model.py has every order of the messages of few nodes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYSH_TREE_CHILDREN  31
#define PYSH_SAYS_NOTHING   UINT32_MAX
#define PYSH_ROUTINE_NBYTES 48

/* What a PE is in. */
typedef struct pysh_arrival {
    int32_t pe;
    uint32_t nbytes; /* that it says in an exchange; SAYS_NOTHING: it is in a barrier */
    char routine[PYSH_ROUTINE_NBYTES];
} pysh_arrival_t;

/* What is known of those who are there: the bits PYSH_ALL_VOTED and PYSH_MIXED; one of them, and if MIXED another that
 * is in something else. */
typedef struct pysh_met {
    uint64_t about;
    pysh_arrival_t one[2];
} pysh_met_t;

enum pysh_tree_kind {
    PYSH_TREE_ARRIVE,
    PYSH_TREE_RELEASE,
    PYSH_TREE_LEAVE, /* may the sender's nodes leave? */
    PYSH_TREE_LEFT   /* the answer */
};

typedef struct pysh_tree_message {
    enum pysh_tree_kind kind;
    uint64_t epoch;
    uint64_t question;     /* of LEAVE and LEFT */
    bool is_out;           /* of LEFT */
    const pysh_met_t *met; /* of ARRIVE and RELEASE */
} pysh_tree_message_t;

typedef struct pysh_tree_calls {
    void (*tell)(int node, const pysh_tree_message_t *message);
    void (*release)(const pysh_met_t *met); /* this node's PEs; behind what others are told */
    void (*let_out)(void);                  /* the own node, which has asked for it */
} pysh_tree_calls_t;

typedef struct pysh_tree {
    const pysh_tree_calls_t *calls;
    int n_nodes, node;
    int up; /* whom this one tells; -1: there is no other */
    bool is_top;
    int n_children, child[PYSH_TREE_CHILDREN];
    uint64_t epoch, question;
    bool here, asks;        /* the own node's PEs; one of them would leave */
    bool told, withdrawing; /* the arrival has been passed on; and is asked back */
    int n_here;             /* children that have arrived */
    struct {
        bool here;
        uint64_t asks; /* its question, which waits for an answer; 0: none */
        pysh_met_t met;
    } from[PYSH_TREE_CHILDREN + 1]; /* the last: the other one at the top */
    pysh_met_t own, met;            /* the own node's; with those of children, once that is passed on */
} pysh_tree_t;

void pysh_tree_open(pysh_tree_t *tree, const pysh_tree_calls_t *calls, int n_nodes, int node);
/* The nodes that `node` speaks for are [node, this). */
int pysh_tree_end(int n_nodes, int node);
/* All PEs of the own node are there; they stay until release or let_out. */
void pysh_tree_arrive(pysh_tree_t *tree, const pysh_met_t *met);
/* One of them would leave: let_out follows, unless release does. */
void pysh_tree_leave(pysh_tree_t *tree);
/* One that is not from a neighbour, or of another epoch than its sender can be in, is let go. */
void pysh_tree_hear(pysh_tree_t *tree, int from, const pysh_tree_message_t *message);
/* Adds what another knows. */
void pysh_met_add(pysh_met_t *met, const pysh_met_t *other);
