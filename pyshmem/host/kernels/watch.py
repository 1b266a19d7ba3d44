# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that do not end and wait in no routine: reports name them, and what they poll is told.

A kernel that runs in Python, or on the CPU, keeps the thread that has launched it. A thread of the
library looks at it four times a second, once it has lasted for a second. One whose variables, and
elements of arrays, are the same at each look polls: it is told as one that waits, and PYSHMEM_TIMEOUT
ends it as it ends a wait. A compiled kernel has no frames to look at: the library looks at the
registers of its threads.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from ..._core import errors
from ..._core.library import check, ffi, lib, setting_number
from ..job import runtime, tracebacks

_FIRST, _BETWEEN = 1.0, 0.25  # seconds
#: For so long its variables have to be the same.
_POLLS_AFTER = 2.0
#: So many looks at a compiled kernel have to find it as others did.
_LOOKS = 64
MOST = 16  # threads of a kernel that are looked at
#: The thread, as debuggers and ``ps -T`` know it: as threads of the C library's, it takes no signals but
#: those of a fault of its own.
_NAME, _SET_NAME = "pysh-watch", 15
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
_OTHERS = signal.valid_signals() - _FAULTS
_MOST_BYTES = 1 << 20  # of an array that are looked at
_POLLS = ": it reads the same again and again"
_INSTEAD = (
    "such a loop is no wait: use wait_until or signal_wait_until of pyshmem.device; these are for words "
    "of the own PE: let another PE send its word (p, signal_set)"
)


class Kernel(NamedTuple):
    """One that runs in a thread."""

    name: str
    text: Callable[[], str]  # its name and line, where it was launched, and with what grid
    #: "block 0, thread 3", and its frame, None: it is at work; for some of those that are not in a
    #: barrier. None: it is compiled.
    threads: Callable[[], list[tuple[str, FrameType | None]]] | None
    returns: bool  # the launch returns when it has ended: else it is on a stream
    compiles: bool = False  # its code is not there yet, and it has not begun


class _Seen:
    """What has been seen of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.since_ns = time.monotonic_ns()
        self.states: dict[int, Any] = {}  # by frame
        self.same_since = time.monotonic()
        self.where = ""
        self.ended = False

    def goes_on(self) -> None:
        self.same_since, self.where = time.monotonic(), ""

    def polls(self) -> bool:
        """Whether it has been the same for so long."""
        return time.monotonic() - self.same_since > _POLLS_AFTER


#: Addresses of launches of compiled kernels, by thread, while they go on; why one was given up.
launches: dict[int, int] = {}
_given_up: dict[int, BaseException] = {}
_running: dict[int, Kernel] = {}
_begun = threading.Event()
_thread: threading.Thread | None = None


class _Given:
    """Of exceptions that are raised in a kernel from here."""


def as_kernel(kernel: Kernel, run: Callable[[], None]) -> None:
    """``run`` is a kernel: the job cannot be ended inside of it, and it is looked at."""
    here = threading.get_ident()
    outer, change = _running.get(here), int(kernel.returns)
    lib.ishmemx_sim_launches(change)
    try:
        _running[here] = kernel
        if not _begun.is_set():
            _begins()
        runtime.as_kernel(kernel.name, run)
    except BaseException as error:
        if isinstance(error, _Given):  # it came wherever the kernel was
            raise error.with_traceback(tracebacks.of_program(error)) from error.__cause__
        raise
    finally:
        lib.ishmemx_sim_launches(-change)
        if outer is None:
            _running.pop(here, None)
        else:
            _running[here] = outer


def given_up() -> BaseException:
    """Why this thread's launch was."""
    error = _given_up.pop(threading.get_ident())
    error.__traceback__ = None
    return error


def compiling(make: Callable[..., Any], *given: Any) -> Any:
    """What ``make`` makes; meanwhile reports say that the thread's kernel is compiled."""
    here = threading.get_ident()
    kernel = _running.get(here)
    if kernel is None:
        return make(*given)
    _running[here] = kernel._replace(compiles=True)
    try:
        return make(*given)
    finally:
        _running[here] = kernel


def _begins() -> None:
    global _thread
    if _thread is None or not _thread.is_alive():  # as in a child of fork
        named = threading.Event()
        before = signal.pthread_sigmask(signal.SIG_SETMASK, _OTHERS)  # which the thread has, too
        try:
            _thread = threading.Thread(target=_watch, args=(named,), name=_NAME, daemon=True)
            _thread.start()
            named.wait()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _begun.set()


def _watch(named: threading.Event) -> None:
    ctypes.CDLL(None).prctl(_SET_NAME, _NAME.encode())
    named.set()
    seen: dict[int, _Seen] = {}
    while True:
        if not _running:
            _begun.clear()
            _begun.wait()
        time.sleep(_BETWEEN if seen else _FIRST)
        there = dict(_running)
        for ident in [i for i, one in seen.items() if there.get(i) is not one.kernel]:
            del seen[ident]
        for ident, kernel in there.items():
            if ident not in seen:
                seen[ident] = _Seen(kernel)
            elif not seen[ident].ended:
                _look(ident, seen[ident])


def _look(ident: int, seen: _Seen) -> None:
    """Tell of a kernel that has lasted for a while, and end one that others have given up."""
    polls = False
    if seen.kernel.threads is not None:
        polls = _same(_frames(ident, seen.kernel.threads(), seen), seen)
    elif (launch := launches.get(ident)) is not None:
        polls = _same_registers(launch, seen)
    text, does = f"kernel {seen.kernel.text()}{seen.where}{_POLLS if polls else ''}", int(polls)
    if seen.kernel.compiles:
        text, does = text.replace(", launched at ", " for its first launch at "), 2
    try:
        check(lib.ishmemx_kernel_is_seen(text.encode(), does, seen.since_ns))
    except errors.NotInitialized as error:  # the job ends, and the kernel is what is wrong
        _end(ident, seen, errors.KernelFault(str(error)))
        return
    except errors.ShmemError as error:
        _end(ident, seen, error)
        return
    limit = setting_number("TIMEOUT") * 1e-9
    if polls and 0 < limit < time.monotonic() - seen.same_since:
        told = f"{text}, for longer than {limit:.3g} s (PYSHMEM_TIMEOUT); {_INSTEAD}"
        _end(ident, seen, errors.KernelFault(told))


def _frames(
    ident: int, threads: list[tuple[str, FrameType | None]], seen: _Seen
) -> Iterator[tuple[str, FrameType]]:
    """Where the kernel's threads are in the program, of those that go on."""
    for place, frame in threads:
        if frame is None:
            frame = sys._current_frames().get(ident)
            if _is_between(frame):
                continue
        if _waits(frame):
            seen.same_since = time.monotonic()
        frame = tracebacks.program_frame(frame)
        if frame is not None:
            yield place, frame


def _waits(frame: FrameType | None) -> bool:
    """Is it in a wait of the library's, which tells of itself?"""
    while frame is not None and frame.f_code.co_filename.startswith(tracebacks.PACKAGE):
        if "wait" in Path(frame.f_code.co_filename).name:
            return True
        frame = frame.f_back
    return False


def _is_between(frame: FrameType | None) -> bool:
    """Is none of the kernel's threads at work? They have stacks of their own."""
    while frame is not None and frame.f_code is not as_kernel.__code__:
        frame = frame.f_back
    return frame is not None


def _same(threads: Iterable[tuple[str, FrameType]], seen: _Seen) -> bool:
    """Have the variables of all threads that are seen been the same for a while?"""
    for place, frame in threads:
        state = {name: _value(value) for name, value in tuple(frame.f_locals.items())}
        if seen.states.get(id(frame)) != state:
            seen.states[id(frame)] = state
            seen.same_since = time.monotonic()
        file = Path(frame.f_code.co_filename).name
        seen.where = f", {place}, at {file}:{frame.f_lineno}"
    return bool(seen.states) and seen.polls()


def _same_registers(launch: int, seen: _Seen) -> bool:
    """Have the registers of one of its threads been the same for a while?"""
    block, thread = ffi.new("int32_t[3]"), ffi.new("int32_t[3]")
    looks = lib.ishmemx_cpu_look(launch, block, thread)
    if looks <= 0:
        seen.goes_on()
    if looks <= _LOOKS or not seen.polls():
        return False
    seen.where = f", block {tuple(block)}, thread {tuple(thread)}"
    return True


def _value(value: Any) -> Any:
    """Of a variable what changes when the kernel does something."""
    value = getattr(value, "_item", value)  # of what Numba's simulator wraps around arguments
    value = getattr(value, "_ary", value)
    if isinstance(value, np.ndarray):
        plain = np.ndarray.view(value, np.ndarray)
        return id(value), zlib.crc32(plain.reshape(-1)[: _MOST_BYTES // plain.itemsize].tobytes())
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return type(value), repr(value)
    return id(value)


def _end(ident: int, seen: _Seen, error: BaseException) -> None:
    """Raise ``error`` in the kernel, where it is."""
    if seen.kernel.threads is None:
        _give_up(ident, seen, error)
        return
    seen.ended = True
    kind = type(error)

    def init(self: Any) -> None:
        kind.__init__(self, *error.args)

    named = {"__init__": init, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    made = type(kind.__name__, (kind, _Given), named)
    thread, raised = ctypes.c_ulong(ident), ctypes.py_object(made)
    if _running.get(ident) is seen.kernel:  # else it has ended meanwhile
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, raised)


def _give_up(ident: int, seen: _Seen, error: BaseException) -> None:
    """The same for a compiled one; in a function of a library it is not ended, but at another look."""
    launch = launches.get(ident)
    if launch is not None and _running.get(ident) is seen.kernel:
        _given_up[ident] = error
        seen.ended = lib.ishmemx_cpu_give_up(launch) == 0
