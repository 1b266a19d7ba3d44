/* SPDX-License-Identifier: BSD-3-Clause */
#include "agree/tree.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "node/control.h"

static int highest_bit(int n_nodes) {
    int bit = 1;

    while (2 * bit < n_nodes)
        bit *= 2;
    return bit;
}

int pysh_tree_end(int n_nodes, int node) {
    int end = node ? node + (node & -node) : highest_bit(n_nodes);

    return end < n_nodes ? end : n_nodes;
}

void pysh_tree_open(pysh_tree_t *tree, const pysh_tree_calls_t *calls, int n_nodes, int node) {
    int top = highest_bit(n_nodes);

    *tree = (pysh_tree_t){.calls = calls, .n_nodes = n_nodes, .node = node, .up = -1};
    if (n_nodes > 1) {
        tree->is_top = node == 0 || node == top;
        tree->up = node ? node & (node - 1) : top;
    }
    /* The largest part first: it has the longest way. */
    for (int bit = (node ? node & -node : top) / 2; bit; bit /= 2)
        if (node + bit < n_nodes)
            tree->child[tree->n_children++] = node + bit;
}

void pysh_met_add(pysh_met_t *met, const pysh_met_t *other) {
    uint64_t mixed = (met->about | other->about) & PYSH_MIXED;

    if (!(met->about & PYSH_MIXED)) {
        if (other->about & PYSH_MIXED) {
            memcpy(met->one, other->one, sizeof met->one);
        } else if (met->one[0].nbytes != other->one[0].nbytes) {
            met->one[1] = other->one[0];
            mixed = PYSH_MIXED;
        }
    }
    met->about = (met->about & other->about & PYSH_ALL_VOTED) | mixed;
}

/* Its place in `from`; -1: no neighbour that arrives here. */
static int place_of(const pysh_tree_t *tree, int node) {
    for (int i = 0; i < tree->n_children; i++)
        if (tree->child[i] == node)
            return i;
    return tree->is_top && node == tree->up ? PYSH_TREE_CHILDREN : -1;
}

static int node_at(const pysh_tree_t *tree, int place) {
    return place < PYSH_TREE_CHILDREN ? tree->child[place] : tree->up;
}

static void tell_left(const pysh_tree_t *tree, int place, uint64_t epoch, uint64_t question, bool is_out) {
    pysh_tree_message_t answer = {.kind = PYSH_TREE_LEFT, .epoch = epoch, .question = question, .is_out = is_out};

    tree->calls->tell(node_at(tree, place), &answer);
}

/* All are there, and nobody leaves any more. */
static void complete(pysh_tree_t *tree, const pysh_met_t *met) {
    pysh_tree_message_t release = {.kind = PYSH_TREE_RELEASE, .epoch = tree->epoch, .met = met};

    for (int i = 0; i < tree->n_children; i++)
        tree->calls->tell(tree->child[i], &release);
    for (int i = 0; i < tree->n_children; i++) {
        if (tree->from[i].asks)
            tell_left(tree, i, tree->epoch, tree->from[i].asks, false);
        tree->from[i].asks = 0;
        tree->from[i].here = false;
    }
    tree->from[PYSH_TREE_CHILDREN].here = false;
    tree->here = tree->asks = tree->told = tree->withdrawing = false;
    tree->n_here = 0;
    tree->epoch++;
    tree->calls->release(met);
}

/* Passes the arrival on, and completes, where it is time. */
static void advance(pysh_tree_t *tree) {
    if (!tree->told && tree->here && tree->n_here == tree->n_children) {
        pysh_tree_message_t arrive = {.kind = PYSH_TREE_ARRIVE, .epoch = tree->epoch, .met = &tree->met};
        tree->met = tree->own;
        for (int i = 0; i < tree->n_children; i++)
            pysh_met_add(&tree->met, &tree->from[i].met);
        tree->told = true;
        if (tree->up >= 0)
            tree->calls->tell(tree->up, &arrive);
    }
    if (tree->told && (tree->up < 0 || tree->from[PYSH_TREE_CHILDREN].here)) {
        if (tree->up >= 0)
            pysh_met_add(&tree->met, &tree->from[PYSH_TREE_CHILDREN].met);
        complete(tree, &tree->met);
    }
}

void pysh_tree_arrive(pysh_tree_t *tree, const pysh_met_t *met) {
    tree->here = true;
    tree->own = *met;
    advance(tree);
}

static void ask_back(pysh_tree_t *tree) {
    pysh_tree_message_t leave = {.kind = PYSH_TREE_LEAVE, .epoch = tree->epoch};

    if (tree->withdrawing)
        return;
    tree->withdrawing = true;
    leave.question = ++tree->question;
    tree->calls->tell(tree->up, &leave);
}

static void let_own_out(pysh_tree_t *tree) {
    tree->here = tree->asks = false;
    tree->calls->let_out();
}

void pysh_tree_leave(pysh_tree_t *tree) {
    if (!tree->here)
        return;
    if (!tree->told) {
        let_own_out(tree);
        return;
    }
    tree->asks = true;
    ask_back(tree);
}

static void strike_out(pysh_tree_t *tree, int place) {
    tree->from[place].here = false;
    if (place < PYSH_TREE_CHILDREN)
        tree->n_here--;
}

static void hear_arrive(pysh_tree_t *tree, int place, const pysh_met_t *met) {
    tree->from[place].met = *met;
    /* One that is back, and waits for no answer: it had waited too long. */
    tree->from[place].asks = 0;
    if (!tree->from[place].here && place < PYSH_TREE_CHILDREN)
        tree->n_here++;
    tree->from[place].here = true;
    advance(tree);
}

/* The other one at the top cannot have been passed on: with it all would be there. */
static void hear_leave(pysh_tree_t *tree, int place, const pysh_tree_message_t *message) {
    bool is_now = message->epoch == tree->epoch;

    if (is_now && tree->from[place].here && tree->told) {
        tree->from[place].asks = message->question;
        ask_back(tree);
        return;
    }
    if (is_now && tree->from[place].here)
        strike_out(tree, place);
    tell_left(tree, place, message->epoch, message->question, is_now);
}

static void hear_left(pysh_tree_t *tree, const pysh_tree_message_t *message) {
    if (!tree->withdrawing || message->question != tree->question || !message->is_out)
        return; /* too late: what came before this answer has completed it */
    tree->withdrawing = tree->told = false;
    for (int i = 0; i < tree->n_children; i++)
        if (tree->from[i].asks) {
            strike_out(tree, i);
            tell_left(tree, i, tree->epoch, tree->from[i].asks, true);
            tree->from[i].asks = 0;
        }
    if (tree->asks)
        let_own_out(tree);
    advance(tree);
}

void pysh_tree_hear(pysh_tree_t *tree, int from, const pysh_tree_message_t *message) {
    int place = place_of(tree, from);
    bool is_now = message->epoch == tree->epoch;

    switch (message->kind) {
    case PYSH_TREE_ARRIVE:
        if (place >= 0 && is_now)
            hear_arrive(tree, place, message->met);
        break;
    case PYSH_TREE_LEAVE:
        if (place >= 0 && message->epoch <= tree->epoch)
            hear_leave(tree, place, message);
        break;
    case PYSH_TREE_RELEASE:
        if (from == tree->up && !tree->is_top && is_now && tree->told)
            complete(tree, message->met);
        break;
    case PYSH_TREE_LEFT:
        if (from == tree->up && is_now)
            hear_left(tree, message);
        break;
    }
}
