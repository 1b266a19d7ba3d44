# SPDX-License-Identifier: BSD-3-Clause
"""The file of a PE's records: what it accesses and what orders it, as it goes.

The launcher makes a file without a name for each PE, which inherits it. A record is a tuple that
``marshal`` writes, behind its number of bytes: (time, agent, site, routine, effects), where the effects
are those of ``Engine``.
A site is a source line of the program, and has a record of its own before it is used.
"""

from __future__ import annotations

import marshal
import mmap
import opcode
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from ..host.job import tracebacks
from . import memory

_SIZE, _BLOCK = 4, 1 << 20  # bytes: of a record's number of bytes, and of what is read at once
#: Records that are kept before they are written, and effects that no other PE sees. Of a PE that is
#: killed everything is there that another may have seen, and so what orders it.
_MOST_RANGES = 4096  # of elements of one line, in one record
_MANY, _UNSEEN = 2000, frozenset(("r", "w", "rq", "wq", "M", "D", "B", "J", "H"))

_CACHE, _DROP = opcode.opmap.get("CACHE", -1), opcode.opmap["POP_TOP"]

#: Agents of streams and of their kernels' threads: a stream's number times this, and what follows.
ROOM = 1 << 40
#: Are the library's own kernels of Triton followed, in the place of what their routines promise?
internals = False
#: Where the library makes for itself what it needs, by calls that programs have too; of these folders
#: ``_MADE_FOR_PROGRAMS`` what programs ask for, and below ``_BETWEEN`` lies what they call.
_SET_UP = ("fused/", "_torch/", "host/collectives/agreement.py")
_MADE_FOR_PROGRAMS = ("_torch/tensors.py", "_torch/record.py")
_BETWEEN = ("check/", "_core/", "host/", *_MADE_FOR_PROGRAMS)
_KERNELS, _NO_KERNELS = ("triton/", "fused/"), ("triton/interpreter/", "triton/primitives/")
#: The routine of a record that takes another of its file back, named by time and routine.
_REFUSED = "!refused"
now = time.monotonic_ns  # one clock for all PEs of a host
#: Of a thread: ``call`` says that it is in a routine, whose own accesses are not recorded.
inside = threading.local()


@contextmanager
def unseen() -> Iterator[None]:
    """What this thread of the host does meanwhile is not recorded."""
    outer = getattr(inside, "call", False)
    inside.call = True
    try:
        yield
    finally:
        inside.call = outer


class Log:
    """Writes the records of this process."""

    def __init__(self, fd: int) -> None:
        self._fd, self._pid = fd, os.getpid()
        self._kept: list[bytes] = []
        self._sites: dict[tuple[str, int], int] = {}
        self._runs: dict[tuple[Any, ...], _Run] = {}
        self._lock = threading.RLock()  # streams have threads of their own
        self._last = 0  # time of the last record: those of a file ascend

    def write(self, at: int, agent: int, routine: str, effects: list[tuple[Any, ...]]) -> int:
        """A record of what the caller's caller does, on the program's line; the time that it has."""
        return self.write_at(at, agent, self.site(), routine, effects)

    def write_at(
        self, at: int, agent: int, site: int, routine: str, effects: list[tuple[Any, ...]]
    ) -> int:
        """The same of another line."""
        with self._lock:
            if self._runs:
                self._end_runs()
            self._append(at, agent, site, routine, effects)
            written = self._last
            if len(self._kept) >= _MANY or any(map(_is_seen, effects)):
                self.flush()
        return written

    def raised(self, routine: str, at: int, error: BaseException) -> None:
        """A call of the host has raised ``error``; its record is of time ``at``, 0: it has none.

        Where it has refused what it was given it has done nothing, and the record is taken back.
        """
        taken_back = at and _is_refusal(error)
        shown = f"{_REFUSED} {at} {routine}" if taken_back else routine
        self.write(now(), 0, shown, [("!",)])

    def _append(
        self, at: int, agent: int, site: int, routine: str, effects: list[tuple[Any, ...]]
    ) -> None:
        self._last = max(self._last, at)
        self._keep((self._last, agent, site, routine, effects))

    def _keep(self, record: tuple[Any, ...]) -> None:
        data = marshal.dumps(record)
        self._kept.append(len(data).to_bytes(_SIZE, sys.byteorder) + data)

    def touch(self, agent: int, routine: str, effect: tuple[Any, ...]) -> None:
        """A record of elements that the program reads or stores by itself.

        Between two other records of this process it does not matter in what order they come: those
        of one line, of one agent, are one record.
        """
        code, pe, heap, ranges, *written = effect
        if len(ranges) != 1 or _is_seen(effect):
            self.write(now(), agent, routine, [effect])
            return
        key = agent, self.site(), routine, code, pe, heap
        low, high = ranges[0]
        with self._lock:
            run = self._runs.get(key)
            if run is None:
                run = self._runs[key] = _Run(written)
            run.add(low, high, written)
            if len(run.starts) > _MOST_RANGES:
                self._end_runs()

    def _end_runs(self) -> None:
        """Write what is known of elements."""
        runs, self._runs = self._runs, {}
        for key, run in sorted(runs.items(), key=lambda one: one[1].at):
            agent, site, routine, *where = key
            effect = (*where, run.ranges(), *run.written)
            self._append(run.at, agent, site, routine, [effect])

    def flush(self) -> None:
        """Write what is kept: before a call that may wait for ever, and at the end."""
        with self._lock:
            if self._runs:
                self._end_runs()
            if not self._kept or os.getpid() != self._pid:  # a child of fork is no PE
                return
            kept, self._kept = self._kept, []
            data = memoryview(b"".join(kept))
            while data:
                data = data[os.write(self._fd, data) :]

    def site(self) -> int:
        """The number of the line of the program that is at work."""
        frame = _kernel_frame(sys._getframe(1)) if internals else None
        frame = frame or tracebacks.program_frame(sys._getframe(1))
        if frame is None:
            return self.number("(the library)", 0, "")
        code = frame.f_code
        found = self._sites.get((code.co_filename, frame.f_lineno))
        if found is None:
            found = self.number(code.co_filename, frame.f_lineno, code.co_qualname)
        return found

    def number(self, file: str, line: int, function: str) -> int:
        """That of a line of the program."""
        with self._lock:
            return self._number_held(file, line, function)

    def _number_held(self, file: str, line: int, function: str) -> int:
        number = self._sites.get((file, line))
        if number is None:
            number = self._sites[file, line] = len(self._sites)
            self._keep((number, os.path.abspath(file) if line else file, line, function))
        return number


class _Run:
    """Elements that one line of one agent has touched, and what it has written to all of them."""

    __slots__ = ("at", "starts", "written")

    def __init__(self, written: list[Any]) -> None:
        self.starts: dict[int, int] = {}  # of intervals, by their ends
        self.written = written

    def add(self, low: int, high: int, written: list[Any]) -> None:
        self.at = now()
        if written != self.written:
            self.written = [None] * len(written)
        begin = self.starts.pop(low, low)
        self.starts[high] = min(begin, self.starts.get(high, begin))

    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple((low, high) for high, low in self.starts.items())


def _is_seen(effect: tuple[Any, ...]) -> bool:
    """May another PE see it? Stores to its memory by what ``ptr`` returned it may."""
    return effect[0] not in _UNSEEN or (effect[0] == "w" and effect[1] != memory.me)


def _is_refusal(error: BaseException) -> bool:
    """Is it of arguments, and raised by the package: not by a signal's handler amid a wait?"""
    if not isinstance(error, TypeError | ValueError | LookupError | ArithmeticError):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and last.tb_frame.f_code.co_filename.startswith(tracebacks.PACKAGE)


def result_is_dropped() -> bool:
    """Does the program's line call for nothing but the effect, so that it knows of no value?"""
    frame = tracebacks.program_frame(sys._getframe(1))
    if frame is None:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti + 2
    while at < len(code) and code[at] == _CACHE:
        at += 2
    return at < len(code) and bool(code[at] == _DROP)


def _kernel_frame(frame: Any) -> Any:
    """The innermost frame of one of the library's own kernels; None: it is a program's."""
    while frame is not None:
        own = frame.f_code.co_filename.removeprefix(tracebacks.PACKAGE)
        if own.startswith(_KERNELS) and not own.startswith(_NO_KERNELS):
            return frame
        frame = frame.f_back
    return None


def is_internal(folders: tuple[str, ...]) -> bool:
    """Is the caller of these folders of the package the package itself, and not a user's program?"""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(tracebacks.PACKAGE):
            return False
        own = name.removeprefix(tracebacks.PACKAGE)
        if not own.startswith(folders):
            return not own.startswith("interop" + os.sep)
        frame = frame.f_back
    return False


def is_set_up() -> bool:
    """Is the caller called by the library for its own sake? What is ordered so is no promise of it.

    Where the library's own kernels are followed it is what they stand on.
    """
    frame: Any = None if internals else sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(tracebacks.PACKAGE):
        own = frame.f_code.co_filename.removeprefix(tracebacks.PACKAGE)
        if own.startswith(_SET_UP) and not own.startswith(_MADE_FOR_PROGRAMS):
            return True
        if not own.startswith(_BETWEEN):
            return False
        frame = frame.f_back
    return False


def _taken_back(file: IO[bytes]) -> frozenset[tuple[int, str]]:
    """Time and routine of the calls that have refused their arguments."""
    if not os.fstat(file.fileno()).st_size:
        return frozenset()
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = re.findall(rb"%b (\d+) ([\w.]+)" % _REFUSED.encode(), data)
    return frozenset((int(at), routine.decode()) for at, routine in found)


def records(file: IO[bytes]) -> Iterator[tuple[Any, ...]]:
    """What is in a PE's file; the last record may be cut off where the PE was killed.

    Of a call that has refused its arguments, nothing but that it was made.
    """
    refused = _taken_back(file)
    data, at = b"", 0
    while True:
        begin = at + _SIZE
        end = begin + int.from_bytes(data[at:begin], sys.byteorder)
        if len(data) < begin or len(data) < end:
            more = file.read(_BLOCK)
            if not more:
                return
            data, at = data[at:] + more, 0
            continue
        record = marshal.loads(data[begin:end])
        if refused and len(record) == 5 and (record[0], record[3]) in refused:
            record = (*record[:4], [])
        yield record
        at = end
