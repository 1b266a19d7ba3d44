/* SPDX-License-Identifier: BSD-3-Clause
 * See rails.h. The bytes are cut into so many shares as there are rails; the i-th members of all nodes are rail i, and
 * exchange its share: of a collect in rounds of doubling distance, of a broadcast from the root's node on, along a
 * tree. Each gets what it gets from the dest of the other one, into its own. Then the members of a node get the shares
 * from its rails. */
#include "collectives/rails.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"
#include "collectives/collective.h"
#include "node/node.h"
#include "ops/rma.h"
#include "teams/sync.h"
#include "teams/team.h"

#define SHARE_BYTES (64 * 1024) /* a further rail is used where each has at least so many */

typedef struct rails {
    pysh_steps_t steps;
    const pysh_team_nodes_t *nodes;
    int n, mine; /* rails; the index of the calling PE on its node, which is that of its rail when below n */
    char *dest;
    const pysh_parts_t *parts;
    int copied; /* what became of the copies: whatever did, the steps go on, as other members wait for them */
} rails_t;

static rails_t rails_of(ishmemx_team_t team, const char *what, char *dest, size_t nbytes) {
    const pysh_team_nodes_t *nodes = &team->nodes;
    size_t n = nbytes / SHARE_BYTES;
    rails_t r = {.steps = pysh_steps_begin(team, what), .nodes = nodes, .n = nodes->least, .dest = dest};

    if (n < (size_t)r.n)
        r.n = n ? (int)n : 1;
    r.mine = nodes->rank[team->my_pe] - nodes->first[nodes->mine];
    return r;
}

static int pe_of(const rails_t *r, int node, int rail) {
    return r->steps.team->pes[pysh_node_member(r->nodes, node, rail)];
}

/* Where a rail's share of nbytes begins. */
static size_t share_at(const rails_t *r, size_t nbytes, int rail) {
    return nbytes / (size_t)r->n * (size_t)rail;
}

static size_t share_end(const rails_t *r, size_t nbytes, int rail) {
    return rail == r->n - 1 ? nbytes : share_at(r, nbytes, rail + 1);
}

static void get(rails_t *r, void *dest, const void *source, size_t nbytes, int pe) {
    int status = nbytes ? pysh_get(dest, source, nbytes, pe) : ISHMEMX_OK;

    if (!r->copied)
        r->copied = status;
}

/* What is at [at, end) of another PE's dest. */
static void get_dest(rails_t *r, size_t at, size_t end, int pe) {
    get(r, r->dest + at, r->dest + at, end - at, pe);
}

/* ---- collect ---- */

/* What is being read: a run of dest that grows while the next piece is behind it. */
typedef struct run {
    size_t at, end;
    int pe;
} run_t;

static void run_over(rails_t *r, run_t *run, size_t at, size_t end) {
    if (run->end != at) {
        get_dest(r, run->at, run->end, run->pe);
        run->at = at;
    }
    run->end = end;
}

/* A piece of what a member gives, from its source. */
static void get_source(rails_t *r, int member, size_t low, size_t high) {
    pysh_place_t source = r->parts->sources[member];

    get(r, r->dest + r->parts->at[member] + low, pysh.arena[source.heap].base + source.offset + low, high - low,
        r->steps.team->pes[member]);
}

/* The rail's share of what the members of a node give: from their sources, or (run) from a PE that has it. */
static void node_share(rails_t *r, int node, int rail, run_t *run) {
    const pysh_team_nodes_t *nodes = r->nodes;
    const size_t *at = r->parts->at;
    size_t nbytes = 0, begin, end, passed = 0;

    for (int i = nodes->first[node]; i < nodes->first[node + 1]; i++)
        nbytes += at[nodes->order[i] + 1] - at[nodes->order[i]];
    begin = share_at(r, nbytes, rail);
    end = share_end(r, nbytes, rail);
    for (int i = nodes->first[node]; i < nodes->first[node + 1]; i++) {
        int member = nodes->order[i];
        size_t whole = at[member + 1] - at[member];
        size_t low = begin > passed ? begin - passed : 0, high = end > passed ? end - passed : 0;
        passed += whole;
        high = high < whole ? high : whole;
        if (low >= high)
            continue;
        if (run)
            run_over(r, run, at[member] + low, at[member] + high);
        else
            get_source(r, member, low, high);
    }
}

/* The rail's shares of `count` nodes from one on, which `pe` has in its dest. */
static void get_shares(rails_t *r, int node, int count, int rail, int pe) {
    run_t run = {0, 0, pe};

    for (int i = 0; i < count; i++)
        node_share(r, (node + i) % r->nodes->n, rail, &run);
    get_dest(r, run.at, run.end, pe);
}

static int rails_exchange(rails_t *r) {
    int n = r->nodes->n, mine = r->nodes->mine, status = ISHMEMX_OK;

    node_share(r, mine, r->mine, NULL);
    for (int distance = 1; !status && distance < n; distance *= 2) {
        int from = (mine + distance) % n, count = distance < n - distance ? distance : n - distance;
        pysh_tell(&r->steps, pysh_node_member(r->nodes, (mine + n - distance) % n, r->mine));
        status = pysh_hear(&r->steps, pysh_node_member(r->nodes, from, r->mine));
        if (!status)
            get_shares(r, from, count, r->mine, pe_of(r, from, r->mine));
    }
    return status;
}

/* `status`: of the steps. A call that was ended among them makes all of them again, with the same numbers; one that was
 * ended in the last meeting none. */
static int rails_finish(const rails_t *r, int status) {
    if (status)
        return status;
    pysh_steps_end(&r->steps);
    pysh_pass(r->steps.team, r->copied, NULL, 0);
    return pysh_coll_end(r->steps.team, r->steps.what, r->copied);
}

int pysh_rails_collect(ishmemx_team_t team, const char *what, char *dest, const pysh_parts_t *parts) {
    rails_t r = rails_of(team, what, dest, parts->at[team->n_pes] / (size_t)team->nodes.n);
    int status;

    if (pysh_passed(team, &status, NULL, 0))
        return pysh_coll_end(team, what, status);
    status = pysh_sync_node(&r.steps);

    r.parts = parts;
    if (!status && r.mine < r.n)
        status = rails_exchange(&r);
    r.steps.number++;
    if (!status)
        status = pysh_sync_node(&r.steps);
    for (int rail = 0; !status && rail < r.n; rail++)
        if (rail != r.mine)
            get_shares(&r, 0, r.nodes->n, rail, pe_of(&r, r.nodes->mine, rail));
    return rails_finish(&r, status);
}

/* ---- broadcast ---- */

typedef struct tree {
    rails_t rails;
    int root, node; /* the member, and its node */
    const char *source;
    size_t nbytes;
} tree_t;

/* The member that has a rail's share on the node `behind` nodes after the root's. On the root's own node that is the
 * root, for all rails. */
static int holder(const tree_t *t, int behind, int rail) {
    const pysh_team_nodes_t *nodes = t->rails.nodes;

    return behind ? pysh_node_member(nodes, (t->node + behind) % nodes->n, rail) : t->root;
}

static void get_share(tree_t *t, int rail, int member) {
    rails_t *r = &t->rails;
    size_t at = share_at(r, t->nbytes, rail), end = share_end(r, t->nbytes, rail);
    const char *from = member == t->root ? t->source : r->dest;

    get(r, r->dest + at, from + at, end - at, r->steps.team->pes[member]);
}

/* A binomial tree: the node `behind` nodes after the root's reads from the one at `behind` less its highest bit, then
 * tells those that read from it. */
static int pass_on(tree_t *t, int behind, int rail) {
    const rails_t *r = &t->rails;
    int bit = 1, from, status = ISHMEMX_OK;

    while (bit <= behind)
        bit *= 2;
    if (behind) {
        from = holder(t, behind - bit / 2, rail);
        status = pysh_hear(&r->steps, from);
        if (!status)
            get_share(t, rail, from);
    }
    for (; !status && behind + bit < r->nodes->n; bit *= 2)
        pysh_tell(&r->steps, holder(t, behind + bit, rail));
    return status;
}

/* On the root's node the root alone takes part, for every rail. */
static int pass_along(tree_t *t) {
    const rails_t *r = &t->rails;
    int behind = (r->nodes->mine + r->nodes->n - t->node) % r->nodes->n, status = ISHMEMX_OK;

    if (behind)
        return r->mine < r->n ? pass_on(t, behind, r->mine) : ISHMEMX_OK;
    for (int rail = 0; !status && rail < r->n && r->steps.team->my_pe == t->root; rail++)
        status = pass_on(t, 0, rail);
    return status;
}

static void get_rest(tree_t *t) {
    rails_t *r = &t->rails;
    bool whole = r->nodes->mine == t->node; /* from the root itself, which may be the caller */

    if (whole && (r->steps.team->my_pe != t->root || r->dest != t->source))
        get(r, r->dest, t->source, t->nbytes, r->steps.team->pes[t->root]);
    for (int rail = 0; !whole && rail < r->n; rail++)
        if (rail != r->mine)
            get_share(t, rail, pysh_node_member(r->nodes, r->nodes->mine, rail));
}

int pysh_rails_broadcast(ishmemx_team_t team, void *dest, const void *source, size_t nbytes, int root) {
    tree_t t = {rails_of(team, "broadcast", dest, nbytes), root, 0, source, nbytes};
    int status;

    if (pysh_passed(team, &status, NULL, 0))
        return pysh_coll_end(team, "broadcast", status);
    while (team->nodes.rank[root] >= team->nodes.first[t.node + 1])
        t.node++;
    status = pass_along(&t);
    t.rails.steps.number++;
    if (!status)
        status = pysh_sync_node(&t.rails.steps);
    if (!status)
        get_rest(&t);
    return rails_finish(&t.rails, status);
}
