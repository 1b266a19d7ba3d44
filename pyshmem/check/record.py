# SPDX-License-Identifier: BSD-3-Clause
"""Records what the routines of the host access and order, by wrapping them.

``install`` puts a wrapper in the place of each public routine, in every module of the package that has
it: routines that others call on a user's behalf are seen too, under the user's line. Each call is
recorded once; what a routine calls itself is part of it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._core.arrays import peer_views
from .._core.errors import UnsupportedError
from .._core.library import lib, setting_number
from ..host.collectives.requests import Request
from ..host.job import runtime, tracebacks
from ..host.locks import Lock
from ..host.memory import heap
from ..host.teams.contexts import Context
from ..host.teams.team import Channel, Team
from . import effects, memory, streams
from . import log as check_log
from .delivery import lanes
from .delivery.accepted import is_taken
from .log import Log, is_internal, is_set_up, now
from .log import inside as _inside
from .sites import lines_of

if TYPE_CHECKING:
    from .delivery.held import Held

_log: Log | None = None
_jobs = 0  # that have ended
#: What PYSHMEM_CHECK=deliver keeps of what this PE sends; None: it is off, or no job runs.
_held: Held | None = None
_main = threading.main_thread()
_follow_kernels: Callable[[], object]
_follow_torch: Callable[[], object]
#: The host's routines as they are without records.
originals: dict[str, Any] = {}
#: Effects of a call: those before it, and what makes those behind it of its result.
Described = tuple[list[tuple[Any, ...]], "Callable[[Any], list[tuple[Any, ...]]] | None"]
_MEMORY = ("host/memory/", "check/", "_core/", "_torch/tensors.py", "_torch/record.py")


def log() -> Log:
    """Where this PE's records go."""
    assert _log is not None
    return _log


def held() -> Held | None:
    """What keeps what is sent until it arrives, in the thread that takes turns with other PEs.

    Or in one that it lends its turn to. None in a collective whose members run together, too.
    """
    if _held is None or _held.is_busy:
        return None
    return _held if threading.current_thread() is _main or lanes.running() else None


def install(follow_kernels: Callable[[], object], follow_torch: Callable[[], object]) -> None:
    """Record from here on. Once, when the package is imported.

    ``follow_kernels`` is called where a job begins with the simulator: kernels are followed then that
    call nothing of ``pyshmem.device``. ``follow_torch``: where it begins and the program has imported
    torch, which reaches arrays by DLPack.
    """
    global _log, _follow_kernels, _follow_torch
    fd = setting_number("CHECK_FD")
    if fd < 0:
        return  # init says that order needs the launcher
    _log = Log(fd)
    _follow_kernels, _follow_torch = follow_kernels, follow_torch
    lib.ishmemx_record_order()
    package: Any = sys.modules[(__package__ or "").partition(".")[0]]
    for name, describe in effects.ROUTINES.items():
        originals[name] = vars(package)[name]
        _replace(vars(package)[name], _recorded(name, vars(package)[name], describe))
    _replace(heap.allocate, _allocating("allocate", heap.allocate))
    _replace(heap.realloc, _allocating("realloc", heap.realloc))
    for kind, methods in (
        (Team, effects.TEAM_METHODS),
        (Context, effects.CONTEXT_METHODS),
        (Channel, effects.CHANNEL_METHODS),
        (Request, effects.REQUEST_METHODS),
        (Lock, effects.LOCK_METHODS),
    ):
        for name, describe in methods.items():
            plain = vars(kind)[name]
            function = getattr(plain, "__func__", plain)
            made: Any = _recorded(f"{kind.__name__}.{name}", function, describe)
            setattr(kind, name, staticmethod(made) if isinstance(plain, staticmethod) else made)
    from . import record_arrays

    record_arrays.install(_log, _inside)
    _replace(peer_views.view_of_peer, record_arrays.peer_view(peer_views.view_of_peer))
    streams.install(_log, _inside, held, _replace)
    runtime.on_init(_begin)
    runtime.on_finalize(_end)
    runtime.on_finalize(_deliver_all, first=True)
    atexit.register(_log.flush)


def _begin() -> None:
    """A job begins."""
    job = runtime.current()
    if job.device not in ("none", "sim"):
        raise UnsupportedError(
            f"PYSHMEM_CHECK=order with device {job.device}: kernels are followed in the simulator; "
            "use --device sim"
        )
    if lib.ishmemx_several_hosts():
        raise UnsupportedError("PYSHMEM_CHECK=order: the PEs have to be on one host")
    if job.device == "sim" and "numba.cuda" in sys.modules:
        _follow_kernels()
    if "torch" in sys.modules:
        with contextlib.suppress(ImportError):  # of a torch that pyshmem does not take
            _follow_torch()
    memory.know_heaps(job.my_pe, job.n_pes, job.device != "none")
    effects.forget()
    memory.forget_unwritten()
    streams.begin()
    if _jobs:  # all PEs have ended the last one
        log().write(now(), 0, "init", [("X", ("job", _jobs), job.my_pe, 0, "all", 0)])
    if setting_number("CHECK") & lib.ISHMEMX_CHECK_DELIVER:
        _begin_delivery(job.n_pes)


def _begin_delivery(n_pes: int) -> None:
    global _held
    if _held is None:
        from .delivery import held

        _held = held.made(n_pes)
    if _held is not None:
        _held.begin(_jobs + 1)


def _end() -> None:
    """A job ends: its PEs meet in finalize, and what they have sent is done."""
    global _jobs
    _jobs += 1
    _tell_of_lent(log())
    memory.give_back([("Q", None, None)])
    if (
        error := sys.exception()
    ) is not None:  # which has brought it here: it stands where that came
        log().raised("finalize", 0, error)
    log().write(now(), 0, "finalize", [("Q", None, None), ("E", ("job", _jobs), memory.me)])
    log().flush()


def _deliver_all() -> None:
    if (delivery := held()) is not None:
        delivery.end()


def _replace(plain: Any, made: Any) -> None:
    """Put ``made`` wherever the package's modules have ``plain``."""
    name = (__package__ or "").partition(".")[0]
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").partition(".")[0] == name:
            for key, value in list(vars(module).items()):
                if value is plain:
                    setattr(module, key, made)


def _recorded(name: str, function: Any, describe: Callable[..., Described]) -> Any:
    bind = effects.Binder(getattr(function, "__wrapped__", function))

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if getattr(_inside, "call", False) or not lib.ishmemx_initialized():
            return function(*args, **named)
        _inside.call = True
        try:
            return _call_recorded(name, function, describe, bind, args, named)
        finally:
            _inside.call = False

    return call


def _call_recorded(
    name: str,
    function: Any,
    describe: Callable[..., Described],
    bind: effects.Binder,
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    try:
        given = bind(args, named)
    except TypeError:
        return function(*args, **named)  # which says what is wrong
    if given.get("stream") is not None:
        return streams.routine(name, describe, given, lambda: function(*args, **named))
    try:
        before, after = describe(given)
    except effects.REFUSED:
        return function(*args, **named)
    if not is_taken(name, given):
        result = function(*args, **named)  # which says what is wrong
        log().write(now(), 0, name, [*before, *(after(result) if after is not None else ())])
        return result
    if is_set_up():
        before, after = effects.orders_nothing(before), _orders_nothing(after)
    recorder = log()
    _tell_of_lent(recorder)
    _name_lent(recorder, before)
    at = recorder.write(now(), 0, name, before) if before else 0
    memory.give_back(before)
    delivery = held()
    if after is not None or delivery is not None:
        recorder.flush()
    try:
        if delivery is None:
            result = function(*args, **named)
        else:
            result = delivery.call(name, function, bind.bound(args, named), before)
    except BaseException as error:
        recorder.raised(name, at, error)
        raise
    if after is not None and (behind := after(result)):
        recorder.write(now(), 0, name, behind)
        memory.give_back(behind)
    return result


def _name_lent(recorder: Log, effects: list[tuple[Any, ...]]) -> None:
    """The array on no heap that a call has in use behind its return: what it is, and the line."""
    if (one := memory.lent_by(effects)) is None:
        return
    name_lent(recorder, one.heap, len(one.data), one.itemsize, one.name, one.frame)


def name_lent(
    recorder: Log, heap: Any, nbytes: int, size: int, name: str, frame: tuple[str, int, str]
) -> None:
    """Memory on no heap is an array of elements of ``size`` bytes, by the variable that has it."""
    file, line, function = frame
    block = ("M", heap, 0, nbytes, 1, size, (nbytes // size,), True, False)
    made, _ = lines_of(name, file, line, line)
    recorder.write_at(now(), 0, recorder.number(file, made, function), "array", [block])


def _tell_of_lent(recorder: Log) -> None:
    """What the program has stored to arrays of its own while a put may read them."""
    for one, low, high in memory.stored_meanwhile():
        frame = tracebacks.program_frame(sys._getframe(1))
        file, line, function = one.frame
        here = frame.f_lineno if frame is not None and frame.f_code.co_filename == file else line
        _, stored = lines_of(one.name, file, line, here)
        store = ("w", memory.me, one.heap, ((low, high),), None)
        recorder.write_at(now(), 0, recorder.number(file, stored, function), "store", [store])


def _orders_nothing(after: Any) -> Any:
    """``after``, of a call that the library makes for itself."""
    return after and (lambda result: effects.orders_nothing(after(result)))


def _given_up(array: Any, **_: Any) -> list[tuple[Any, ...]]:
    """The effect of ``realloc`` on the array that it is given: its old name is no longer to be used."""
    try:
        span = memory.Span(array)
        return [("D", *memory.own(span.address))] if span.nelems else []
    except effects.REFUSED:
        return []


def _allocating(name: str, function: Any) -> Any:
    """Allocation is a barrier of all PEs, and what it returns is new memory.

    What the library allocates for itself, some first call of its own, is no barrier of the program's.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        outer = getattr(_inside, "call", False)
        recorder, internal = log(), is_internal(_MEMORY)
        given = signature.bind(*args, **named).arguments
        zero = bool(given.get("zero"))
        is_set = internal or name != "allocate" or zero or "values" in given
        before, behind = effects.meet_all()
        if (internal or outer) and not check_log.internals:
            before, behind = (effects.orders_nothing(one) for one in (before, behind))
        if name == "realloc":
            before += _given_up(*args[:1], **named)
        shown = args[0] if name == "allocate" and args else name
        _tell_of_lent(recorder)
        recorder.write(now(), 0, shown, before)
        memory.give_back(before)
        recorder.flush()
        _inside.call = True
        delivery = held()
        heap.unset = None if is_set else memory.UNWRITTEN
        try:
            if delivery is None:
                array = function(*args, **named)
            else:
                array = delivery.meeting(before, lambda: function(*args, **named))
        finally:
            _inside.call, heap.unset = outer, None
        if not is_set and array.nbytes:
            memory.know_unwritten(memory.Span(array).address, array.nbytes)
        made = memory.allocated(array, zero=zero, internal=internal)
        if made is not None:
            recorder.write(now(), 0, shown, [*behind, made])
        return array

    return call
