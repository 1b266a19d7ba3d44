# SPDX-License-Identifier: BSD-3-Clause
"""Records of what goes in the order of streams, in the simulator: each stream is an agent of its own.

Around each operation two calls go on the stream. The first notes what the operation will do, when the
stream gets there, and the second what it has done: from there on it is complete, at both ends. An
operation knows what the host knew when it put it there; in a graph, what the host knew at the replay.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._core.arrays.checks import stream_handle
from .._core.errors import ShmemError
from .._core.library import ffi, lib
from ..host import streams as host_streams
from ..host.kernels import sim_calls
from . import effects, memory
from .effects import Arguments, Described, Effects
from .log import ROOM, Log, now

_log: Log
_inside: Any
#: What has operations wait at their gates, with PYSHMEM_CHECK=deliver.
_held: Callable[[], Any]
_numbers = itertools.count(1)
_tokens = itertools.count(1)
_agents: dict[int, int] = {}  # by handle
#: What this thread of the process does: the agent, and the program's line that asked for it.
_here = threading.local()


def here() -> tuple[int, int]:
    """The agent whose work this thread does, and the line that asked for it; 0, 0: the host's."""
    return getattr(_here, "agent", 0), getattr(_here, "site", 0)


def agent_of(handle: int) -> int:
    """The agent of a stream; 0, the host, of the default stream, which does everything at once."""
    if not handle:
        return 0
    found = _agents.get(handle)
    if found is None:
        number = next(_numbers)
        found = _agents[handle] = number * ROOM
        _log.write(now(), 0, "Stream", [("V", found, f"stream {number}")])
    return found


# ---- what the host puts on a stream --------------------------------------------------------------


class _Operation:
    """Calls around an operation. ``captured``: they run on whatever stream the graph is replayed."""

    def __init__(self, name: str, handle: int, captured: bool) -> None:
        self.name, self._captured, self._handle = name, captured, handle
        self._agent, self._site = agent_of(handle), _log.site()
        self._token = _tell(name) if handle and not captured else None
        self._delivery, self._lane = _held() if handle else None, None

    def gate(self) -> None:
        """What comes behind begins when this PE's turns let it, with PYSHMEM_CHECK=deliver."""
        if self._delivery is None:
            return
        if self._captured:
            self._delivery.lanes.captures(self._handle)
        else:
            self._lane = self._delivery.put(self._handle)

    @property
    def is_gated(self) -> bool:
        """Is there a gate before it, and is it not captured?"""
        return self._lane is not None

    @property
    def lane(self) -> Any:
        """That of the stream whose thread this is, where there are gates."""
        return None if self._delivery is None else getattr(_here, "lane", None)

    def replays(self, graph: int) -> None:
        """It stands before a graph's operations, which have gates of their own."""
        if self._delivery is not None:
            self._lane = self._delivery.lanes.of(self._handle)
            self._delivery.lanes.replays(graph, self._handle)

    def enters(self) -> None:
        """The stream has come to the gate."""
        if (lane := self.lane) is not None:
            lane.enter()

    def comes_to(self, given: Arguments, before: Effects) -> None:
        """It goes on when what it waits for is there."""
        if (lane := self.lane) is not None and self._delivery is not None:
            self._delivery.on_stream(lane, self.name, given, before)

    def waits(self, ready: Callable[[], bool]) -> None:
        """It goes on when that holds."""
        if (lane := self.lane) is not None:
            lane.until(ready)

    def leaves(self) -> None:
        """The operation is done."""
        if (lane := self.lane) is not None:
            lane.leave()

    def put(self, function: Callable[[], None]) -> None:
        """Call ``function`` when the stream gets there."""
        sim_calls.put(self._handle, self.name, self._run(function), captured=self._captured)

    def _run(self, function: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            outer = getattr(_inside, "call", False)
            _inside.call = True
            if not self._captured:
                _here.agent, _here.lane = self._agent, self._lane
            _here.site = self._site
            try:
                function()
            finally:
                _inside.call = outer

        return run

    def begins(self) -> None:
        """The stream has come here: it knows what the host knew."""
        if self._token is not None:
            self.write([("G", self._token, True)])

    def write(self, did: Effects) -> None:
        """A record of the stream."""
        if did:
            _log.write_at(now(), here()[0], self._site, self.name, did)


def _tell(name: str) -> Any:
    """What the host knows now, under a name."""
    token = next(_tokens)
    _log.write(now(), 0, name, [("T", token)])
    return token


def mark(name: str, handle: int, captured: bool) -> None:
    """Behind this, the stream's work knows what the host knows now, and of which line it is."""
    operation = _Operation(name, handle, captured)
    operation.put(operation.begins)


def kernel(name: str, handle: int, captured: bool, run: Callable[[], None]) -> Callable[[], None]:
    """``run``, of a kernel, behind a mark, and behind a gate."""
    operation = _Operation(name, handle, captured)
    operation.gate()
    operation.put(operation.begins)

    def gated() -> None:
        operation.enters()
        try:
            run()
        finally:
            operation.leaves()

    return gated


@contextmanager
def one_kernel() -> Iterator[None]:
    """With gates, a kernel waits for another one without keeping the program from going on."""
    delivery = _held()
    if delivery is None:
        yield
        return
    with delivery.lanes.kernel(delivery.waits):
        yield


def routine(
    name: str,
    describe: Callable[[Arguments], Described],
    given: Arguments,
    call: Callable[[], Any],
) -> Any:
    """``call``, of a routine with a stream, between its two records."""
    try:
        handle = stream_handle(given["stream"])
        captured = sim_calls.is_captured(handle)
        effects.name_team(given)
    except (ShmemError, LookupError, TypeError, ValueError, AttributeError):
        return call()  # which says what is wrong
    describe = _DESCRIBED.get(name, describe)
    operation = _Operation(name, handle, captured)
    operation.gate()
    behind: list[Callable[[Any], Effects]] = []

    def begins() -> None:
        operation.enters()
        operation.begins()
        behind.clear()
        with effects.on_stream():
            try:
                before, after = describe(given)
            except effects.REFUSED:
                return
        if any(one[_HEAP.get(one[0], 0)] == 0 for one in before):
            return  # the routine refuses the host heap
        before = _translated(before)
        operation.write(before)
        _log.flush()
        operation.comes_to(given, before)
        behind.append(after if after is not None else lambda _: [])

    def ends() -> None:
        for after in behind:
            if _goes_on(handle):  # else its wait was ended, and it still stands there
                operation.write([("Q", _way(), None), *_translated(after(None))])
        operation.leaves()

    operation.put(begins)
    if name == "Request.wait" and operation.is_gated:
        call = _nothing  # the gate waits for the request
    try:
        result = call()
    except BaseException:
        operation.put(operation.leaves)
        raise
    operation.put(ends)
    return result


def _nothing() -> None:
    pass


def _goes_on(handle: int) -> bool:
    """Has nothing ended the job, and no kernel recorded a fault?"""
    return not lib.ishmemx_stream_capturing(handle, ffi.new("int *"))


def _way() -> Any:
    """What stands in lanes for the context of this stream's operations."""
    return "stream", here()[0]


#: Where the context is among an effect's words.
_CONTEXT = {"s": 4, "d": 3, "a": 5, "rq": 4, "wq": 4}


#: Where the heap is: streams reach that of the device.
_HEAP = {"r": 2, "w": 2, "s": 2, "rq": 2, "wq": 2, "a": 2, "b": 2, "N": 2}


def _translated(did: Effects) -> Effects:
    """Effects of a routine in the order of a stream: it is complete when the stream is past it.

    A fence and a quiet, also that of a barrier, are for what kernels before them have issued.
    """
    found: Effects = []
    for effect in did:
        code = effect[0]
        if code in _CONTEXT:
            at = _CONTEXT[code]
            effect = (*effect[:at], _way(), *effect[at + 1 :])
        elif code == "F" or (code == "Q" and (effect[1] is None or isinstance(effect[1], int))):
            effect = ("K",)
        found.append(effect)
    return found


# ---- routines that are told otherwise than the host's --------------------------------------------


def _signal_wait_until(a: Arguments) -> Described:
    return effects.ROUTINES["wait_until"]({**a, "ivar": a["sig_addr"]})


def _fetching(name: str) -> effects.Describe:
    """An atomic that fetches to an array, which has the value when the stream is past it."""
    blocking = effects.ROUTINES[name.removesuffix("_nbi")]

    def describe(a: Arguments) -> Described:
        before, after = blocking(a)
        assert after is not None
        fetch = memory.Span(a["fetch"])

        def behind(_: Any) -> Effects:
            return [*after(memory.peek(fetch.address, fetch.dtype)), *effects.writes(fetch, 1)]

        return before, behind

    return describe


def _wait_set(name: str) -> effects.Describe:
    """``found`` and ``indices`` have what the wait has found, when the stream is past it."""
    plain, some = effects.ROUTINES[name], "some" in name

    def describe(a: Arguments) -> Described:
        before, after = plain({**a, "status": None})
        assert after is not None
        found = memory.Span(a["found"])
        indices = memory.Span(a["indices"]) if some else found

        def behind(_: Any) -> Effects:
            n = memory.peek(found.address, found.dtype) or 0
            if not some:
                return [*after(None if n < 0 else n), *effects.writes(found, 1)]
            step = indices.dtype.itemsize
            which = [memory.peek(indices.address + k * step, indices.dtype) for k in range(n)]
            wrote = [*effects.writes(found, 1), *effects.writes(indices, n)]
            return [*after(which), *wrote]

        return before, behind

    return describe


def _request_wait(a: Arguments) -> Described:
    """The stream goes on when the request is complete; the host has yet to ask for it."""
    done = effects.known_of(a["self"])
    waits: Effects = [("N", "meeting", e[1]) for e in done if e[0] == "X"]
    return waits, lambda _: [(*e[:3], 0, *e[4:]) if e[0] == "X" else e for e in done]


_DESCRIBED: dict[str, effects.Describe] = {
    "signal_wait_until": _signal_wait_until,
    "Request.wait": _request_wait,
    **{n: _fetching(n) for n in effects.ROUTINES if n.startswith("atomic") and n.endswith("_nbi")},
    **{f"wait_until_{which}": _wait_set(f"wait_until_{which}") for which in ("any", "some")},
}  # fmt: skip


# ---- what waits for streams ----------------------------------------------------------------------


def awaits(*handles: int) -> None:
    """The host is about to wait for streams, or for all: their gates open meanwhile."""
    if (delivery := _held()) is not None:
        delivery.finish(*handles)


def finished(*handles: int) -> None:
    """The host has waited for streams."""
    agents = _agents_of(handles)
    if agents and not getattr(_inside, "call", False):
        _log.write(now(), 0, "synchronize", [("S", agents)])


def _agents_of(handles: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(_agents[handle] for handle in handles if handle in _agents)


@contextmanager
def wait_for(name: str, *handles: int) -> Iterator[None]:
    """Within, the host waits for streams by ``name``; where that fails, that is where it stands."""
    agents = _agents_of(handles)
    if not agents or getattr(_inside, "call", False):
        yield
        return
    _log.write(now(), 0, name, [("N", "streams", agents)])
    _log.flush()
    try:
        yield
    except BaseException as error:
        _log.raised(name, 0, error)
        raise
    finished(*handles)


def event_recorded(event: Any, handle: int) -> None:
    """An event has been put on a stream, and stands for what is done there."""
    key = "event", next(_tokens)
    done: list[bool] = []
    event.pyshmem_recorded, event.pyshmem_done = key, done
    operation = _Operation("event.record", handle, False)
    operation.gate()

    def told() -> None:
        operation.enters()
        operation.begins()
        operation.write([("T", key)])
        done.append(True)
        operation.leaves()

    operation.put(told)


def event_awaited(event: Any, handle: int, finish_all: Callable[[], None]) -> None:
    """What comes behind on the stream, or on the host, waits for the event.

    Args:
        event: that of Numba.
        handle: of the stream; 0: the host waits.
        finish_all: waits for all streams, which is how the simulator waits for an event.
    """
    key, done = getattr(event, "pyshmem_recorded", None), getattr(event, "pyshmem_done", [])
    operation = _Operation("event.wait", handle, False)
    delivery = _held()
    if delivery is None or delivery.is_free:
        outer, _inside.call = getattr(_inside, "call", False), True
        try:
            finish_all()
        finally:
            _inside.call = outer
    elif key is not None and not handle:
        delivery.waits(lambda: bool(done))
    if key is None:
        return
    operation.gate()

    def waited() -> None:
        operation.enters()
        operation.waits(lambda: bool(done))
        operation.write([("G", key, False)])
        operation.leaves()

    operation.put(waited)


def install(
    log: Log, inside: Any, held: Callable[[], Any], replace: Callable[[Any, Any], None]
) -> None:
    """Put records around what host programs do with streams and graphs; ``held``: what is late."""
    global _log, _inside, _held
    _log, _inside, _held = log, inside, held
    kind, graph = host_streams.Stream, host_streams.Graph
    made, destroyed, query = kind.__init__, kind.destroy, kind.query
    finish, replayed, captures = kind.synchronize, graph.replay, kind.capture

    def init(self: Any) -> None:
        made(self)
        _agents.pop(self.handle, None)  # of one that was there before

    def synchronize(self: Any) -> None:
        awaits(self.handle)
        with wait_for("stream.synchronize", self.handle):
            finish(self)

    def ask(self: Any) -> bool:
        if (delivery := _held()) is not None and self.handle and not delivery.lanes.is_free:
            if not sim_calls.is_captured(self.handle) and not delivery.looks_at(self.handle):
                return False
            finish(self)
        done = query(self)
        if done:
            finished(self.handle)
        return done

    def destroy(self: Any) -> None:
        awaits(self.handle)
        with wait_for("stream.destroy", self.handle):
            destroyed(self)

    def replay(self: Any, stream: Any) -> None:
        operation = _Operation("replay", stream_handle(stream), False)
        operation.replays(id(self._cell))
        operation.put(operation.begins)
        replayed(self, stream)

    @contextmanager
    def capture(self: Any) -> Iterator[Any]:
        with captures(self) as graph:
            yield graph
        if (delivery := _held()) is not None:
            delivery.lanes.captured(self.handle, id(graph._cell))

    for owner, name, plain, new in (
        (kind, "__init__", made, init), (kind, "synchronize", finish, synchronize),
        (kind, "query", query, ask), (kind, "capture", captures, capture),
        (kind, "destroy", destroyed, destroy), (graph, "replay", replayed, replay),
    ):  # fmt: skip
        setattr(owner, name, functools.wraps(plain)(new))  # pyright: ignore[reportArgumentType]
    replace(host_streams.synchronize, _synchronize(host_streams.synchronize))
    replace(host_streams.finish_all, _finish_all(host_streams.finish_all))


def _synchronize(plain: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(plain)
    def synchronize(stream: Any) -> None:
        handle = stream_handle(stream)
        awaits(handle)
        with wait_for("stream.synchronize", handle):
            plain(stream)

    return synchronize


def _finish_all(plain: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(plain)
    def finish_all() -> None:
        awaits()
        with wait_for("synchronize", *_agents):
            plain()

    return finish_all


def begin() -> None:
    """A job begins: the streams of the last one have ended with it."""
    _agents.clear()
    sim_calls.forget()
