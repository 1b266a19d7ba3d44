# SPDX-License-Identifier: BSD-3-Clause
"""Requests: non-blocking collectives under way. See ``nonblocking`` for what begins them."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from ..._core.arrays.checks import StreamLike, place
from ..._core.library import check, checks_args, ffi, lib, owned
from ..job import runtime, tracebacks
from ..job.handles import Handle
from ..memory import heap, sites
from . import stream_waits

_FIRST_PAUSE_S, _LAST_PAUSE_S = 50e-6, 1e-3


def _line_here() -> sites.Line:
    """The program's line."""
    frame = tracebacks.program_frame(sys._getframe(1))
    return sites.OWN if frame is None else (frame.f_code.co_filename, frame.f_lineno)


class _Held:
    """What the library knows of a request, and the arrays that it uses until it is complete.

    ``_under_way`` has it until then: in a cycle that is garbage the request and the arrays would be
    ended before ``Request.__del__`` could keep them.
    """

    __slots__ = ("__weakref__", "arrays", "cell", "line", "routine", "stream_waits")

    def __init__(self, cell: Any, arrays: tuple[Any, ...], routine: str) -> None:
        self.cell = cell  # owns an ishmemx_request_t; 0: there is none
        self.arrays = arrays
        self.routine = routine
        self.stream_waits = False
        self.line = _line_here() if checks_args() else None  # that began it

    def warn(self, what: str) -> None:
        """Once, that nobody has waited for it: at the line that began it, where that is known."""
        text = f"{self.routine}: its request {what}: dest may have been read before it was there"
        if self.line is None:
            text += " (PYSHMEM_CHECK=1 names the line that began it)"
        warnings.warn_explicit(text, RuntimeWarning, *self.line or _line_here())

    @property
    def handle(self) -> int:
        return int(self.cell[0]) if self.cell else 0


#: Of all requests that were not seen to be complete.
_under_way: set[_Held] = set()

#: The latest by the address of its ``dest``.
_dests: weakref.WeakValueDictionary[int, _Held] = weakref.WeakValueDictionary()

#: Of those that were dropped before; looked through when another one begins.
_dropped: deque[_Held] = deque()


class Request(Handle):
    """A collective that this PE has begun. ``await request`` waits for it in an asyncio program.

    It holds the arrays until it is complete. Do not change ``source``, nor look at ``dest``, before
    that. A request that is dropped before, or that nobody has waited for at ``finalize``, is a
    RuntimeWarning, with the line that began it in checking mode: it still completes, by progress in
    later calls, at the latest in ``finalize``.
    """

    __slots__ = ("_done", "_held", "_routine")

    def __init__(self, held: _Held, routine: str) -> None:
        self._routine = routine
        self._done = False
        self._held = held

    def test(self) -> bool:
        """Move requests on, and tell whether this one is complete.

        It waits for no call of another PE. But the call that finds that all PEs have begun does this
        PE's share of the work: it takes as long as copying or combining those bytes.

        Completes: when True, ``dest`` of this PE, and ``source`` may be changed.
        Raises: what the collective failed with, again at each call: MismatchError (PYSHMEM_CHECK:
            PEs differ), ValueError (``collect_nb``: a dest that is too small); PeerDied,
            NotInitialized, ShmemError.
        Extension.
        """
        if self._done:
            return True
        done = ffi.new("int *")
        check(lib.ishmemx_request_test(self._held.handle, done))
        if done[0]:
            self._end()
        return self._done

    def wait(self, stream: StreamLike = None) -> None:
        """Wait until the request is complete; at once when it is.

        Args:
            stream: what is put on it after this waits, and the call returns at once. A thread moves the
                request on. Not while the stream is captured: a graph would wait for what is done once.

        Completes: ``dest`` of this PE, and ``source`` may be changed; with ``stream``, for what comes
            behind on the stream. Where the collective fails the stream goes on, and a later ``wait()``
            or ``test()`` raises.
        Raises: as ``test``, and ShmemTimeout: the request is still under way and may be waited for
            again. With ``stream``: ValueError (stream), UnsupportedError (no accelerator), ShmemError
            (captured; over 512 requests that streams wait for).
        Extension.
        """
        if stream is not None:
            if not self.test():
                stream_waits.begin(self, self._held.handle, stream)
                self._held.stream_waits = True
        elif not self._done:
            check(lib.ishmemx_request_wait(self._held.handle))
            self._end()

    def __await__(self) -> Generator[Any, None, None]:
        """Let other tasks run until the request is complete. Cancelling the task leaves it as it is.

        Only limits of the task end it early (``asyncio.timeout``); PYSHMEM_TIMEOUT is for ``wait``.
        Raises: as ``test``.
        Extension.
        """
        from asyncio import sleep

        pause = 0.0
        while not self.test():
            yield from sleep(pause).__await__()
            pause = min(max(2 * pause, _FIRST_PAUSE_S), _LAST_PAUSE_S)

    def _end(self) -> None:
        self._done = True
        _let_go(self._held)

    def __del__(self) -> None:
        held = getattr(self, "_held", None)
        if held is None or self._done:
            return
        if _is_complete(held):
            _let_go(held)
            return
        _dropped.append(held)
        held.warn("was dropped, and nobody waited for it")

    def __repr__(self) -> str:
        if not hasattr(self, "_held"):
            return "<pyshmem request that is half made>"
        return f"<pyshmem request {self._routine}, {'complete' if self._done else 'under way'}>"


def begin(
    routine: Callable[..., int], arguments: tuple[int, ...], arrays: tuple[Any, ...], name: str
) -> Request:
    """Call a ``_nb`` routine of the library. Of ``arrays`` the first is ``dest``."""
    _forget_completed()
    held = _Held(owned(lib.end_request), arrays, name)
    if arrays:
        _take_dest(held)
    try:
        _under_way.add(held)
        check(routine(*arguments, held.cell))
        return Request(held, name)
    except BaseException:
        if held.handle:  # a handler interrupted behind the call: it goes on, and uses the arrays
            _dropped.append(held)
        else:
            _let_go(held)
        raise


def _take_dest(held: _Held) -> None:
    """Of two requests into one ``dest`` chance says which it has. Those dropped have their warning."""
    address = place(held.arrays[0], "dest", symmetric=False, writable=False)[0]
    other = _dests.get(address)
    if other is not None and other.handle and not _is_complete(other) and other not in _dropped:
        at = ""
        if other.line is not None:
            at = f", begun at {Path(other.line[0]).name}:{other.line[1]},"
        raise ValueError(
            f"{held.routine}: dest is that of {other.routine}{at} which is under way: wait for its "
            "request first, or give another array"
        )
    _dests[address] = held


def _forget_completed() -> None:
    """Let go of dropped requests that are complete; other threads may drop more meanwhile."""
    for _ in range(len(_dropped)):
        try:
            held = _dropped.popleft()
        except IndexError:  # another thread is at it too
            return
        if _is_complete(held):
            _let_go(held)
        else:
            _dropped.append(held)


def _let_go(held: _Held) -> None:
    _under_way.discard(held)
    held.arrays = ()


def _is_complete(held: _Held) -> bool:
    """A look that moves nothing. Also of a request that failed, or whose job has ended."""
    return bool(lib.ishmemx_request_complete(held.handle))


def _use_of(address: int, nbytes: int) -> str:
    """What ``heap`` tells of an array that is given back while a request uses it."""
    for held in list(_under_way):
        begins = (place(one, "array", symmetric=False, writable=False)[0] for one in held.arrays)
        if any(0 <= begin - address < nbytes for begin in begins) and not _is_complete(held):
            return f"{held.routine} is under way and uses it: wait for its request first"
    return ""


heap.users.append(_use_of)


def _job_ends() -> None:
    """Tell of requests that the program keeps and has not waited for."""
    if runtime.ends_in_order():
        for held in _under_way.difference(_dropped):
            _dropped.append(held)
            if not held.stream_waits:
                held.warn("was not waited for, and finalize completes it")


runtime.on_finalize(_job_ends, first=True)
