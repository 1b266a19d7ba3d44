# SPDX-License-Identifier: BSD-3-Clause
"""The output of a PE on its way through the launcher: whole lines, tagged when asked."""

from __future__ import annotations

import codecs
import errno
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import IO

from .tracebacks import Gathered

#: What takes output: a function instead of a descriptor.
Sink = Callable[[bytes], object]

#: Of readers that are gone.
_GONE = (errno.EPIPE, errno.EIO)

PARTIAL_AGE = 0.1  # seconds after which text without a line end is passed on (a prompt, dots)
LONGEST_LINE = 1 << 16
_LOOK_UP = 100  # milliseconds without a reader between two questions whether to wait on
_OWN_PATIENCE = 5.0  # seconds


def _for_a_while() -> Callable[[], bool]:
    """How long the launcher's own words wait for a reader."""
    deadline = time.monotonic() + _OWN_PATIENCE
    return lambda: time.monotonic() < deadline


def write_all(
    target: int, data: bytes, may_wait: Callable[[], bool] | None = None
) -> OSError | None:
    """Write to a descriptor that somebody else may have closed or made non-blocking.

    Args:
        target: the descriptor.
        data: what to write.
        may_wait: asked while nobody reads what was written before; a write that blocks would hear of
            no signal. Default: some seconds.

    Returns:
        Why the rest was lost; the job is not to fail for that.
    """
    view = memoryview(data)
    ready = select.poll()
    ready.register(target, select.POLLOUT)
    while view:
        if not ready.poll(0):
            may_wait = may_wait or _for_a_while()
            while not ready.poll(_LOOK_UP):
                if not may_wait():
                    return TimeoutError(errno.ETIMEDOUT, "nobody reads it")
        try:
            # As much as a pipe that is ready takes without blocking.
            view = view[os.write(target, view[: select.PIPE_BUF]) :]
        except BlockingIOError:
            os.set_blocking(target, True)
        except OSError as error:
            return error
    return None


def _careful(sink: Sink) -> Callable[[bytes], Exception | None]:
    """A sink of the caller's, a notebook's or a test's, whose exceptions are not to fail the job."""

    def write(data: bytes) -> Exception | None:
        try:
            sink(data)
        except Exception as error:
            return error
        return None

    return write


def sinks_of(output: str) -> tuple[Sink, Sink]:
    """Where ``launch`` passes stdout and stderr on: to ``sys.stdout`` and ``sys.stderr``, or nowhere."""
    if output == "none":
        return (lambda data: None), (lambda data: None)
    return _sink("stdout"), _sink("stderr")


def _sink(name: str) -> Sink:
    """To the stream that ``sys`` has under this name then, such as a notebook's cell."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def write(data: bytes) -> None:
        stream = getattr(sys, name, None)
        if stream is None:
            return
        text = decode(data)
        try:
            stream.write(text)
        except UnicodeEncodeError:  # what it has no character for is replaced
            encoding = getattr(stream, "encoding", None) or "ascii"
            stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()

    return write


def occupy_standard_streams() -> None:
    """Open the null device where a standard stream is closed, lest another file takes its number.

    PEs inherit what has the numbers 0 to 2, and read and write it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
            os.set_inheritable(number, True)


class Stream:
    """One pipe from a PE, copied to ``target``; the last lines are kept for a report.

    Args:
        source: the pipe.
        target: where to.
        tag: what each line begins with.
        keep: number of lines for the report.
        gathered: what keeps tracebacks in one piece, where several PEs write to ``target``.
        is_shown: whether a traceback need not be passed on, for another PE's that is the same was.
        may_wait: asked while nobody reads ``target``.
    """

    def __init__(
        self,
        source: IO[bytes],
        target: int | Sink,
        tag: str = "",
        keep: int = 50,
        gathered: Gathered | None = None,
        is_shown: Callable[[bytes, float], bool] = lambda block, now: False,
        may_wait: Callable[[], bool] = lambda: True,
    ) -> None:
        os.set_blocking(source.fileno(), False)
        self._gathered = gathered
        self._is_shown = is_shown
        self.source = source
        self._write: Callable[[bytes], object]
        if isinstance(target, int):
            self._write = partial(write_all, target, may_wait=may_wait)
        else:
            self._write = _careful(target)
        self._tag = tag.encode()
        self._pending = b""
        self.pending_since = 0.0
        self._line_begins = True
        self._lines: deque[bytes] = deque(maxlen=keep)
        self._last = b""
        self._lost = False

    def pump(self, now: float) -> bool:
        """Pass on what has come; False once the pipe has ended."""
        try:
            data = os.read(self.source.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            self.flush()
            return False
        begins = not self._pending
        self._pending += data
        # A carriage return ends a line too, so that progress bars move.
        end = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r")) + 1
        if len(self._pending) - end > LONGEST_LINE:
            end = len(self._pending)
        if begins or end:
            self.pending_since = now
        self._pass(end, now)
        return True

    def drain(self) -> None:
        """Pass on everything that is there without waiting for the end of the pipe."""
        try:
            while data := os.read(self.source.fileno(), 1 << 16):
                self._pending += data
        except BlockingIOError:
            pass  # something that outlived the PE still holds the other end
        self.flush()

    def flush_partial(self, now: float) -> None:
        """Pass on an unfinished line that has waited long enough."""
        if self._gathered and (block := self._gathered.due(now)):
            self._put_block(block, now)
        if self._pending and now - self.pending_since >= PARTIAL_AGE:
            self._pass(len(self._pending), now)

    def give(self, seconds: float) -> None:
        """Leave out a time in which the launcher stood still."""
        self.pending_since += seconds
        if self._gathered is not None:
            self._gathered.give(seconds)

    @property
    def partial(self) -> bool:
        """Whether something waits to be passed on."""
        return bool(self._pending or self._gathered)

    def flush(self) -> None:
        """Pass on all that waits."""
        now = time.monotonic()
        self._pass(len(self._pending), now)
        if self._gathered:
            self._put_block(self._gathered.take(), now)

    def close(self) -> None:
        self.source.close()

    def last_lines(self) -> list[str]:
        """The last lines that went through, oldest first, without their ends."""
        lines = [*self._lines, self._last] if self._last else list(self._lines)
        return [line.rpartition(b"\r")[2].decode(errors="replace") for line in lines]

    def _pass(self, end: int, now: float) -> None:
        data, self._pending = self._pending[:end], self._pending[end:]
        if data and self._gathered is not None:
            data = self._gathered.feed(data, now)
        self._put(data)

    def _put_block(self, block: bytes, now: float) -> None:
        if self._is_shown(block, now):
            self._remember(block)
        else:
            self._put(block)

    def _put(self, data: bytes) -> None:
        if not data:
            return
        self._remember(data)
        error = self._write(self._tagged(data) if self._tag else data)
        # A reader that is gone, as head is in `run ... | head`, does not want it.
        if error is None or (isinstance(error, OSError) and error.errno in _GONE) or self._lost:
            return
        self._lost = True
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        write_all(2, f"pyshmem: output of PEs is lost: {why}\n".encode(errors="replace"))

    def _remember(self, data: bytes) -> None:
        *whole, self._last = (self._last + data).split(b"\n")
        self._last = self._last[-LONGEST_LINE:]
        self._lines.extend(line.rstrip(b"\r") for line in whole)

    def _tagged(self, data: bytes) -> bytes:
        parts = []
        for line in data.splitlines(keepends=True):
            parts.append(self._tag + line if self._line_begins else line)
            self._line_begins = line.endswith((b"\n", b"\r"))
        return b"".join(parts)
