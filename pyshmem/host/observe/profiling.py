# SPDX-License-Identifier: BSD-3-Clause
"""Call hooks: what was called, how often, with how many bytes and for how long.

    pyshmem.profiling.start()
    ...
    pyshmem.profiling.stop()
    print(pyshmem.profiling.summary())
    pyshmem.profiling.write_trace(f"trace.{pyshmem.my_pe()}.json")  # for ui.perfetto.dev

    with pyshmem.profiling.trace("t.json"):  # all PEs, with proxies and kernels, in one file
        ...

Recorded are calls of the routines of ``pyshmem`` by that name (``pyshmem.put``, not a ``put`` that was
imported before ``start``) and of the methods of teams, contexts and locks, each once: what a routine
calls itself is part of it. While nothing is recorded the routines are the original ones.

Extension, but for ``pcontrol``.
"""

from __future__ import annotations

import functools
import importlib
import json
import operator
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, SupportsIndex

from ..._core.dtypes import integer
from ..._core.library import lib
from ..fast_calls import Call as FastCall
from ..locks import Lock
from ..teams.contexts import Context
from ..teams.team import Team
from .tracing import Trace, follow_setting


class Call(NamedTuple):
    """One call, as hooks get it."""

    name: str
    begin_ns: int  # of time.perf_counter_ns
    end_ns: int
    nbytes: int  # that this PE gives or takes; 0 where a routine moves none
    thread: int


class Total(NamedTuple):
    """All calls of one routine."""

    calls: int
    nbytes: int
    seconds: float


Hook = Callable[[Call], None]

#: Not recorded: they do no communication, or end the process.
_LEFT_OUT = frozenset(("abort", "choose_device", "global_exit", "info_get_name",
                       "info_get_version", "initialized", "pcontrol", "to_numpy"))  # fmt: skip
#: The argument whose elements are moved, where it is not ``source``.
_SIZED = {"get": 0, "get_nbi": 0, "iget": 0, "ibget": 0, "g": 0, "p": 0}

_lock = threading.Lock()
_inside = threading.local()
_originals: list[tuple[Any, str, Any]] = []  # owner, name, what was there
_hooks: list[Hook] = []
_calls: list[Call] = []
_paused = False
_ranges: Any = None  # the module nvtx, when its ranges are wanted


def start(*hooks: Hook, nvtx: bool = False) -> None:
    """Record calls from here on, after those recorded before; ``reset`` drops them.

    Args:
        hooks: also called with each ``Call``, after it, in the thread that made it.
        nvtx: also show each call to NVIDIA's tools, as a range of the package nvtx.

    Raises: ImportError (nvtx is not installed), TypeError (a hook that cannot be called).
    """
    global _ranges
    for hook in hooks:
        if not callable(hook):
            raise TypeError(
                f"a hook is {hook!r} ({type(hook).__name__}); give one that can be called"
            )
    ranges = _nvtx() if nvtx else None
    with _lock:
        _hooks[:] = hooks
        _ranges = ranges
        if _originals:
            return
        for owner, name, shown in _routines():
            original = vars(owner)[name]
            wrapped: Any = _recorded(shown, getattr(original, "__func__", original))
            if isinstance(original, staticmethod):
                wrapped = staticmethod(wrapped)
            _originals.append((owner, name, original))
            setattr(owner, name, wrapped)


def stop() -> None:
    """Record no more calls."""
    with _lock:
        for owner, name, original in _originals:
            setattr(owner, name, original)
        _originals.clear()
        _hooks.clear()


def _nvtx() -> Any:
    try:
        return importlib.import_module("nvtx")
    except ImportError as error:
        raise ImportError("nvtx=True needs the package nvtx: pip install nvtx") from error


def reset() -> None:
    """Forget the recorded calls."""
    _calls.clear()


def calls() -> list[Call]:
    """The recorded calls, in the order of their ends."""
    return list(_calls)


def summary() -> dict[str, Total]:
    """The recorded calls of each routine together."""
    totals: dict[str, Total] = {}
    for call in calls():
        count, nbytes, seconds = totals.get(call.name, Total(0, 0, 0.0))
        took = (call.end_ns - call.begin_ns) / 1e9
        totals[call.name] = Total(count + 1, nbytes + call.nbytes, seconds + took)
    return totals


def write_trace(path: str | Path) -> None:
    """Write the recorded calls as Chrome trace events, which ui.perfetto.dev opens.

    The process of an event is this PE. Clocks of PEs on one host agree, so files can be merged.

    Args:
        path: file to write, a different one on each PE.
    """
    pe = lib.ishmemx_my_pe()
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pe, "args": {"name": f"PE {pe}"}}
    ]
    for call in calls():
        events.append(
            {
                "ph": "X",
                "name": call.name,
                "pid": pe,
                "tid": call.thread,
                "ts": call.begin_ns / 1000,
                "dur": (call.end_ns - call.begin_ns) / 1000,
                "args": {"nbytes": call.nbytes},
            }
        )
    Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")


def trace(path: str | Path, *, kernels: bool = True) -> Trace:
    """A timeline of all PEs, for ui.perfetto.dev and ``python -m pyshmem trace``: a context manager.

    ``with trace("t.json"):`` is collective where it begins and where it ends; so are ``start`` and
    ``stop`` of what it returns. It holds host calls, requests to the proxies, copies by copy
    engines, faults, and the stages that kernels are labelled with (``stage_begin`` in
    ``pyshmem.device``, ``stage`` in ``pyshmem.triton``). A PE that fails adds its part by itself.
    PYSHMEM_TRACE does the same for a whole job.

    Args:
        path: the file that PE 0 writes, the same on all PEs; one that is there is replaced.
        kernels: with stages: labelled kernels are compiled again, with their labels.
        PYSHMEM_TRACE_STAGES
            says how many a PE keeps; what finds no room is counted in the file.

    Extension.
    """
    return Trace(Path(path), kernels=kernels, record=_record)


def _record() -> Callable[[], list[Call]]:
    """Begin to record, if nobody has; what is returned gives the calls since then, and ends that."""
    begun_here, first = not _originals, len(_calls)
    if begun_here:
        start()

    def end() -> list[Call]:
        since = _calls[first:]
        if begun_here:
            stop()
            del _calls[first:]
        return since

    return end


def pcontrol(level: int, *arguments: Any) -> None:
    """Pause (0) or go on with (1 and above) a recording that ``start`` began.

    Without one it does nothing.

    Args:
        level: 0, 1, or a higher number that a tool gives a meaning.
        arguments: for such a tool.

    Example: ``pyshmem.pcontrol(0)``
    Spec: shmem_pcontrol (OpenSHMEM 1.5).
    """
    global _paused
    _paused = integer("level", level) == 0


def _routines() -> Iterator[tuple[Any, str, str]]:
    """What is recorded: its owner, its name there, and its name in the record."""
    package: Any = sys.modules[(__package__ or "").partition(".")[0]]
    for name in package.__all__:
        if isinstance(vars(package).get(name), (FunctionType, FastCall)) and name not in _LEFT_OUT:
            yield package, name, name
    for kind in (Team, Context, Lock):
        for name, member in list(vars(kind).items()):
            function = getattr(member, "__func__", member)
            documented = (function.__doc__ or "") if isinstance(function, FunctionType) else ""
            if not name.startswith("_") and "Spec:" in documented:
                yield kind, name, f"{kind.__name__}.{name}"


def _recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _paused or getattr(_inside, "call", False):
            return function(*args, **kwargs)
        ranges = _ranges
        if ranges is not None:
            ranges.push_range(name, domain="pyshmem")
        begin = time.perf_counter_ns()
        _inside.call = True
        try:
            return function(*args, **kwargs)
        finally:
            end = time.perf_counter_ns()
            if ranges is not None:
                ranges.pop_range(domain="pyshmem")
            _inside.call = False
            nbytes = _nbytes(name, args, kwargs)
            one = Call(name, begin, end, nbytes, threading.get_native_id())
            _calls.append(one)
            for hook in tuple(_hooks):
                hook(one)

    return call


def _nbytes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The bytes that a call moved, as far as its arguments tell."""
    if name.startswith("atomic_") or name in ("p", "g"):
        array: Any = args[0] if args else kwargs.get("dest", kwargs.get("source"))
        return int(getattr(getattr(array, "dtype", None), "itemsize", 0))
    position = _SIZED.get(name, 1)
    keyword = "dest" if position == 0 else "source"
    array = kwargs.get(keyword, args[position] if len(args) > position else None)
    dtype, size = getattr(array, "dtype", None), getattr(array, "size", None)
    if dtype is None or size is None or isinstance(array, type):  # zeros(4, np.int64)
        return 0
    count = kwargs.get("nelems")
    if isinstance(count, SupportsIndex):  # else the call fails, and says so
        size = operator.index(count)
    return int(dtype.itemsize * size)


follow_setting(trace)
