# SPDX-License-Identifier: BSD-3-Clause
"""Records for the checker of order what programs do with tensors of torch on the heaps.

A dispatch mode sees each operation of torch, with the elements that it reads and writes by its schema;
operators of pyshmem, calls of process groups and fused operations are collectives, whose own accesses
are the library's and not shown. Not seen is what goes by another view of the memory, as NumPy's. Nothing
of it is imported while ``order`` is off.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch

from .._core.library import check, checks_deliver, lib
from .._foreign import torch as foreign
from ..check import effects, memory
from ..check.delivery import lanes
from ..check.effects import Effects
from ..check.log import inside, now
from ..check.record import held, log, name_lent
from ..host.job import runtime, tracebacks
from ..host.job.runtime import n_pes
from ..host.teams.contexts import CTX_DEFAULT
from ..host.teams.team import TEAM_WORLD, Team
from . import tensors
from .teams import team_of

#: Operations that touch no element, though they return no view.
_LOOKING = (
    "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "is_same_size", "set_",
    "resize_", "_unsafe_view", "_reshape_alias", "lift", "lift_fresh", "sym_size", "sym_stride",
    "sym_numel", "sym_storage_offset", "record_stream",
)  # fmt: skip
#: Operations that copy elements: what was never written is told where that is all of them.
_COPYING = frozenset(
    ("copy_", "_to_copy", "clone", "cat", "stack", "contiguous", "repeat", "index")
)
#: Namespaces of calls that are seen elsewhere: those of process groups in ``group_call``.
_ELSEWHERE = frozenset(("c10d", "_c10d_functional", "c10d_functional", "prim", "profiler"))


def _off() -> bool:
    return getattr(inside, "call", False) or not lib.ishmemx_initialized()


# ---- elements ------------------------------------------------------------------------------------


def _place(tensor: Any) -> Any:
    """PE, heap and byte ranges of a tensor's elements; None: it has none on a heap."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
        return None
    try:
        address, size = tensor.data_ptr(), tensor.element_size()
        strides = [step * size for step in tensor.stride()]
    except (RuntimeError, NotImplementedError):
        return None  # it has no memory, or no strides
    return memory.ranges_from(address, list(tensor.shape), strides, size)


def _tensors_in(given: Any) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, dict):
        yield from _tensors_in(list(given.values()))
    elif isinstance(given, (list, tuple)):
        for one in given:
            yield from _tensors_in(one)


def _touched(code: str, tensors: Any, *more: Any) -> Effects:
    places = filter(None, map(_place, _tensors_in(tensors)))
    return [(code, *place, *more) for place in places]


def _written(tensors: Any) -> Effects:
    return _touched("w", tensors, None)


@functools.cache
def _modes(operation: Any) -> dict[str, str]:
    """What an operation does to each of its arguments: r or w; of one that touches nothing, nothing."""
    schema = operation._schema
    namespace, _, name = schema.name.partition("::")
    is_view = any(one.alias_info and not one.alias_info.is_write for one in schema.returns)
    if is_view or namespace in _ELSEWHERE or name in _LOOKING:
        return {}
    return {
        one.name: "w" if one.alias_info and one.alias_info.is_write else "r"
        for one in schema.arguments
    }


class _Mode(foreign.DispatchMode):
    """Notes what operations of torch touch on the heaps."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if _off() or bool(getattr(_waits, "depth", 0)):
            return func(*args, **named)
        if func.namespace == "pyshmem":
            return _operator(func, args, named)
        if modes := _modes(func):
            names = [one.name for one in func._schema.arguments]
            given = {**dict(zip(names, args, strict=False)), **named}
            self._note(func._schema.name.partition("::")[2], modes, given)
        return func(*args, **named)

    @staticmethod
    def _note(name: str, modes: dict[str, str], given: dict[str, Any]) -> None:
        for code, more in (("r", ()), ("w", (None,))):
            for argument, value in given.items():
                if modes.get(argument) == code:
                    for effect in _touched(code, value, *more):
                        log().touch(0, name.rstrip("_"), effect)
                        if code == "r" and (
                            never := memory.never_written(effect[1:], whole=name in _COPYING)
                        ):
                            log().write(now(), 0, name, never)


# ---- collectives ---------------------------------------------------------------------------------


def _between(name: str, before: Effects, did: Callable[[], Any], behind: Any) -> Any:
    """``did``, a call of the library, between its records; ``behind`` makes the second of its result."""
    if before:
        log().write(now(), 0, name, before)
    log().flush()
    inside.call = True
    try:
        delivery = held()
        meets = any(effect[0] == "E" for effect in before)
        result = did() if delivery is None or not meets else delivery.meeting(before, did)
    finally:
        inside.call = False
    if found := behind(result):
        log().write(now(), 0, name, found)
    return result


def _operator(func: Any, args: Any, named: dict[str, Any]) -> Any:
    """An operator of ``torch.ops.pyshmem``."""
    name = func._schema.name.partition("::")[2]
    arguments = func._schema.arguments
    given = {one.name: one.default_value for one in arguments if one.has_default_value()}
    given |= dict(zip([one.name for one in arguments], args, strict=False)) | named
    call = functools.partial(func, *args, **named)
    if (delivery := held()) is not None and name in _LATE:
        late = _LATE[name](delivery, given, call)
    else:
        late = call
    try:
        before, behind = _DESCRIBED.get(name, _collective)(given)
    except effects.REFUSED:  # by the operator itself
        return _between(name, [], call, lambda _: [])
    return _between(name, before, late, behind)


def _collective(given: dict[str, Any]) -> Any:
    """All hear all, or the root: tensors that are given are read, those that come back written."""
    team = team_of(int(given.get("team") or 0))
    how, root = ("root", int(given["root"])) if "root" in given else ("all", 0)
    enter, leave = effects.meet(team, how, root, "torch")
    own = [value for key, value in given.items() if key != "out"]
    changed = [given.get("tensor"), given.get("out")]
    if how == "root" and team.my_pe() != root:
        own = []
    return (
        [*_touched("r", own), *enter],
        lambda result: [*leave, *_written([changed, result])],
    )


def _put_signal(given: dict[str, Any]) -> Any:
    source = given["source"]
    dest, pe = _span(given["dest"]), int(given["pe"])
    data = None
    if source.nelement():
        heap, offset = memory.own(dest)
        data = heap, ((offset, offset + source.nelement() * source.element_size()),)
    heap, offset = memory.own(_span(given["sig"]))
    how = effects.signal_op(given["sig_op"])
    sent = ("d", pe, data, 0, (heap, offset, offset + 8), how, int(given["signal"]))
    return [*_touched("r", source), sent], lambda _: []


def _wait_signal(given: dict[str, Any]) -> Any:
    word = memory.Span(given["sig"])
    row = [(0, given["value"])]
    standing = effects.stands(word, row, given["cmp"])
    waited = effects.wait_for(word, 0, given["cmp"], given["value"])
    return [standing], lambda _: [waited(None)]


def _late_put(delivery: Any, given: dict[str, Any], call: Any) -> Any:
    """The put some turns later, with what its source holds now; one that is refused raises at once."""
    source, dest, sig, pe = (given[key] for key in ("source", "dest", "sig", "pe"))
    plain = source.is_contiguous() and not source.is_conj() and not source.is_neg()
    fits = source.dtype == dest.dtype and source.numel() <= dest.numel() and sig.nbytes == 8
    if not (plain and fits and dest.is_contiguous() and 0 <= pe < n_pes()):
        return call

    def later() -> Any:
        kept = source.clone()
        behind = _span(sig), given["signal"], given["sig_op"], pe

        def arrives() -> None:  # by the library itself: the job may be in finalize
            where = _span(dest), _span(kept), kept.nbytes
            check(lib.ishmemx_put_signal(CTX_DEFAULT.handle, *where, *behind))

        delivery.send(arrives, 0, pe)

    return later


def _late_wait(delivery: Any, given: dict[str, Any], call: Any) -> Any:
    """Other PEs run until the word holds, and it is seen late."""
    word = memory.Span(given["sig"])

    def waits() -> Any:
        delivery.wait_for(lambda: effects.holds(word, 0, given["cmp"], given["value"]))
        return call()

    return waits


_LATE = {"put_signal": _late_put, "wait_signal": _late_wait}


def _barrier(given: dict[str, Any]) -> Any:
    enter, leave = effects.meet(team_of(int(given.get("team") or 0)), "all", 0, "torch")
    return [("Q", None, None), *enter], lambda _: leave


def _span(tensor: torch.Tensor) -> int:
    return int(tensor.data_ptr())


_DESCRIBED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "put_signal": _put_signal, "wait_signal": _wait_signal, "barrier": _barrier,
}  # fmt: skip


# ---- fused operations ----------------------------------------------------------------------------


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """A fused operation: a collective of its team that reads tensors and writes its results."""
    bind = effects.Binder(function)

    @functools.wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        if _off() or torch.compiler.is_compiling():
            return function(*given, **options)
        did = functools.partial(function, *given, **options)
        try:
            arguments = bind(given, options)
            team = _team_in(arguments)
        except TypeError:
            return did()  # which says what is wrong
        if not isinstance(team, Team):
            return _between(function.__name__, [], did, lambda _: [])
        enter, leave = effects.meet(team, "all", 0, "fused")
        read = [value for key, value in arguments.items() if "out" not in key]
        written = [value for key, value in arguments.items() if "out" in key]
        before = [*_touched("r", read), *enter]
        return _between(
            function.__name__, before, did, lambda found: [*leave, *_written([written, found])]
        )

    return call


def _team_in(arguments: dict[str, Any]) -> Any:
    """The team that is given, or that of a handle; None: it is no collective."""
    if "team" in arguments:
        return arguments["team"]
    teams = (getattr(value, "team", None) for value in arguments.values())
    return next((team for team in teams if isinstance(team, Team)), None)


# ---- process groups ------------------------------------------------------------------------------

#: Calls so far of each group, and messages of each pair; the same on all members.
_calls: Counter[Any] = Counter()
_lock = threading.Lock()
#: Threads that wait for a work: what that does to tensors is the library's own.
_waits = threading.local()
#: Queues of messages are named by their direction.
_MESSAGES = {"to": "send", "from": "recv", "any": "recv"}


#: Torch's files, and those of them that are between a program and a group which it calls itself.
_OF_TORCH = torch.__path__[0] + "/"
_CALLED_BY = ("/distributed_c10d.py", "/c10d_logger.py")


class _Lent:
    """Tensors on no heap that a call of a group uses: what operations of torch touch there is seen.

    Of calls that the program makes itself: torch's own, as of gradients, may be waited for in C++.
    """

    def __init__(self, tensors: Any) -> None:
        self._kept: list[Any] = []  # which keeps their memory from being another's
        frame = tracebacks.program_frame(sys._getframe(1))
        if frame is None or not _is_by_program(frame):
            return
        code, line = frame.f_code, frame.f_lineno
        for tensor in _tensors_in(tensors):
            if type(tensor) is not torch.Tensor or tensor.device.type != "cpu":
                continue
            storage = tensor.untyped_storage()
            low, nbytes, size = storage.data_ptr(), storage.nbytes(), tensor.element_size()
            with _lock:
                found = memory.use(low, nbytes) if nbytes >= size else None
            if found is not None:
                self._kept.append(storage)
                if found[1]:
                    name = memory.variable(frame, tensor)
                    at = code.co_filename, line if name else 0, code.co_qualname
                    name_lent(log(), found[0], nbytes, size, name, at)

    def give_back(self) -> None:
        """They are not followed any more."""
        with _lock:
            while self._kept:
                memory.unuse(self._kept.pop().data_ptr())


def _is_by_program(program: Any) -> bool:
    """Is nothing of torch but its calls of groups between the program's frame and this one?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not program:
        file = frame.f_code.co_filename
        if file.startswith(_OF_TORCH) and not file.endswith(_CALLED_BY):
            return False
        frame = frame.f_back
    return True


class Call:
    """A call of a process group: its tensors are in use from here until it is waited for.

    ``meeting``: what names it on all members that do it together, and how many these are; of messages
    None. ``pair(sender)`` names those of a receive: which message it takes is known once it has.
    """

    def __init__(
        self, name: str, before: Effects, behind: Effects, meeting: tuple[Any, int] | None,
        lent: _Lent, pair: Callable[[int], Any] = lambda sender: sender,
    ) -> None:  # fmt: skip
        self.meeting, self._lent = meeting, lent
        self._name, self._behind, self._pair = name, behind, pair
        self._site = log().site()
        self._is_over = False
        log().write_at(now(), 0, self._site, name, before)
        log().flush()

    def took(self, sender: int, number: int) -> None:
        """A receive has taken a member's message of that number, before its work is over."""
        self._behind = [
            *self._behind,
            ("X", ("torch", self._pair(sender), number), memory.me, 1, "all", 0),
        ]

    def over(self) -> None:
        """Somebody knows that it is done."""
        with _lock:
            first, self._is_over = not self._is_over, True
        if first and lib.ishmemx_initialized():
            log().write(now(), 0, self._name, self._behind)
        self.forget_tensors()

    def forget_tensors(self) -> None:
        """Tensors on no heap are not followed any more: the call is over, or waited for unseen."""
        self._lent.give_back()

    def __del__(self) -> None:
        self.forget_tensors()


def groups_so_far(pes: Sequence[int]) -> int:
    """How many groups these PEs have made, with this one; the same on all of them."""
    _calls["groups", *pes] += 1
    return _calls["groups", *pes]


def group_call(
    group: tuple[Any, int, int], facts: Sequence[Any], inputs: Any = (), outputs: Any = ()
) -> Call | None:
    """A call of a process group begins.

    Args:
        group: what names it on all its members, the caller's rank, and how many members there are.
        facts: the routine and what is said of it; of one with a root, or another member, that is the
            last one.
        inputs, outputs: tensors.
    """
    if _off():
        return None
    key, me, n = group
    routine, peer = _MESSAGES.get(facts[0], str(facts[0])), facts[-1]
    if routine in ("send", "recv"):
        return _message(key, me, routine, peer, [*inputs, *outputs])
    _calls[key] += 1
    meeting, lent = ("torch", key, _calls[key]), _Lent([*inputs, *outputs])
    if routine == "broadcast" and me == peer:
        inputs, outputs = (*inputs, *outputs), ()
    leave: Effects = [("X", meeting, me, n, "all", 0)]
    if routine in ("broadcast", "scatter"):
        leave = [("X", meeting, me, n, "root", peer)]
    elif routine in ("reduce", "gather") and me != peer:
        leave = [("X", meeting, me, n, "root", me)]
    use = ("torch", key, _calls[key], me), me
    before = [*_touched("rq", inputs, *use), *_touched("wq", outputs, *use), ("E", meeting, me)]
    return Call(routine, before, [("Q", use[0], None), *leave], (meeting, n), lent)


def _message(key: Any, me: int, routine: str, peer: int, tensors: Any) -> Call:
    """Messages of a pair are numbered by their sends."""
    sends = routine == "send"
    count = (*key, me, peer) if sends else (*key, "received", me)
    _calls[count] += 1
    use, lent = (("torch", count, _calls[count], me), me), _Lent(tensors)
    before = _touched("rq" if sends else "wq", tensors, *use)
    if sends:
        before.append(("E", ("torch", count, _calls[count]), me))
    behind: Effects = [("Q", use[0], None)]
    return Call(routine, before, behind, None, lent, lambda sender: (*key, sender, me))


@contextlib.contextmanager
def _of_the_library(gate: Any) -> Iterator[None]:
    """What a queue's thread calls is the library's own."""
    with gate:
        inside.call = True
        try:
            yield
        finally:
            inside.call = False


def gate(call: Call, queue: Any) -> Any:
    """What a queue has around a call. With PYSHMEM_CHECK=deliver its members are let go together."""
    delivery = held()
    if delivery is None:
        return _of_the_library(contextlib.nullcontext())
    lane = delivery.put(("torch", queue))
    return _of_the_library(delivery.met(lane, *(call.meeting or (None, 1))))


def has_put() -> None:
    """A call is in its queue, and may be done at once, with PYSHMEM_CHECK=deliver."""
    if (delivery := held()) is not None:
        delivery.has_put()


def together(call: Callable[[], Any], meeting: tuple[Any, int] | None = None) -> Any:
    """``call`` in which members wait for each other by other means than the library's.

    ``meeting`` as that of ``Call``; None: all PEs of the job make it.
    """
    delivery = held()
    if delivery is None:
        return call()
    if meeting is None:
        _calls["made"] += 1
        meeting = ("torch", "made", _calls["made"]), n_pes()
    return delivery.together(meeting[0], meeting[1], call)


def _made_together(plain: Callable[..., Any]) -> Callable[..., Any]:
    """All ranks make process groups together; turns begin with the job, so that has to be there."""

    def make(*given: Any, **named: Any) -> Any:
        counted = not lib.ishmemx_initialized()
        if counted:
            runtime.init()
        try:
            return together(functools.partial(plain, *given, **named))
        finally:
            if counted:
                runtime.finalize()

    return make


def let_others(done: Callable[[], bool]) -> None:
    """Other PEs go on until a work of a group is over."""
    if (delivery := held()) is not None:
        delivery.wait_for(done)


def let_others_here(done: Callable[[], bool]) -> None:
    """The same in a queue's thread, which has the turn."""
    if (lane := lanes.current()) is not None:
        lane.until(done)


def watch(work: Any, call: Call) -> None:
    """Who waits for a work of a group, or sees that it is complete, has heard the others."""
    wait, completed, future = work.wait, work.is_completed, work.get_future

    def waits(*given: Any, **named: Any) -> Any:
        _waits.depth = getattr(_waits, "depth", 0) + 1
        try:
            found = wait(*given, **named)
        finally:
            _waits.depth -= 1
        call.over()
        return found

    def is_completed() -> bool:
        delivery = held()
        found = bool(completed() if delivery is None else delivery.looks(completed))
        if found:
            call.over()
        return found

    def get_future() -> Any:
        found = future()
        call.forget_tensors()
        found.add_done_callback(lambda _: call.over())  # who waits for it in C++ is not seen
        return found

    work.wait = work.synchronize = waits
    work.is_completed, work.get_future = is_completed, get_future


# ---- install -------------------------------------------------------------------------------------


def _tolist(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(plain)
    def tolist(self: Any) -> Any:
        if not _off():
            for effect in _touched("r", self):
                log().touch(0, "tolist", effect)
        return plain(self)

    return tolist


def _new(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The heap gives bytes, which reports name as elements of the tensor."""

    @functools.wraps(plain)
    def new(size: Any, dtype: Any, *given: Any, **named: Any) -> Any:
        kind = dtype or torch.get_default_dtype()
        memory.elements = getattr(kind, "itemsize", 1), size
        try:
            return plain(size, dtype, *given, **named)
        finally:
            memory.elements = None

    return new


def _ready(plain: Callable[..., Any]) -> Callable[..., Any]:
    """All PEs have set the elements of a new tensor."""

    @functools.wraps(plain)
    def ready(*given: Any) -> Any:
        enter, leave = effects.meet(TEAM_WORLD, begun="ready")
        return _between("ready", enter, lambda: plain(*given), lambda _: leave)

    return ready


def install() -> None:
    """Follow torch in this thread from here on. Once, when ``pyshmem.interop.torch`` is imported."""
    if checks_deliver():
        foreign.ready_dispatch()
        for hook in foreign.MAKE_GROUPS:
            hook.wrap(_made_together)
    foreign.TOLIST.wrap(_tolist)
    tensors._new, tensors._ready = _new(tensors._new), _ready(tensors._ready)
    _Mode().__enter__()
