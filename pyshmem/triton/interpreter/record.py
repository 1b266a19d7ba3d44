# SPDX-License-Identifier: BSD-3-Clause
"""Records for the checker of order what interpreted programs access, and what orders them.

Each program is an agent: number 1 + its number in the grid. Elements are seen where Triton's
interpreter loads and stores them, also those of tiles on peers, which lie where the PE sees the peer's
heap. What the library moves for itself, as packets of LL, is part of a routine and not shown. Nothing of
it is imported while ``order`` is off.
"""

from __future__ import annotations

import functools
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl

from ..._core.errors import UnsupportedError
from ..._core.library import checks_deliver
from ..._foreign import triton_interpreter as foreign
from ..._foreign.triton_interpreter import get_np_dtype
from ...check import effects, memory
from ...check import log as check_log
from ...check.effects import Effects
from ...check.log import inside, now
from ...check.record import held, log
from ..runtime import constants as words
from ..runtime import context as job
from . import scheduler

_MOST = 4096  # elements of one volatile load, or atomic, that are followed
#: Modules of routines whose loads and stores are the user's own elements.
_SEEN = ("tile", "signals", "collectives", "dist")
#: Those whose loads and stores are packets with their flags in them, also where the library's are shown.
_PACKETS = ("ll_channels", "primitives.ring", "primitives.by_proxy", "requests")
_PACKAGE = __package__.rpartition(".")[0] + "."
_calls: Counter[Any] = Counter()
_internals: Any = None  # the module own_kernels, where the library's own kernels are followed
_late: Any = None  # the module late_stores, with PYSHMEM_CHECK=deliver


def _write(name: str, did: Effects) -> None:
    program = scheduler.current()
    program.polled = None
    if did:
        log().write(now(), 1 + program.number, name, did)


# ---- launches ------------------------------------------------------------------------------------


def begins(grid: Any) -> None:
    """The host launches a kernel: its programs know what the host knows.

    What a routine of the library launches, as a fused operation, is part of that and not shown.
    """
    grid.internal = getattr(inside, "call", False) and not check_log.internals
    if grid.internal:
        for program in grid.ready:
            program.hidden, program.described = 1, True
        return
    if not job.settings()[0] and not check_log.internals:
        raise UnsupportedError(
            "PYSHMEM_CHECK=order does not follow kernels of Triton with PYSHMEM_P2P=0"
        )
    mode: Effects = [("I",)] if check_log.internals else []
    begun = ("B", 1, len(grid.ready), grid.name.rpartition(".")[2], 0)
    log().write(now(), 0, "launch", [*mode, begun])


def ends(grid: Any, programs: int) -> None:
    """The kernel has ended, and here the launch with it."""
    if _late is not None:
        _late.kernel_ends()
    if grid.internal:
        return
    log().write(now(), 0, "launch", [("J", 1, programs)])
    for key, count in grid.met.items():
        _calls[key] += count


def turned(grid: Any, idle: bool) -> bool:
    """All programs have had their turn: so have other PEs, with PYSHMEM_CHECK=deliver.

    ``idle``: they only waited. False: it is off.
    """
    delivery = held()
    if delivery is None:
        return False
    if grid.ready:
        delivery.round(idle)
        programs = list(grid.ready)
        delivery.random.shuffle(programs)
        grid.ready = deque(programs)
    return True


# ---- elements ------------------------------------------------------------------------------------


class _Words(memory.Span):
    """Words from a scalar pointer on, as descriptions take them."""

    __slots__ = ()

    def __init__(self, pointer: Any) -> None:
        self.nelems = 1
        self.address = _number(pointer)
        self.dtype = np.dtype(get_np_dtype(pointer.dtype.element_ty))


def _signal_of(pointer: Any) -> _Words:
    """A signal. Raises: memory.Unknown (a word of another size, which the routine refuses)."""
    word = _Words(pointer)
    if word.dtype.itemsize != 8:
        raise memory.Unknown
    return word


def _number(value: Any) -> int:
    if isinstance(value, tl.tensor):
        return int(value.handle.data.reshape(-1)[0])
    return int(getattr(value, "value", value))


def _places(pointers: Any, mask: Any) -> Iterator[tuple[int, int, Any]]:
    """PE, heap and byte ranges of the elements that a mask lets through, of each heap by itself."""
    size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
    addresses = np.unique(_flat(pointers, mask))
    for low, high, pe, heap in memory.windows():
        if addresses.size:
            inside = (addresses >= low) & (addresses < high)
            if inside.any():
                offsets = (addresses[inside] - np.uint64(low)).astype(np.int64)
                yield pe, heap, memory.joined(offsets.tolist(), size)
                addresses = addresses[~inside]


def _flat(handle: Any, mask: Any) -> np.ndarray:
    data = np.asarray(handle.data)
    if mask is None:
        return data.reshape(-1)
    data, on = np.broadcast_arrays(data, np.asarray(mask.data).astype(bool))
    return data[on].reshape(-1)


def _is_seen() -> bool:
    return scheduler.in_kernel() and not scheduler.current().hidden


def _name(plain: str) -> str:
    """The routine that touches elements, or what the program does by itself."""
    return scheduler.current().routine or plain


def _load(plain: Callable[..., Any]) -> Callable[..., Any]:
    def load(self: Any, pointers: Any, mask: Any, other: Any, *hints: Any) -> Any:
        if not _is_seen():
            return plain(self, pointers, mask, other, *hints)
        if not hints[-1]:
            for place in _places(pointers, mask):
                _touch("read", ("r", *place))
                if never := memory.never_written(place, whole=True):
                    _write("read", never)
        found = plain(self, pointers, mask, other, *hints)
        if hints[-1]:
            _polled(pointers, mask, found)
        else:
            scheduler.current().loaded = _bits(pointers, found, mask)
        return found

    return load


def _bits(pointers: Any, values: Any, mask: Any) -> tuple[bytes, bytes]:
    """Places, and what is there."""
    return _flat(pointers, mask).tobytes(), _flat(values, mask).tobytes()


def _touch(plain: str, effect: tuple[Any, ...]) -> None:
    program = scheduler.current()
    program.polled = None
    log().touch(1 + program.number, _name(plain), effect)


def _polled(pointers: Any, mask: Any, found: Any) -> None:
    """A volatile load, by which kernels poll: who sees a value has heard its writer."""
    addresses, values = _flat(pointers, mask), _flat(found, mask)
    program = scheduler.current()
    seen = addresses.tobytes(), values.tobytes()
    if program.polled == seen or values.dtype.kind not in "iu" or addresses.size > _MOST:
        return
    did = []
    for address, value in zip(addresses.tolist(), values.tolist(), strict=True):
        at = memory.where(address)
        if at is not None:
            end = at[2] + values.dtype.itemsize
            did.append(("Y", *at, end, effects.EQUAL, value, value, value))
    _write("volatile load", did)
    program.polled = seen


def _store(plain: Callable[..., Any]) -> Callable[..., Any]:
    def store(self: Any, pointers: Any, value: Any, mask: Any, *hints: Any) -> Any:
        # A tile that is put back where it was loaded from, as a copy to oneself, changes nothing.
        if _is_seen() and scheduler.current().loaded != _bits(pointers, value, mask):
            written = _flat(value, mask)
            one = written.size == 1 and written.dtype.kind in "iu"
            integer = int(written[0]) if one else None
            same = zlib.crc32(np.ascontiguousarray(written).tobytes())
            for place in _places(pointers, mask):
                _touch("store", ("w", *place, integer, same))
        return plain(self, pointers, value, mask, *hints)

    return store


# ---- atomics -------------------------------------------------------------------------------------

_RELAXED: Effects = [("R",)]
_CHANGES = {"ADD": "add", "XCHG": "set"}


def _words_of(pointers: Any, mask: Any) -> list[tuple[int, tuple[int, int, int, int]]]:
    """Number among the elements, PE, heap and byte range of each word on a heap."""
    size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
    found = []
    for n, address in enumerate(_flat(pointers, mask).tolist()[:_MOST]):
        at = memory.where(address)
        if at is not None:
            found.append((n, (at[0], at[1], at[2], at[2] + size)))
    return found


def _released(sem: Any) -> Effects:
    """A release goes out behind all that the program has stored; else it tells of nothing since."""
    done, not_done = (("Pf",), []) if check_log.internals else (("Q", None, None), _RELAXED)
    return [done] if "RELEASE" in str(sem).upper() else not_done


def _integers(handle: Any, mask: Any) -> list[int | None]:
    values = _flat(handle, mask)
    return values.tolist() if values.dtype.kind in "iu" else [None] * values.size


def _atomically(
    pointers: Any,
    mask: Any,
    sem: Any,
    op: str,
    values: list[int | None],
    did: Callable[[], Any],
    compared: Any = None,
) -> Any:
    """``did``, an atomic operation on each element, between its records; it returns the old values."""
    places, name = _words_of(pointers, mask), _name("atomic")
    begun = [("b", *place[:4], op, values[n]) for n, place in places]
    order = _released(sem)
    _write(name, [*order, *begun] if places else [])
    result = did()
    old = _integers(result, mask)
    done: Effects = [*order] if places and order == _RELAXED else []
    for n, place in places:
        now_is = op
        if op == "compare":
            now_is = "set" if old[n] == compared[n] else "get"
        done.append(("a", *place, 0, now_is, values[n], old[n], True))
    _write(name, done)
    return result


def _rmw(plain: Callable[..., Any]) -> Callable[..., Any]:
    def rmw(self: Any, op: Any, pointer: Any, value: Any, mask: Any, sem: Any, scope: Any) -> Any:
        call = functools.partial(plain, self, op, pointer, value, mask, sem, scope)
        if not _is_seen():
            return call()
        kind = _CHANGES.get(str(op).rpartition(".")[2], "other")
        return _atomically(pointer, mask, sem, kind, _values(pointer, value, mask), call)

    return rmw


def _values(pointer: Any, value: Any, mask: Any) -> list[int | None]:
    """The operand of each word that the mask lets through."""
    if np.asarray(value.data).dtype.kind not in "iu":
        return [None] * _flat(pointer, mask).size
    wide = np.broadcast_to(np.asarray(value.data), np.asarray(pointer.data).shape)
    on = True if mask is None else np.broadcast_to(np.asarray(mask.data).astype(bool), wide.shape)
    return list(wide[on].reshape(-1).tolist())


def _cas(plain: Callable[..., Any]) -> Callable[..., Any]:
    def cas(self: Any, pointer: Any, compare: Any, value: Any, sem: Any, scope: Any) -> Any:
        call = functools.partial(plain, self, pointer, compare, value, sem, scope)
        if not _is_seen():
            return call()
        given = _values(pointer, value, None), _values(pointer, compare, None)
        return _atomically(pointer, None, sem, "compare", given[0], call, given[1])

    return cas


def _atomic_store(plain: Callable[..., Any]) -> Callable[..., Any]:
    def store(self: Any, pointer: Any, value: Any, mask: Any, sem: Any, scope: Any) -> Any:
        if not _is_seen():
            return plain(self, pointer, value, mask, sem, scope)
        values = _values(pointer, value, mask)
        changes = [
            ("a", *place, 0, "set", values[n], None, False) for n, place in _words_of(pointer, mask)
        ]
        _write(_name("atomic store"), [*_released(sem), *changes])
        with scheduler.current().unseen():
            return plain(self, pointer, value, mask, sem, scope)

    return store


# ---- routines ------------------------------------------------------------------------------------


def called(function: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the library with records: of the outermost call that has a description."""
    module, name = function.__module__.removeprefix(_PACKAGE), function.__name__
    ours = function.__module__.startswith(_PACKAGE)
    describe = _DESCRIBED.get((module, name)) if ours else None
    hides = ours and module not in _SEEN
    if check_log.internals:
        describe = _internals.DESCRIBED.get((module, name)) if ours else None
        hides = ours and module in _PACKETS
    bind = effects.Binder(function)
    if ours and _late is not None:
        plain = _late.called(module, name, bind, plain)

    def call(*arguments: Any, **named: Any) -> Any:
        program = scheduler.current()
        outer = program.routine
        program.routine = outer or name
        try:
            if describe is None or program.described:
                if not hides:
                    return plain(*arguments, **named)
                with program.unseen():
                    return plain(*arguments, **named)
            given = bind(arguments, named)
            program.described = True
            try:
                return _between(program, name, describe, given, plain, hides)
            finally:
                program.described = False
        finally:
            program.routine = outer

    return call


def _between(
    program: Any, name: str, describe: Any, given: dict[str, Any], plain: Any, hides: bool
) -> Any:
    """The call between its two records."""
    try:
        before, behind = describe(given)
    except effects.REFUSED:  # by the routine itself
        before, behind = [], None
    _write(program.routine or name, before)
    log().flush()
    if hides:
        with program.unseen():
            result = plain(**given)
    else:
        result = plain(**given)
    if behind is not None:
        _write(program.routine or name, behind(result))
    return result


def _deliver(a: dict[str, Any]) -> effects.Described:
    """A signal: behind all that the program has stored, or relaxed, behind nothing."""
    word = _signal_of(a["sig_addr"])
    heap, low = memory.own(word.address)
    op = "add" if _number(a["sig_op"]) == _number(words.SIGNAL_ADD) else "set"
    sent = ("d", _number(a["pe"]), None, 0, (heap, low, low + 8), op, _number(a["signal"]))
    relaxed = getattr(a["sem"], "value", a["sem"]) == "relaxed"
    return [*_RELAXED, sent] if relaxed else [("Q", None, None), sent], None


def _stands(span: _Words, rows: Any, cmp: int, how: str = "all") -> Effects:
    """What is waited for, for reports of a hang: of one's own words."""
    at = memory.where(span.address)
    return [effects.stands(span, rows, cmp, how)] if at is not None and at[0] == memory.me else []


def _wait(word: str) -> Callable[[dict[str, Any]], effects.Described]:
    def describe(a: dict[str, Any]) -> effects.Described:
        span, value = _Words(a[word]), _number(a["cmp_value"])
        waited = effects.wait_for(span, 0, _number(a["cmp"]), value)
        return _stands(span, [(0, value)], _number(a["cmp"])), lambda _: [waited(None)]

    return describe


def _wait_set(which: str) -> Callable[[dict[str, Any]], effects.Described]:
    def describe(a: dict[str, Any]) -> effects.Described:
        span, value, cmp = _Words(a["ivars"]), _number(a["cmp_value"]), _number(a["cmp"])
        count = _number(a["nelems"])
        waits = [effects.wait_for(span, n, cmp, value) for n in range(count)]
        rows = [(n, value) for n in range(count)]
        stands = _stands(span, rows, cmp, which) if count else []

        def behind(result: Any) -> Effects:
            if which == "all":
                return [waited(None) for waited in waits]
            found = _number(result)
            return [waits[found](None)] if found >= 0 else []

        return stands, behind

    return describe


def _test(a: dict[str, Any]) -> effects.Described:
    span, value = _Words(a["ivar"]), _number(a["cmp_value"])
    waited = effects.wait_for(span, 0, _number(a["cmp"]), value)
    return [], lambda holds: [waited(None)] if _number(holds) else []


def _signal_fetch(a: dict[str, Any]) -> effects.Described:
    heap, low = memory.own(_number(a["sig_addr"]))
    seen = lambda got: ("a", memory.me, heap, low, low + 8, 0, "get", None, _number(got), True)  # noqa: E731
    return [], lambda got: [seen(got)]


def _quiet(_: Any) -> effects.Described:
    return [], lambda _: [("Q", None, None)]


# ---- what copy engines do for a program ------------------------------------------------------------


def _chunk(a: dict[str, Any]) -> tuple[_Words, _Words, int, int]:
    dest, source = _Words(a["dest"]), _Words(a["source"])
    if dest.dtype != source.dtype:
        raise memory.Unknown  # the routine refuses them
    dest.nelems = source.nelems = nelems = _number(a["nelems"])
    return dest, source, nelems, _number(a["pe"])


def _put_chunk(a: dict[str, Any]) -> effects.Described:
    """The source is in use until quiet; a signal comes behind these data, and behind nothing else."""
    dest, source, nelems, pe = _chunk(a)
    if nelems < 1:
        return [], None
    heap, low = memory.own(dest.address)
    data = heap, dest.ranges(low, nelems)
    read, signal = effects.reads(source, nelems, "rq", 0, pe), a["sig_addr"]
    if isinstance(signal, tl.tensor):
        where, at = memory.own(_signal_of(signal).address)
        word = where, at, at + 8
        return [*read, ("d", pe, data, 0, word, "set", _number(a["signal"]))], None
    return [*read, ("s", pe, *data, 0, None, source.digest(nelems))], None


def _get_chunk(a: dict[str, Any]) -> effects.Described:
    dest, source, nelems, pe = _chunk(a)
    if nelems < 1:
        return [], None
    heap, low = memory.own(source.address)
    written = effects.reads(dest, nelems, "wq", 0, pe)
    return [("rq", pe, heap, source.ranges(low, nelems), 0, pe), *written], None


# ---- tasks of a graph ------------------------------------------------------------------------------

_NEED_BYTES = 24  # of three words: where a count is, how much a launch adds, how much is enough


def _finish(a: dict[str, Any]) -> effects.Described:
    """A tile is done: who waits for it, or for all of its task, knows what was known here."""
    board, place, flags = (_number(a[key]) for key in ("board", "place", "flags"))
    done: Effects = [("A", ("task", board, place))]
    if flags >= 0:
        done.append(("A", ("task", board, flags + _number(a["tile"]))))
    return done, None


def _await_needs(a: dict[str, Any]) -> effects.Described:
    """All tiles of a task, or one of them: by then nobody else has counted there in this launch."""
    board, needs = _number(a["board"]), _number(a["needs"])
    places = [_number(a["place"])] if _number(a["each"]) > 0 else []
    for need in range(_number(a["need"]), _number(a["end"])):
        places.append(job.read(needs + _NEED_BYTES * need, 8, True))
    return [], lambda _: [("G", ("task", board, place), False) for place in places]


# ---- who is there ------------------------------------------------------------------------------------


def _team(a: dict[str, Any]) -> tuple[tuple[int, ...], int]:
    """The team's number and members, and this PE's number in it."""
    team, address = _number(a["team"]), _number(a["ctx"])
    if address != job.address() or not 0 <= team < _number(words.MAX_TEAMS):
        raise memory.Unknown
    read = lambda place: job.read(place, 8, True)  # noqa: E731
    if not team:
        n_pes = read(address + 8 * _number(words.N_PES))
        return (0, *range(n_pes)), memory.me
    row = read(address + 8 * _number(words.TEAMS)) + 8 * _number(words.TEAM_WORDS) * team
    if not read(row + 8 * _number(words.TEAM_N_PES)):
        raise memory.Unknown  # there is no such team
    n_pes, me, pes = (
        read(row + 8 * _number(word))
        for word in (words.TEAM_N_PES, words.TEAM_MY_PE, words.TEAM_PES)
    )
    return (team, *(job.read(pes + 4 * k, 4, True) for k in range(n_pes))), me


def _met(key: Any, me: Any, how: str = "all", root: int = 0) -> tuple[Effects, Effects]:
    """Coming to the meeting that is the next one under ``key``, and leaving it."""
    _calls[key] += 1
    which = "kernel", key, _calls[key]
    return [("E", which, me)], [("X", which, me, 0, how, root)]


def _sync(a: dict[str, Any]) -> effects.Described:
    """Of a program of each member: memory is seen as after a signal."""
    enter, leave = _met(*_team(a))
    return [("Q", None, None), *enter], lambda _: leave


def _sync_grid(a: dict[str, Any]) -> effects.Described:
    """Of all programs: each comes for itself, and has heard all."""
    (team, me), program = _team(a), scheduler.current()
    key = (*team, "grid")
    program.met[key] += 1
    program.grid.met[key] = max(program.grid.met[key], program.met[key])
    which = "grid", key, _calls[key] + program.met[key]
    who = me if program.number == 0 else (me, program.number)
    leave = [("X", which, who, 0, "all", 0)]
    return [("Q", None, None), ("E", which, who)], lambda _: leave


def _tiles(how: str) -> Callable[[dict[str, Any]], effects.Described]:
    """Tiles of the programs of one number, by a channel, whose packets tell of nothing else."""

    def describe(a: dict[str, Any]) -> effects.Described:
        (team, me), (_, place) = _team(a), memory.own(_number(a["words"]))
        key = *team, "channel", place, scheduler.current().number
        enter, leave = _met(key, me, how, _number(a.get("root", 0)))
        return enter, lambda _: leave

    return describe


def _released_tiles(a: dict[str, Any]) -> effects.Described:
    """The same, and what the programs have stored before is done."""
    enter, leave = _tiles("all")(a)
    return [("Q", None, None), *enter], leave


_DESCRIBED: dict[tuple[str, str], Any] = {
    ("signals", "_deliver"): _deliver,
    ("signals", "signal_wait_until"): _wait("sig_addr"),
    ("signals", "wait_until"): _wait("ivar"),
    ("signals", "wait_until_all"): _wait_set("all"),
    ("signals", "wait_until_any"): _wait_set("any"),
    ("signals", "test"): _test,
    ("signals", "signal_fetch"): _signal_fetch,
    ("ordering", "fence"): _quiet,
    ("ordering", "quiet"): _quiet,
    ("ordering", "sync"): _sync,
    ("ordering", "barrier"): _sync,
    ("ordering", "sync_grid"): _sync_grid,
    ("ordering", "barrier_grid"): _sync_grid,
    ("task_source", "finish"): _finish,
    ("task_source", "await_needs"): _await_needs,
    ("requests", "put_chunk"): _put_chunk,
    ("requests", "get_chunk"): _get_chunk,
    ("collectives", "all_reduce"): _tiles("all"),
    ("collectives", "broadcast"): _tiles("root"),
    ("collectives", "fcollect"): _tiles("all"),
    ("collectives", "alltoall"): _tiles("all"),
    ("collectives", "_sync_members"): _released_tiles,
}


def install() -> None:
    """Put records around the interpreter's loads, stores and atomics."""
    global _late, _internals
    if checks_deliver():
        from . import late_stores

        _late = late_stores
        late_stores.install()
    if check_log.internals:
        from . import own_kernels

        _internals = own_kernels
        own_kernels.install(_write)
    foreign.LOAD.wrap(_load)
    foreign.STORE.wrap(_store)
    foreign.ATOMICS[0].wrap(_cas)
    foreign.ATOMICS[1].wrap(_rmw)
    foreign.repair({"create_atomic_store": _atomic_store})
