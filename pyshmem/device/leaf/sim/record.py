# SPDX-License-Identifier: BSD-3-Clause
"""Records for the checker of order what simulated kernels access, and what orders their threads.

Each thread of a kernel is an agent: number 1 + its place in the grid. The numbers are those of the next
launch again, for that begins with what the host knows by then. Nothing of it is imported while
``order`` is off.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.type_table import ATOMIC_FAMILY
from ...._foreign import numba_simulator
from ....check import effects, memory, streams
from ....check.delivery.accepted import SENDING
from ....check.log import now
from ....check.record import held, log, originals
from . import queued
from .arrays import KernelArray, cast, match, ndarray_of, require, unwrapped
from .greenlets import Grid, Group, SimThread, running

_SUFFIXES = {"_warp": "warp", "_work_group": "block", "_grid": "grid"}
_ARRAYS = ("dest", "source", "sig_addr", "ivar", "ivars", "fetch", "lock")
_WAITING = ("wait", "test", "sync", "barrier")
_signal_word = require("signal")
_meetings: Counter[Any] = Counter()
_of_groups: dict[Any, int] = {}


def agent_of(thread: SimThread) -> int:
    """The number of a thread of the running kernel."""
    place: int = thread.block.index * thread.block.size + thread.thread_id
    return thread.grid.agent + 1 + place


def _write(thread: SimThread, name: str, did: list[tuple[Any, ...]]) -> None:
    log().write(now(), agent_of(thread), name, did)


# ---- launches and barriers -----------------------------------------------------------------------


def begins(grid: Grid, block_threads: int) -> None:
    """A kernel begins: its threads know what its stream knows, or the host that launches it."""
    grid.agent, site = streams.here()
    threads = grid.blocks * block_threads
    did = [("B", grid.agent + 1, threads, grid.name, block_threads)]
    log().write_at(now(), grid.agent, site or log().site(), "launch", did)


def ends(grid: Grid, block_threads: int) -> None:
    """The kernel has ended, and here the launch with it."""
    _, site = streams.here()
    did = [("J", grid.agent + 1, grid.blocks * block_threads)]
    log().write_at(now(), grid.agent, site or log().site(), "launch", did)
    _of_groups.clear()
    for key in [key for key in _meetings if isinstance(key[0], Group)]:
        del _meetings[key]


def put(handle: int, captured: bool, run: Callable[[], None]) -> Callable[[], None]:
    """The host puts ``run``, a kernel, on a stream: what the stream is to call."""
    return streams.kernel("launch", handle, captured, run)


#: Kernels run one after the other.
one_kernel = streams.one_kernel
#: The host is about to wait for streams.
awaits = streams.awaits
#: And waits for one.
wait_for = streams.wait_for


def events(finish_all: Callable[[], None]) -> None:
    """Numba's events order what comes behind their wait after what was before their record."""

    def record(self: Any, stream: Any = 0) -> None:
        streams.event_recorded(self, queued.handle_of(stream))

    def wait(self: Any, stream: Any = 0) -> None:
        streams.event_awaited(self, queued.handle_of(stream), finish_all)

    numba_simulator.EVENT_RECORD.replace(record)
    numba_simulator.EVENT_WAIT.replace(wait)
    numba_simulator.EVENT_SYNCHRONIZE.replace(lambda self: wait(self))


def met(threads: list[SimThread]) -> None:
    """Threads of a group have all come to a barrier, and none has left it."""
    pending = [(thread, thread.pending) for thread in threads if thread.pending]
    _write(threads[0], "barrier", [("H", tuple(agent_of(thread) for thread in threads))])
    for thread, (site, name, did) in pending:
        thread.pending = None
        log().write_at(now(), agent_of(thread), site, name, did)


# ---- elements ------------------------------------------------------------------------------------


def _seen() -> SimThread | None:
    """The thread of a kernel that touches an element, unless a routine of the library does."""
    thread = running.thread
    return None if thread is None or thread.routine or thread.grid.internal else thread


def _place_of(array: np.ndarray, index: Any) -> tuple[Any, np.ndarray]:
    """Where elements are: PE, heap and ranges, or None; and the elements."""
    whole = index if isinstance(index, tuple) else (index,)
    try:
        part = np.ndarray.__getitem__(array.view(np.ndarray), (*whole, Ellipsis))
    except (IndexError, TypeError):
        return None, array  # NumPy tells
    return memory.ranges_of(part), part


def _element(array: np.ndarray, index: Any, code: str, value: Any = None) -> None:
    thread = _seen()
    if thread is None or in_atomic():
        return
    found, part = _place_of(array, index)
    if found is None:
        return
    if code == "r":
        log().touch(agent_of(thread), "read", ("r", *found))
        if never := memory.never_written(found):
            _write(thread, "read", never)
    else:
        one = part.size == 1 and np.size(value) == 1
        integer = one and part.dtype.kind in "iu"
        same = hash(str(value)) if one else None
        written = int(value) if integer else None
        log().touch(agent_of(thread), "store", ("w", *found, written, same))


#: The module of teams' rows, which stands above the leaves: ``pyshmem.device`` names it.
teams: Any = None
_atomics = 0


def in_atomic() -> bool:
    """Is an element touched by one of Numba's atomic operations?"""
    return _atomics > 0


#: What Numba's operations do to a word, of those that a wait's sum can follow.
_CHANGES = {"add": ("add", 1), "sub": ("add", -1), "exch": ("set", 1)}


def _atomic(plain: Callable[..., Any]) -> Callable[..., Any]:
    op, sign = _CHANGES.get(plain.__name__, ("other", 1))

    def at_once(*args: Any) -> Any:
        global _atomics
        _atomics += 1
        try:
            return plain(*args)
        finally:
            _atomics -= 1

    def call(self: Any, array: Any, *given: Any) -> Any:
        thread = _seen()
        index = 0 if plain.__name__ == "compare_and_swap" else given[0]
        found, part = (None, None) if thread is None else _place_of(array, index)
        if thread is None or part is None or found is None or part.size != 1:
            return at_once(self, array, *given)
        pe, heap, ((low, high),) = found
        known = op != "other" and part.dtype.kind in "iu"
        value = sign * int(given[1]) if known else None
        _write(thread, "cuda.atomic", [("b", pe, heap, low, high, op, value)])
        old = at_once(self, array, *given)
        seen = int(old) if known else None
        _write(thread, "cuda.atomic", [("a", pe, heap, low, high, 0, op, value, seen, True)])
        return old

    return call


def install() -> None:
    """Put records around what kernels do with elements."""
    get, put = KernelArray.__getitem__, KernelArray.__setitem__
    by_elements = KernelArray.__array_ufunc__

    def getitem(self: Any, index: Any) -> Any:
        found = get(self, index)
        if not isinstance(found, np.ndarray):
            _element(self, index, "r")
        return found

    def setitem(self: Any, index: Any, value: Any) -> None:
        _element(self, index, "w", value)
        put(self, index, value)

    def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        found = by_elements(self, ufunc, method, *inputs, **named)
        for code, arrays in (("r", inputs), ("w", named.get("out", ()))):
            for one in arrays:
                if isinstance(one, KernelArray):
                    _element(one, (), code, one.view(np.ndarray))
        return found

    KernelArray.__getitem__ = getitem  # type: ignore[method-assign]
    KernelArray.__array_ufunc__ = array_ufunc  # type: ignore[method-assign]
    KernelArray.__setitem__ = setitem  # type: ignore[method-assign]
    numba_simulator.around_atomics(_atomic)


# ---- routines ------------------------------------------------------------------------------------


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, a public routine, with records of what it does: of the outermost call alone."""
    name = function.__name__
    suffix = next((s for s in _SUFFIXES if name.endswith(s)), "")
    base = name.removesuffix(suffix)
    describe = _described(base)
    bind = effects.Binder(function)

    def call(thread: SimThread, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if thread.grid.internal:
            return function(*arguments, **named)
        try:
            bound = bind(arguments, named)
            given = _given(bound)
            if base in SENDING:
                _take(base, bound, given)
            before, behind = describe(given) if describe is not None else ([], None)
        except effects.REFUSED:  # by the routine itself
            return function(*arguments, **named)
        do = _delivered(base, given, before, lambda: function(*arguments, **named))
        if suffix:
            return _of_group(thread, suffix, (name, before, behind), do)
        if before:
            _write(thread, name, before)
        result = do(None, True)
        if behind is not None and (did := behind(result)):
            _write(thread, name, did)
        return result

    return call


def _of_group(
    thread: SimThread,
    suffix: str,
    what: tuple[str, Any, Any],
    do: Callable[[Group | None, bool], Any],
) -> Any:
    """A group meets on entry, its first thread does the work for all, and each has waited for itself."""
    name, before, behind = what
    waits = any(word in name for word in _WAITING) or name.removesuffix(suffix) in _COLLECTIVES
    group: Group = getattr(thread, _SUFFIXES[suffix])
    rank = thread.thread_id % 32 if suffix == "_warp" else thread.thread_id
    leads = rank == 0 and (suffix != "_grid" or thread.block.index == 0)
    if leads:
        early = [] if waits or behind is None else behind(None)
        if before or early:
            thread.pending = log().site(), name, [*before, *early]
    if group.size == 1 and thread.pending:
        met([thread])
    result = do(group, leads)
    if waits and behind is not None and (did := behind(result)):
        _write(thread, name, did)
    return result


def _delivered(
    base: str, given: dict[str, Any], before: Any, plain: Callable[[], Any]
) -> Callable[[Group | None, bool], Any]:
    """``plain``, a call of a routine; with PYSHMEM_CHECK=deliver it may come late.

    It takes the group that calls it, if one does, and whether this thread does the work.
    """
    delivery = held()
    if delivery is None:
        return lambda group, leads: plain()
    host = originals[base] if base in SENDING else None
    return lambda group, leads: delivery.in_kernel(
        base, given, before, host, (plain, _meeting_of(group), leads)
    )


def _family_of(base: str) -> str:
    """The types of what a routine updates that takes no source and no signal."""
    if base == "p":
        return "element"
    op = base.removeprefix("atomic_")
    return "a" if op == "inc" else ATOMIC_FAMILY[op]


def _take(base: str, arguments: dict[str, Any], given: dict[str, Any]) -> None:
    """TypeError: a routine of kernels that sends something does not take these types, so has no effect.

    The host's of its name, which sends what comes late, takes others: in ``given`` it finds values as
    kernels convert them.
    """
    if "source" in arguments:
        match(arguments["dest"], arguments["source"])
    if "sig_addr" in arguments:
        _signal_word(arguments["sig_addr"])
        given["signal"] = int(cast(given["sig_addr"], given["signal"]))
    elif "source" not in arguments:
        require(_family_of(base))(arguments["dest"])
        if "value" in arguments:
            given["value"] = cast(given["dest"], given["value"])


def _meeting_of(group: Group | None) -> Callable[[], None]:
    """Waits until all threads of a group are in its routine."""

    def meet() -> None:
        thread = running.thread
        if group is not None and group.size > 1 and thread is not None:
            group.wait(thread, thread.routine)

    return meet


def turned(grid: Grid, idle: bool) -> bool:
    """All threads of a kernel have had their turn: so have other PEs, with PYSHMEM_CHECK=deliver.

    ``idle``: they only polled. False: it is off, or the kernel is a part of an operation of the library.
    """
    delivery = None if grid.internal else held()
    if delivery is None:
        return False
    delivery.round(idle)
    threads = list(grid.ready)
    delivery.random.shuffle(threads)
    grid.ready = deque(threads)
    return True


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, as descriptions of the host's routines take them."""
    given = {"nelems": None, "ctx": None, "status": None, **arguments}
    for name in _ARRAYS:
        if name in given:
            given[name] = ndarray_of(unwrapped(given[name])).view(np.ndarray)
    if "nreduce" in given:
        given["nelems"] = given["nreduce"]
    if "pes" in given:
        given["pes"] = [int(pe) for pe in _plain(given["pes"])[: int(given["npes"])]]
    if (ctx := given["ctx"]) is not None:
        if "pe" in given:
            given["pe"] = teams.on_context(ctx, given["pe"])
        given["pes"] = [teams.on_context(ctx, pe) for pe in given.get("pes", ())]
        given["ctx"] = None
    for name in ("pe", "nelems"):
        if given.get(name) is not None:
            given[name] = int(given[name])
    return given


def _described(base: str) -> effects.Describe | None:
    """What a routine of kernels does: in most cases what the host's of its name does."""
    if base in ("team_sync", "sync", "sync_all"):
        return _sync
    if base == "barrier_all":
        return _barrier
    if base in _COLLECTIVES:
        return lambda given: _collective(base, given)
    if match := re.fullmatch(r"(?:wait_until|test)_(all|any|some)(_vector)?", base):
        return _wait_set(match[1], bool(match[2]))
    return effects.ROUTINES.get(base)


_COLLECTIVES = frozenset(effects.MOVED)


def _team_key(given: dict[str, Any]) -> tuple[Any, int, int]:
    """The team's members, this PE's number in it, and how many there are."""
    team = int(given.get("team", 0))
    if not 0 <= team < teams.MAX_TEAMS:
        raise memory.Unknown  # the routine records a fault
    row = teams.state(teams.TEAMS) + 8 * teams.DEVICE_TEAM_WORDS * team
    if team and not teams.fixed64(row + 8 * teams.words.DEVICE_TEAM_N_PES):
        raise memory.Unknown
    n = teams.row_n_pes(row)
    members = (int(teams.member_pe(row, k)) for k in range(n))
    return (team, *members), int(teams.row_my_pe(row)), int(n)


def _meet(given: dict[str, Any], how: str, root: int) -> tuple[Any, Any, int, int]:
    """Coming and leaving. Groups come one after the other; each thread leaves by itself."""
    key, me, n = _team_key(given)
    thread = running.thread
    assert thread is not None
    suffix = next((s for s in _SUFFIXES if thread.routine.endswith(s)), "")
    if not suffix:
        _meetings[key] += 1
        number = _meetings[key]
    else:
        group = getattr(thread, _SUFFIXES[suffix])
        _meetings[group, key, thread.thread_id, thread.block.index] += 1
        call = group, key, _meetings[group, key, thread.thread_id, thread.block.index]
        if call not in _of_groups:
            _meetings[key] += 1
            _of_groups[call] = _meetings[key]
        number = _of_groups[call]
    meeting = "kernel", key, number
    return ("E", meeting, me), ("X", meeting, me, 0, how, root), me, n


def _sync(given: dict[str, Any]) -> effects.Described:
    enter, leave, _, _ = _meet(given, "all", 0)
    return [enter], lambda _: [leave]


def _barrier(given: dict[str, Any]) -> effects.Described:
    enter, leave, _, _ = _meet(given, "all", 0)
    return [("Q", None, None), enter], lambda _: [leave]


def _collective(base: str, given: dict[str, Any]) -> effects.Described:
    """As on the host, but dest is written when the group comes in: behind that nobody else uses it."""
    many_in, many_out, how = effects.MOVED[base]
    enter, leave, me, n = _meet(given, how, int(given.get("root", 0)))
    source, dest = memory.Span(given["source"]), memory.Span(given["dest"])
    nelems = int(given["nelems"])
    found, did = memory.where(source.address), [enter]
    gives, gets = nelems * (n if many_in else 1), nelems * (n if many_out else 1)
    sst, dst = int(given.get("sst", 1)), int(given.get("dst", 1))
    if gives and found is not None and not (how == "root" and me != int(given["root"])):
        did = [("r", *found[:2], source.ranges(found[2], gives, sst)), *did]
    to = memory.where(dest.address)
    if gets and many_out is not None and to is not None:
        did.append(("w", *to[:2], dest.ranges(to[2], gets, dst), None))
    return did, lambda _: [leave]


def _plain(array: Any) -> Any:
    """An argument's elements in one dimension, which are read without a record; None: it is no array."""
    array = unwrapped(array)
    if array is None or np.ndim(array) == 0:
        return None
    return ndarray_of(array).view(np.ndarray).reshape(-1)


def _wait_set(which: str, vector: bool) -> effects.Describe:
    """Who has waited for some of a set has heard those that the routine tells, and no others."""

    def describe(given: dict[str, Any]) -> effects.Described:
        span = memory.Span(given["ivars"])
        values = _plain(given["cmp_values"]) if vector else None
        status = _plain(given["status"])
        count = span.nelems if given["nelems"] is None else given["nelems"]
        if count > min(span.nelems, count if values is None else values.size):
            raise memory.Unknown  # a fault of the kernel
        left = [n for n in range(count) if status is None or n >= status.size or not status[n]]
        rows = {n: given["cmp_value"] if values is None else values[n] for n in left}
        waits = {n: effects.wait_for(span, n, given["cmp"], v) for n, v in rows.items()}
        indices = _plain(given["indices"]) if which == "some" else None

        def behind(result: Any) -> list[tuple[Any, ...]]:
            if which == "any":
                told = [int(result)]
            elif indices is not None:
                told = [int(n) for n in indices[: int(result)]]
            else:
                told = left if result is None or result else []
            return [waits[n](None) for n in told if n in waits]

        return [], behind

    return describe
