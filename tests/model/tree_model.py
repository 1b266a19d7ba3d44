# SPDX-License-Identifier: BSD-3-Clause
"""How PEs of several nodes meet: ``native/src/agree/tree.c`` and ``native/src/transport/ucx/agree.c``.

PEs of a node count themselves in a word; its head holds them once all are there, and tells the nodes of
the tree. A PE may leave, for its handlers, and comes back or stays away; while it is away nobody passes.
Every access to the word and every message is a step of its own. Messages of a head to another come in
order, those of different ones in any; there are several meetings, one behind the other. A PE may be
killed at any time; the others then give up. ``explore`` visits all states and says what is wrong in the
first bad one. Not here: who waits too long for the answer whether it may leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from state_search import explore

#: What may be left out, to see that it is missed.
GUARDS = frozenset(
    {
        "who is held asks",
        "who was passed on is asked back",
        "who goes clears the bit",
        "messages are in order",
        "an answer strikes out who asked",
        "the other at the top is struck out",
    }
)
#: Where a PE is when nothing more is to come of it.
OVER = ("over", "away", "killed there", "killed elsewhere", "gave up")


class Violation(Exception):
    """The promise that does not hold, in words."""


class Pe(NamedTuple):
    at: str = "computes"
    epoch: int = 0
    leaves: int = 0  # that may still begin


class Message(NamedTuple):
    kind: str
    epoch: int
    is_out: bool = False


class Node(NamedTuple):
    """The word, and what the head knows; ``from_`` of children, and of the other one at the top."""

    n: int = 0
    held: bool = False
    bit: bool = False  # one asks
    epoch: int = 0
    here: bool = False
    asks: bool = False
    told: bool = False
    withdrawing: bool = False
    from_here: frozenset[int] = frozenset()
    from_asks: frozenset[int] = frozenset()


class State(NamedTuple):
    nodes: tuple[Node, ...]
    pes: tuple[Pe, ...]
    sent: tuple[tuple[tuple[int, int], tuple[Message, ...]], ...] = ()
    kills: int = 0


@dataclass
class World:
    """A state that is being changed."""

    nodes: list[Node]
    pes: list[Pe]
    sent: dict[tuple[int, int], tuple[Message, ...]]
    kills: int

    def set_node(self, k: int, **changed: object) -> None:
        self.nodes[k] = self.nodes[k]._replace(**changed)

    def set_pe(self, i: int, **changed: object) -> None:
        self.pes[i] = self.pes[i]._replace(**changed)

    def send(self, k: int, to: int, message: Message) -> None:
        self.sent[k, to] = (*self.sent.get((k, to), ()), message)

    def frozen(self) -> State:
        sent = tuple(sorted(item for item in self.sent.items() if item[1]))
        return State(tuple(self.nodes), tuple(self.pes), sent, self.kills)


class Tree:
    """``leaves[k][i]``: how often PE i of node k may leave; ``epochs``: meetings; ``kills``: PEs."""

    def __init__(
        self,
        leaves: tuple[tuple[int, ...], ...],
        *,
        epochs: int = 2,
        kills: int = 0,
        guards: frozenset[str] = GUARDS,
    ) -> None:
        self.epochs, self.guards = epochs, guards
        self.n_nodes = len(leaves)
        self.node_of = [k for k, node in enumerate(leaves) for _ in node]
        self.head = [self.node_of.index(k) for k in range(self.n_nodes)]
        self.size = [len(node) for node in leaves]
        pes = tuple(Pe(leaves=n) for node in leaves for n in node)
        self.first = State(tuple(Node() for _ in leaves), pes, kills=kills)
        top = 1
        while 2 * top < self.n_nodes:
            top *= 2
        self.tops = (0, top) if self.n_nodes > 1 else (0,)
        self.up = [k & (k - 1) for k in range(self.n_nodes)]
        self.up[0] = top if self.n_nodes > 1 else -1
        self.children = [
            frozenset(c for c in range(self.n_nodes) if c not in self.tops and self.up[c] == k)
            for k in range(self.n_nodes)
        ]

    def explore(self) -> int:
        """Number of states; raises ``Violation`` at the first that is wrong."""
        return explore(self.first, self.steps, self.check_end)

    # ---- the tree: no step of these waits ----

    def complete(self, world: World, k: int) -> None:
        node = world.nodes[k]
        for child in sorted(self.children[k]):
            world.send(k, child, Message("release", node.epoch))
        for child in sorted(node.from_asks):
            world.send(k, child, Message("left", node.epoch))
        world.nodes[k] = Node(epoch=node.epoch + 1)

    def advance(self, world: World, k: int) -> None:
        node, up = world.nodes[k], self.up[k]
        if not node.told and node.here and self.children[k] <= node.from_here:
            world.set_node(k, told=True)
            if up >= 0:
                world.send(k, up, Message("arrive", node.epoch))
        if world.nodes[k].told and (up < 0 or up in node.from_here):
            self.complete(world, k)

    def ask_back(self, world: World, k: int) -> None:
        if not world.nodes[k].withdrawing:
            world.set_node(k, withdrawing=True)
            world.send(k, self.up[k], Message("leave", world.nodes[k].epoch))

    def leave(self, world: World, k: int) -> None:
        node = world.nodes[k]
        if node.here and node.told and "who was passed on is asked back" in self.guards:
            world.set_node(k, asks=True)
            self.ask_back(world, k)
        elif node.here:
            world.set_node(k, here=False, held=False)

    def hear(self, world: World, k: int, sender: int, message: Message) -> None:
        node = world.nodes[k]
        is_now = message.epoch == node.epoch
        if message.kind == "arrive" and is_now:
            world.set_node(k, from_here=node.from_here | {sender})
            self.advance(world, k)
        elif message.kind == "release" and is_now and node.told:
            self.complete(world, k)
        elif message.kind == "leave":
            self.hear_leave(world, k, sender, message)
        elif message.kind == "left" and node.withdrawing and message.is_out and is_now:
            self.hear_left(world, k)

    def hear_leave(self, world: World, k: int, sender: int, message: Message) -> None:
        node = world.nodes[k]
        is_now = message.epoch == node.epoch
        if is_now and sender in node.from_here:
            if node.told and "who was passed on is asked back" in self.guards:
                world.set_node(k, from_asks=node.from_asks | {sender})
                self.ask_back(world, k)
                return
            if sender in self.children[k] or "the other at the top is struck out" in self.guards:
                world.set_node(k, from_here=node.from_here - {sender})
        world.send(k, sender, Message("left", message.epoch, is_now))

    def hear_left(self, world: World, k: int) -> None:
        node = world.nodes[k]
        here = node.from_here - node.from_asks
        if "an answer strikes out who asked" not in self.guards:
            here = node.from_here
        for child in sorted(node.from_asks):
            world.send(k, child, Message("left", node.epoch, True))
        changed = {"withdrawing": False, "told": False, "from_here": here}
        if node.asks:
            changed |= {"here": False, "asks": False, "held": False}
        world.set_node(k, from_asks=frozenset(), **changed)
        self.advance(world, k)

    # ---- steps ----

    def steps(self, state: State) -> Iterator[State]:
        def world() -> World:
            return World(list(state.nodes), list(state.pes), dict(state.sent), state.kills)

        for i in range(len(state.pes)):
            yield from (after.frozen() for after in self.pe_steps(world, i))
        for (sender, to), messages in state.sent:
            if state.pes[self.head[to]].at.startswith("killed"):
                continue
            ordered = "messages are in order" in self.guards
            for j in range(1 if ordered else len(messages)):
                after = world()
                after.sent[sender, to] = (*messages[:j], *messages[j + 1 :])
                self.hear(after, to, sender, messages[j])
                yield after.frozen()

    def pe_steps(self, world: type[World], i: int) -> Iterator[World]:
        after = world()
        pe, k = after.pes[i], self.node_of[i]
        node = after.nodes[k]
        if pe.at in OVER:
            return
        if pe.at in ("computes", "out"):
            after.set_node(k, n=node.n + 1)
            after.set_pe(i, at="there")
            yield after
        elif node.epoch != pe.epoch:
            yield self.passes(after, i)
        elif pe.at == "there":
            yield from self.step_there(world, i)
        elif pe.at == "would leave":
            yield self.step_out(after, i)
        if pe.at == "out":
            yield self.changed(world(), i, at="away")
        yield from self.step_as_head(world, i)
        if pe.at == "there" and any(other.at.startswith("killed") for other in after.pes):
            yield self.changed(world(), i, at="gave up")
        if world().kills:
            dead = self.changed(
                world(),
                i,
                at="killed " + ("elsewhere" if pe.at in ("computes", "out") else "there"),
            )
            yield replace(dead, kills=dead.kills - 1)

    @staticmethod
    def changed(world: World, i: int, **changed: object) -> World:
        world.set_pe(i, **changed)
        return world

    def step_there(self, world: type[World], i: int) -> Iterator[World]:
        leaves = world().pes[i].leaves
        if leaves:
            yield self.changed(world(), i, at="would leave", leaves=leaves - 1)

    def step_out(self, after: World, i: int) -> World:
        k = self.node_of[i]
        node = after.nodes[k]
        if node.held and "who is held asks" in self.guards:
            after.set_node(k, bit=True)
            return after
        clears = "who goes clears the bit" in self.guards
        after.set_node(k, n=node.n - 1, bit=node.bit and not clears)
        after.set_pe(i, at="out")
        return after

    def step_as_head(self, world: type[World], i: int) -> Iterator[World]:
        after = world()
        k = self.node_of[i]
        node, at = after.nodes[k], after.pes[i].at
        if (
            self.head[k] != i
            or at not in ("there", "would leave")
            or node.epoch != after.pes[i].epoch
        ):
            return
        if node.held and node.bit:
            self.leave(after, k)
            yield after
        elif not node.held and not node.bit and node.n == self.size[k]:
            after.set_node(k, held=True, here=True)
            self.advance(after, k)
            yield after

    def passes(self, after: World, i: int) -> World:
        epoch = after.pes[i].epoch
        for k, other in enumerate(after.pes):
            if other.epoch < epoch or (
                other.epoch == epoch and other.at in ("computes", "out", "away", "killed elsewhere")
            ):
                raise Violation(f"PE {i} passes meeting {epoch}, PE {k} {other.at}")
        after.set_pe(i, at="over" if epoch + 1 == self.epochs else "computes", epoch=epoch + 1)
        return after

    @staticmethod
    def check_end(state: State) -> None:
        if any(pe.at not in OVER for pe in state.pes) and not any(
            pe.at == "away" for pe in state.pes
        ):
            raise Violation(f"PEs are kept: {state}")
