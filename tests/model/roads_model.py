# SPDX-License-Identifier: BSD-3-Clause
"""The two roads of polled atomic operations (``accel/cuda/amo_polled.c``), and two rings that use them.

One ring's loads never end; the other's one add needs the kernel. The functions are those of the C file,
without values. ``starves`` looks for a cycle in which the add is tried and refused, loads begin and end,
and no state on the way would have taken it; the kernel may go where it has nothing to do, and comes if
it can come for ever. ``explore`` says too when both roads are in use at one time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LOADS = 2  # of the busy ring, under way at one time
#: What may be left out, to see that it is missed.
GUARDS = frozenset({"wanted", "one road at a time"})


class State(NamedTuple):
    stream: int = 0  # under way there
    boxes: tuple[str, ...] = ()  # requests to the kernel
    stays: bool = False  # a kernel has been asked for and has not been seen to go
    here: bool = False
    gone: bool = False
    wanted: bool = False
    waits: bool = True  # the add has not begun


class Roads:
    """Steps of both rings, the GPU and the kernel, with only some of the ``GUARDS``."""

    def __init__(self, guards: frozenset[str] = GUARDS) -> None:
        self.guards = guards

    def advance(self, s: State) -> State:
        """What no kernel is going to serve goes on."""
        if s.stays and s.gone:
            s = s._replace(stays=False, here=False, gone=False)
        while not s.stays and s.boxes:
            if s.boxes[0] == "load":
                s = s._replace(boxes=s.boxes[1:], stream=s.stream + 1)
            elif not s.stream:
                s = s._replace(stays=True)
            else:
                break
        return s

    def begin(self, s: State, op: str) -> tuple[State, bool]:
        """pysh_cuda_amo_begin(): the state, and whether the operation has begun."""
        s = self.advance(s)
        here, alone = s.here and not s.gone, "one road at a time" in self.guards
        yields = s.wanted and "wanted" in self.guards
        streams = op == "load" and not s.boxes and (not here or (s.stream > 0 and not yields))
        if s.stays and s.stream and not streams and alone:
            return s._replace(wanted=True), False
        if streams:
            return s._replace(stream=s.stream + 1, stays=True), True  # in quick succession
        return self.advance(s._replace(wanted=False, boxes=(*s.boxes, op))), True

    def tries(self, s: State) -> tuple[State, bool]:
        after, begun = self.begin(s, "add")
        return (after._replace(waits=False) if begun else after), begun

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        if s.stream + len(s.boxes) < LOADS:
            after, begun = self.begin(s, "load")
            yield ("load" if begun else "refused"), after
        if s.waits:
            yield "try", self.tries(s)[0]
        if s.stream:
            yield "end", self.advance(s._replace(stream=s.stream - 1))
        if s.stays and not s.here:
            yield "come", s._replace(here=True)
        if s.here and s.boxes:
            yield "serve", s._replace(boxes=s.boxes[1:])
        elif s.here and not s.gone:
            yield "go", s._replace(gone=True)

    def explore(self) -> dict[State, list[tuple[str, State]]]:
        """All states and their steps. Raises: AssertionError (both roads at one time, or stuck)."""
        found: dict[State, list[tuple[str, State]]] = {}
        queue = [State()]
        while queue:
            state = queue.pop()
            if state in found:
                continue
            found[state] = list(self.steps(state))
            assert not (state.here and state.boxes and state.stream), f"both roads: {state}"
            assert any(after != state for _, after in found[state]), f"nothing moves: {state}"
            # Sets make the room that a kernel may wait for: one that is not there keeps none back.
            if state.stays and not state.here and not state.boxes:
                assert self.begin(state, "load")[1], f"a set waits for a kernel: {state}"
            queue += [after for _, after in found[state]]
        return found

    def starves(self) -> bool:
        """Whether the add may be refused for ever though both rings and the GPU go on."""
        found = self.explore()
        refused = {s for s in found if s.waits and not self.tries(s)[1]}
        inside = {s: [(name, to) for name, to in found[s] if to in refused] for s in refused}
        for start in refused:
            cycle = reach(inside, start) & reach(turned(inside), start)
            steps = {name for s in cycle for name, to in inside[s] if to in cycle}
            comes = "come" in steps or any("come" not in dict(found[s]) for s in cycle)
            if comes and {"load", "end", "try"} <= steps:
                return True
        return False


Graph = dict[State, list[tuple[str, State]]]


def turned(graph: Graph) -> Graph:
    back: Graph = {s: [] for s in graph}
    for s, steps in graph.items():
        for name, to in steps:
            back[to].append((name, s))
    return back


def reach(graph: Graph, start: State) -> set[State]:
    seen, queue = {start}, [start]
    while queue:
        for _, to in graph[queue.pop()]:
            if to not in seen:
                seen.add(to)
                queue.append(to)
    return seen
