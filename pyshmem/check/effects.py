# SPDX-License-Identifier: BSD-3-Clause
"""What each routine of the host accesses and orders, as the specification says.

A description takes the arguments by name. It returns the effects before the call, and a function that
makes of the call's result the effects behind it, or None where there are none. ``Engine`` names them.
"""

from __future__ import annotations

import inspect
import operator
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core.library import lib
from .._core.values import Cmp, SignalOp
from ..host.job import runtime
from ..host.teams.contexts import CTX_DEFAULT, Context
from ..host.teams.team import TEAM_WORLD, Channel, Team
from . import memory
from .log import result_is_dropped
from .memory import Span, Unknown, own
from .words import COMPARISONS

Effects = list[tuple[Any, ...]]
Arguments = dict[str, Any]
Behind = Callable[[Any], Effects]
Described = tuple[Effects, "Behind | None"]
Describe = Callable[[Arguments], Described]

#: What a description raises of arguments that the routine itself refuses.
REFUSED = (Unknown, LookupError, TypeError, ValueError, ArithmeticError, AttributeError)

_COMPARED = {int(cmp): n for n, cmp in enumerate((Cmp.EQ, Cmp.NE, Cmp.GT, Cmp.GE, Cmp.LT, Cmp.LE))}

#: The number of CMP_EQ among comparisons.
EQUAL = _COMPARED[int(Cmp.EQ)]
#: Of the default context: barriers, locks and what frees promise no more, though here they do more.
QUIET: tuple[Any, ...] = ("Q", 0, None)

# ---- arguments ---------------------------------------------------------------------------------

_BY_PLACE = inspect.Parameter.POSITIONAL_OR_KEYWORD
_NAMED = (_BY_PLACE, inspect.Parameter.KEYWORD_ONLY)


class Binder:
    """Binds the calls of one function; of ordinary ones much faster than ``inspect`` does."""

    __slots__ = ("_defaults", "_names", "_places", "signature")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        parameters = self.signature.parameters.values()
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._places = tuple(p.name for p in parameters if p.kind is _BY_PLACE)
        # Of a function that takes any arguments, or some by their place alone, ``inspect`` knows.
        plain = all(p.kind in _NAMED for p in parameters)
        self._names = frozenset(self.signature.parameters) if plain else None

    def __call__(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """All parameters and their values. Raises: TypeError (the function does not take them)."""
        if self._names is not None and len(args) <= len(self._places):
            given = dict(zip(self._places, args, strict=False))
            if named.keys() <= self._names and given.keys().isdisjoint(named):
                found = {**self._defaults, **given, **named}
                if len(found) == len(self._names):
                    return found
        return self.bound(args, named).arguments

    def bound(self, args: tuple[Any, ...], named: dict[str, Any]) -> inspect.BoundArguments:
        """The same, to call with. Raises: TypeError (the function does not take them)."""
        bound = self.signature.bind(*args, **named)
        bound.apply_defaults()
        return bound


# ---- who takes part ------------------------------------------------------------------------------

_teams: weakref.WeakKeyDictionary[Team, tuple[tuple[int, ...], int]] = weakref.WeakKeyDictionary()
_teams_of: Counter[tuple[int, ...]] = Counter()
_meetings: Counter[Any] = Counter()
#: Whose collectives are counted: those of streams, where this thread runs one, or the host's.
_way = threading.local()
_requests: dict[int, tuple[Any, Behind, Any]] = {}


def forget() -> None:
    """Another job begins."""
    _teams.clear()
    _teams_of.clear()
    _requests.clear()


def _world_pe(ctx: Context | None, pe: Any) -> int:
    number = operator.index(pe)
    if ctx is not None and ctx.handle and ctx.team is not TEAM_WORLD:
        number = int(lib.ishmemx_team_world_pe(ctx.team.handle, number))
    if not 0 <= number < runtime.current().n_pes:
        raise Unknown
    return number


def _ctx(ctx: Context | None) -> int:
    return 0 if ctx is None or ctx is CTX_DEFAULT else int(ctx.handle)


def _key_of(team: Any) -> tuple[Any, int, int]:
    """What a team is called on all its PEs, this PE's number in it, and how many there are."""
    team = getattr(team, "_row", getattr(team, "row", team))
    found = _teams.get(team)
    if found is None:
        pes = tuple(team.pes())
        found = _teams[team] = pes, _teams_of[pes]
        _teams_of[pes] += 1
    return found, team.my_pe(), len(found[0])


def name_team(given: Arguments) -> None:
    """All PEs name their teams in the same order: where the program calls, not where a stream comes."""
    team = given.get("team", given.get("self"))
    if isinstance(team, Team | Channel):
        _key_of(team)


@contextmanager
def on_stream() -> Iterator[None]:
    """Collectives that this thread describes meanwhile come in the order of a stream."""
    _way.name = "stream"
    try:
        yield
    finally:
        _way.name = ""


def meet(team: Any, how: str = "all", root: int = 0, begun: str = "") -> tuple[Effects, Effects]:
    """Coming to a collective, and leaving it."""
    key, pe, n = _key_of(team)
    name = (key, begun or getattr(_way, "name", ""))
    _meetings[name] += 1
    meeting = *name, _meetings[name]
    return [("E", meeting, pe)], [("X", meeting, pe, n, how, root)]


def meet_all() -> tuple[Effects, Effects]:
    """All PEs meet in a barrier: coming to it, and leaving it."""
    before, behind = meet(TEAM_WORLD)
    return [QUIET, *before], behind


def orders_nothing(effects: Effects) -> Effects:
    """A meeting as those who wait in it see it: nobody hears of anything, and nothing is complete.

    Routines that are collective and promise no order, and what the library sets up for itself.
    """
    left = [one for one in effects if one[0] not in ("Q", "F")]
    return [(*one[:4], "none", 0) if one[0] == "X" else one for one in left]


# ---- put and get ---------------------------------------------------------------------------------


def _count(given: Any, default: int) -> int:
    return default if given is None else operator.index(given)


def reads(span: Span, nelems: int, code: str = "r", *more: Any) -> Effects:
    """Reading the local side, where that is on a heap."""
    found = memory.where(span.address)
    if found is None or not nelems:
        return []
    pe, heap, offset = found
    return [(code, pe, heap, span.ranges(offset, nelems), *more)]


def writes(span: Span, nelems: int) -> Effects:
    found = memory.where(span.address)
    if found is None or not nelems:
        return []
    return [("w", found[0], found[1], span.ranges(found[2], nelems), None)]


def _put(a: Arguments) -> Described:
    dest, source = Span(a["dest"]), Span(a["source"])
    pe, ctx = _world_pe(a["ctx"], a["pe"]), _ctx(a["ctx"])
    nelems = _count(a["nelems"], source.nelems)
    heap, offset = own(dest.address)
    if not nelems:
        return [], None
    if pe == memory.me and dest.address == source.address:
        return reads(source, nelems), None  # to where it is
    value = source.value_of_each(nelems)
    sent = ("s", pe, heap, dest.ranges(offset, nelems), ctx, value, source.digest(nelems))
    return [*reads(source, nelems), sent], None


def _put_nbi(a: Arguments) -> Described:
    before, _ = _put(a)
    if not before:
        return [], None
    source, pe, ctx = Span(a["source"]), _world_pe(a["ctx"], a["pe"]), _ctx(a["ctx"])
    read = _reads_until_quiet(a, source, ctx, pe)
    return [*read, *(one for one in before if one[0] == "s")], None


def _reads_until_quiet(a: Arguments, source: Span, ctx: Any, pe: int) -> Effects:
    """Of a put that does not block: also what is on no heap."""
    nelems = _count(a["nelems"], source.nelems)
    if memory.where(source.address) is None:
        return memory.lend(a["source"], source, nelems, ctx, pe)
    return reads(source, nelems, "rq", ctx, pe)


def _get(a: Arguments) -> Described:
    dest, source = Span(a["dest"]), Span(a["source"])
    pe, nelems = _world_pe(a["ctx"], a["pe"]), _count(a["nelems"], dest.nelems)
    heap, offset = own(source.address)
    if not nelems:
        return [], None
    read = ("r", pe, heap, source.ranges(offset, nelems))
    return [], lambda _: [read, *writes(dest, nelems), *_never_set(pe, heap, offset, dest, nelems)]


def _never_set(pe: int, heap: int, offset: int, dest: Span, nelems: int) -> Effects:
    """What has come by ``get`` was never written; on a heap it is told where it is read."""
    if memory.where(dest.address) is not None:
        return []
    found = memory.first_unwritten(dest.address, ((0, nelems * dest.dtype.itemsize),), there=True)
    return [] if found is None else [("u", pe, heap, ((offset + found[0], offset + found[1]),))]


def _get_nbi(a: Arguments) -> Described:
    dest, source = Span(a["dest"]), Span(a["source"])
    pe, nelems = _world_pe(a["ctx"], a["pe"]), _count(a["nelems"], dest.nelems)
    heap, offset = own(source.address)
    if not nelems:
        return [], None
    ctx, found = _ctx(a["ctx"]), memory.where(dest.address)
    before: Effects = [("rq", pe, heap, source.ranges(offset, nelems), ctx, pe)]
    if found is not None:
        before.append(("wq", *found[:2], dest.ranges(found[2], nelems), ctx, pe))
    return before, None


def _p(a: Arguments) -> Described:
    dest = Span(a["dest"])
    heap, offset = own(dest.address)
    value = int(a["value"]) if dest.dtype.kind in "iu" else None
    pe = _world_pe(a["ctx"], a["pe"])
    same = hash(str(a["value"]))
    return [("s", pe, heap, dest.ranges(offset, 1), _ctx(a["ctx"]), value, same)], None


def _g(a: Arguments) -> Described:
    source = Span(a["source"])
    heap, offset = own(source.address)
    pe = _world_pe(a["ctx"], a["pe"])
    read = ("r", pe, heap, source.ranges(offset, 1))

    def behind(value: Any) -> Effects:
        never = memory.is_unwritten(value, source.dtype)
        return [read, *([("u", pe, heap, source.ranges(offset, 1))] if never else [])]

    return [], behind


def _strided(put: bool, blocks: bool) -> Describe:
    def describe(a: Arguments) -> Described:
        dest, source = Span(a["dest"]), Span(a["source"])
        block = operator.index(a["bsize"]) if blocks else 1
        steps = [block if a[name] is None else operator.index(a[name]) for name in ("dst", "sst")]
        near, step = (source, steps[1]) if put else (dest, steps[0])
        if min(steps) < block or block < 1:
            raise Unknown
        room = max(0, (near.nelems - block) // step + 1)
        count = _count(a["nblocks" if blocks else "nelems"], room)
        heap, offset = own((dest if put else source).address)
        pe, local = _world_pe(a["ctx"], a["pe"]), memory.where(near.address)
        if not count:
            return [], None
        here: Effects = []
        if local is not None:
            held = near.ranges(local[2], count, step, block)
            here = [("r" if put else "w", *local[:2], held, *(() if put else (None,)))]
        if put:
            there = dest.ranges(offset, count, steps[0], block)
            return [*here, ("s", pe, heap, there, _ctx(a["ctx"]), None)], None
        read = ("r", pe, heap, source.ranges(offset, count, steps[1], block))
        return [], lambda _: [read, *here]

    return describe


# ---- signals and atomics -------------------------------------------------------------------------


def _signal_word(array: Any) -> tuple[int, int, int]:
    heap, offset = own(Span(array).address)
    return heap, offset, offset + 8


def signal_op(sig_op: Any) -> str:
    """What a signal does to its word. Raises: ValueError."""
    return "add" if SignalOp(int(sig_op)) == SignalOp.ADD else "set"


def _put_signal(nbi: bool) -> Describe:
    def describe(a: Arguments) -> Described:
        dest, source = Span(a["dest"]), Span(a["source"])
        pe, ctx = _world_pe(a["ctx"], a["pe"]), _ctx(a["ctx"])
        nelems = _count(a["nelems"], source.nelems)
        data = None
        if nelems and not (pe == memory.me and dest.address == source.address):
            heap, offset = own(dest.address)
            data = heap, dest.ranges(offset, nelems)
        read = _reads_until_quiet(a, source, ctx, pe) if nbi else reads(source, nelems)
        word, how = _signal_word(a["sig_addr"]), signal_op(a["sig_op"])
        return [*read, ("d", pe, data, ctx, word, how, int(a["signal"]))], None

    return describe


def _signal(how: str | None) -> Describe:
    def describe(a: Arguments) -> Described:
        pe, op = _world_pe(a["ctx"], a["pe"]), how or signal_op(a["sig_op"])
        word = _signal_word(a["sig_addr"])
        return [("d", pe, None, _ctx(a["ctx"]), word, op, int(a["signal"]))], None

    return describe


def _signal_fetch(a: Arguments) -> Described:
    word = _signal_word(a["sig_addr"])
    return [], lambda seen: [("a", memory.me, *word, 0, "get", None, int(seen), True)]


def _atomic(op: str, fetches: bool, value: Any = None) -> Describe:
    """``op``: set, add, get, or other, of which the value is not followed."""

    def describe(a: Arguments) -> Described:
        word = Span(a["source"] if op == "get" else a["dest"])
        heap, offset = own(word.address)
        pe, ctx = _world_pe(a["ctx"], a["pe"]), _ctx(a["ctx"])
        given = a.get("value", value)
        change = int(given) if word.dtype.kind in "iu" and given is not None else None
        place = pe, heap, offset, offset + word.dtype.itemsize, ctx
        if not fetches:
            return [("a", *place, op, change, None, False)], None

        def behind(old: Any) -> Effects:
            done, seen = op, int(old) if word.dtype.kind in "iu" else None
            if op == "compare":
                done = "set" if old == a["cond"] else "get"
            return [("a", *place, done, change, seen, True)]

        # Another PE may see the new value before the result is recorded here.
        begun: Effects = [] if op == "get" else [("b", *place[:4], op, change)]
        return begun, behind

    return describe


def _atomic_nbi(op: str) -> Describe:
    """Of what is fetched nothing is known before quiet, and so nobody is heard."""

    def describe(a: Arguments) -> Described:
        word, fetch = Span(a["source"] if op == "get" else a["dest"]), Span(a["fetch"])
        heap, offset = own(word.address)
        pe, ctx, found = _world_pe(a["ctx"], a["pe"]), _ctx(a["ctx"]), memory.where(fetch.address)
        place = pe, heap, offset, offset + word.dtype.itemsize, ctx
        before: Effects = [("a", *place, op, None, None, False)]
        if found is not None:
            before.append(("wq", *found[:2], fetch.ranges(found[2], 1), ctx, pe))
        return before, None

    return describe


# ---- waits ---------------------------------------------------------------------------------------


def wait_for(span: Span, n: int, cmp: Any, value: Any) -> Callable[[int | None], tuple[Any, ...]]:
    """The effect of having waited for element ``n``; None before: it had to be waited for."""
    size = span.dtype.itemsize
    found = memory.where(span.address + n * size)
    if found is None:
        raise Unknown
    pe, heap, offset = found
    number, right = _COMPARED[int(cmp)], int(value)
    before = memory.peek(span.address + n * size, span.dtype)
    if before is not None and not COMPARISONS[number](before, right):
        before = None
    where = ("W",) if pe == memory.me else ("Y", pe)  # kernels of Triton wait for peers' words, too
    return lambda seen: (*where, heap, offset, offset + size, number, right, before, seen)


def holds(span: Span, n: int, cmp: Any, value: Any) -> bool:
    """Does element ``n`` compare now?"""
    seen = memory.peek(span.address + n * span.dtype.itemsize, span.dtype)
    return seen is not None and COMPARISONS[_COMPARED[int(cmp)]](seen, int(value))


def _wait_until(a: Arguments) -> Described:
    span = Span(a["ivar"])
    waited = wait_for(span, 0, a["cmp"], a["cmp_value"])
    return [stands(span, [(0, a["cmp_value"])], a["cmp"])], lambda _: [waited(None)]


def _test(a: Arguments) -> Described:
    waited = wait_for(Span(a["ivar"]), 0, a["cmp"], a["cmp_value"])
    return [], lambda holds: [waited(None)] if holds else []


def _signal_wait_until(a: Arguments) -> Described:
    span = Span(a["sig_addr"])
    waited = wait_for(span, 0, a["cmp"], a["cmp_value"])
    standing = stands(span, [(0, a["cmp_value"])], a["cmp"])
    # Of a value that the program drops it knows no more than that the comparison held.
    return [standing], lambda seen: [waited(None if result_is_dropped() else int(seen))]


def stands(span: Span, rows: Any, cmp: Any, how: str = "all") -> tuple[Any, ...]:
    """What the caller waits for from here on: elements of one array, and what each is compared with."""
    size = span.dtype.itemsize
    heap, offset = own(span.address)
    words = tuple((offset + n * size, int(value)) for n, value in rows)
    return ("N", "words", heap, words, _COMPARED[int(cmp)], how)


def _wait_set(which: str, vector: bool, waits_here: bool) -> Describe:
    def describe(a: Arguments) -> Described:
        span = Span(a["ivars"])
        count = _count(a["nelems"], span.nelems)
        status = a["status"]
        left = [n for n in range(count) if status is None or not np.ravel(status)[n]]
        values = np.ravel(a["cmp_values"]) if vector else None
        waits = {
            n: wait_for(span, n, a["cmp"], a["cmp_value"] if values is None else values[n])
            for n in left
        }

        rows = [(n, a["cmp_value"] if values is None else values[n]) for n in left]
        standing = [stands(span, rows, a["cmp"], which)] if waits_here and left else []

        def behind(result: Any) -> Effects:
            if which == "all":
                found: Iterable[int] = left if result is None or result else ()
            elif which == "any":
                found = () if result is None else (result,)
            else:
                found = result
            return [waits[int(n)](None) for n in found]

        return standing, behind

    return describe


# ---- order and collectives -----------------------------------------------------------------------


def _fence(a: Arguments) -> Described:
    return [("F", _ctx(a["ctx"]))], None


def _quiet(a: Arguments) -> Described:
    ctx = _ctx(a["ctx"])
    return [], lambda _: [("Q", ctx, None)]


def _pe_quiet(a: Arguments) -> Described:
    ctx = a["ctx"]
    pes = tuple(_world_pe(ctx, pe) for pe in a["pes"])
    return [], lambda _: [("Q", _ctx(ctx), pes)]


def _barrier_all(_: Arguments) -> Described:
    before, behind = meet_all()
    return before, lambda _: behind


def _sync(a: Arguments) -> Described:
    before, behind = meet(a.get("team", a.get("self", TEAM_WORLD)))
    return before, lambda _: behind


#: By routine: elements of the source that a PE gives, and of dest that it gets, in blocks of
#: ``nelems``: one, one for each PE, or none that are known; who hears whom.
MOVED: dict[str, tuple[bool, bool | None, str]] = {
    "broadcast": (False, False, "root"),
    "fcollect": (False, True, "all"),
    "collect": (False, None, "all"),
    "alltoall": (True, True, "all"),
    "alltoalls": (True, True, "all"),
    "sum_inscan": (False, False, "up"),
    "sum_exscan": (False, False, "up"),
    **{
        f"{op}_reduce": (False, False, "all")
        for op in ("and", "or", "xor", "max", "min", "sum", "prod")
    },
    **{
        f"{op}_reduce_scatter": (True, False, "all")
        for op in ("and", "or", "xor", "max", "min", "sum", "prod")
    },
}


def _collective(name: str, begun: str = "") -> Describe:
    many_in, many_out, how = MOVED[name]

    def describe(a: Arguments) -> Described:
        source, dest, team = Span(a["source"]), Span(a["dest"]), a["team"]
        root = operator.index(a.get("root", 0))
        before, behind = meet(team, how, root, begun)
        _, me, n = _key_of(team)
        sst, dst = operator.index(a.get("sst", 1)), operator.index(a.get("dst", 1))
        room = -(-source.nelems // sst)
        nelems = _count(a["nelems"], room // n if many_in else room)
        gives = nelems * (n if many_in else 1)
        gets = nelems * (n if many_out else 1)
        # The arrays of a request are its own from here until it is complete: as a context's of its own.
        read, written = ("rq", "wq") if begun else ("r", "w")
        use: tuple[Any, ...] = (("request", _meetings[_key_of(team)[0], begun], me), me)
        if gives and not (how == "root" and me != root):
            found = memory.where(source.address)
            if found is not None:
                held = source.ranges(found[2], gives, sst)
                before = [(read, *found[:2], held, *(use if begun else ())), *before]
                if "reduce" in name or "scan" in name:  # the others copy
                    before += memory.never_written((*found[:2], held))
        found = memory.where(dest.address)
        if gets and many_out is not None and found is not None:
            write = (*found[:2], dest.ranges(found[2], gets, dst))
            if begun:
                before = [(written, *write, *use), *before]
            else:
                behind = [*behind, (written, *write, None)]
        if begun:
            behind = [("Q", use[0], None), *behind]
        return before, lambda _: behind

    return describe


def _begun(describe: Describe) -> Describe:
    """A form that returns a request: what is behind it comes when that is complete."""

    def begin(a: Arguments) -> Described:
        before, behind = describe(a)
        team = a["team"]

        def keep(request: Any) -> Effects:
            if behind is not None:
                _requests[id(request)] = request, behind, team
            return []

        return before, keep

    return begin


def _barrier_nb(a: Arguments) -> Described:
    before, behind = meet(a["team"], begun="nb")
    return [QUIET, *before], lambda _: behind


def _sync_nb(a: Arguments) -> Described:
    before, behind = meet(a["team"], begun="nb")
    return before, lambda _: behind


def _request_done(a: Arguments) -> Described:
    request = a["self"]
    meeting = next((e[1] for e in known_of(request) if e[0] == "X"), None)
    stands: Effects = [] if meeting is None else [("N", "meeting", meeting)]

    def behind(done: Any) -> Effects:
        if done is False:
            return []
        _, after, _ = _requests.pop(id(request), (None, None, None))
        return [] if after is None else after(None)

    return stands, behind


def known_of(request: Any) -> Effects:
    """What will be behind a request that is not complete."""
    _, after, _ = _requests.get(id(request), (None, None, None))
    return [] if after is None else after(None)


def _destroy(a: Arguments) -> Described:
    """Destroying a team completes its requests, and its contexts: all are taken for its own."""
    of = [key for key, (_, _, team) in _requests.items() if team is a["self"]]

    def behind(_: Any) -> Effects:
        done = [effect for key in of for effect in _requests.pop(key)[1](None)]
        return [("Q", None, None), *done]

    return [], behind


# ---- locks, teams, memory ------------------------------------------------------------------------


def _lock_word(a: Arguments) -> tuple[int, int]:
    return own(Span(a["lock"] if "lock" in a else a["self"].word).address)


def _set_lock(a: Arguments) -> Described:
    word = _lock_word(a)
    return [("N", "lock", *word)], lambda _: [("L", *word)]


def _test_lock(a: Arguments) -> Described:
    word = _lock_word(a)
    return [], lambda got: [("L", *word)] if got else []


def _clear_lock(a: Arguments) -> Described:
    return [QUIET, ("U", *_lock_word(a))], None


def _register(a: Arguments) -> Described:
    """The array is a heap of its own from here on, by the name of this meeting on all members.

    Members' arrays can be reached, and that is all that it promises.
    """
    before, behind = meet(a["team"])
    name = ("registered", before[0][1])
    return before, lambda made: [*orders_nothing(behind), *memory.registered(made.array, name)]


def _unregister(a: Arguments) -> Described:
    held = a["registration"]
    before, behind = meet(held.team)

    def after(_: Any) -> Effects:
        memory.unregistered(held.array)
        return behind

    return [QUIET, *before], after


def _free(a: Arguments) -> Described:
    span = Span(a["array"])
    if not span.nelems:
        return [], None
    before, behind = meet_all()
    return [*before, ("D", *own(span.address))], lambda _: behind


def _split(a: Arguments) -> Described:
    """Teams come of meetings, but the specification has them order nothing."""
    parent = a["self"] if "self" in a else a["parent"]
    before, behind = meet(parent)
    return before, lambda _: orders_nothing(behind)


def _to_numpy(a: Arguments) -> Described:
    if result_is_dropped():
        return [], None  # it waits for kernels, and looks at nothing
    found = memory.ranges_of(a["array"]) if isinstance(a["array"], np.ndarray) else None
    return ([], None) if found is None else ([("r", *found)], None)


_BITS = ("and", "or", "xor")
ROUTINES: dict[str, Describe] = {
    "put": _put, "put_nbi": _put_nbi, "get": _get, "get_nbi": _get_nbi, "p": _p, "g": _g,
    "iput": _strided(True, False), "iget": _strided(False, False),
    "ibput": _strided(True, True), "ibget": _strided(False, True),
    "put_signal": _put_signal(False), "put_signal_nbi": _put_signal(True),
    "signal_op": _signal(None), "signal_set": _signal("set"), "signal_add": _signal("add"),
    "signal_fetch": _signal_fetch, "signal_wait_until": _signal_wait_until,
    "wait_until": _wait_until, "test": _test,
    "atomic_fetch": _atomic("get", True), "atomic_set": _atomic("set", False),
    "atomic_swap": _atomic("set", True), "atomic_compare_swap": _atomic("compare", True),
    "atomic_inc": _atomic("add", False, 1), "atomic_fetch_inc": _atomic("add", True, 1),
    "atomic_add": _atomic("add", False), "atomic_fetch_add": _atomic("add", True),
    **{f"atomic_{op}": _atomic("other", False) for op in _BITS},
    **{f"atomic_fetch_{op}": _atomic("other", True) for op in _BITS},
    "atomic_fetch_nbi": _atomic_nbi("get"),
    **{
        f"atomic_{op}_nbi": _atomic_nbi("other")
        for op in ("swap", "compare_swap", "fetch_inc", "fetch_add", *(f"fetch_{b}" for b in _BITS))
    },
    **{
        f"{call}_{which}{'_vector' * vector}": _wait_set(which, vector, call == "wait_until")
        for call in ("wait_until", "test") for which in ("all", "any", "some")
        for vector in (False, True)
    },
    "fence": _fence, "quiet": _quiet, "pe_quiet": _pe_quiet,
    "barrier_all": _barrier_all, "sync_all": _sync, "drain": _barrier_all, "heap_trim": _barrier_all,
    **{name: _collective(name) for name in MOVED},
    **{f"{name}_nb": _begun(_collective(name, "nb")) for name in MOVED},
    "barrier_nb": _begun(_barrier_nb), "sync_nb": _begun(_sync_nb),
    "set_lock": _set_lock, "test_lock": _test_lock, "clear_lock": _clear_lock, "free": _free,
    "register": _register, "unregister": _unregister,
    "to_numpy": _to_numpy,
}  # fmt: skip


def _of_context(describe: Describe) -> Describe:
    return lambda a: describe({**a, "ctx": a["self"]})


TEAM_METHODS: dict[str, Describe] = {
    "sync": _sync, "split": _split, "split_strided": _split, "split_2d": _split, "from_pes": _split,
    "destroy": _destroy,
}  # fmt: skip
CHANNEL_METHODS: dict[str, Describe] = {"sync": _sync}
CONTEXT_METHODS: dict[str, Describe] = {
    "fence": _of_context(_fence), "quiet": _of_context(_quiet),
    "pe_quiet": _of_context(_pe_quiet), "destroy": _of_context(_quiet),
}  # fmt: skip
REQUEST_METHODS: dict[str, Describe] = {"wait": _request_done, "test": _request_done}
LOCK_METHODS: dict[str, Describe] = {
    "set": _set_lock, "test": _test_lock, "clear": _clear_lock,
}  # fmt: skip
