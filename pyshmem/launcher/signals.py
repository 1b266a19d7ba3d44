# SPDX-License-Identifier: BSD-3-Clause
"""Signals to the launcher, as bytes in a pipe that its loop reads: nothing else interrupts a job.

``Signals`` are those of a program that is the launcher, ``Held`` those of a program of the user's
that calls ``launch``, whose handlers wait for a moment at which an exception does no harm.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

#: What asks the job to end: passed on to the PEs, which have some time for it.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: What is passed on and means what the program makes of it.
PASSED = (signal.SIGUSR1, signal.SIGUSR2)
#: A terminal's stop key and the end of a PE are heard too.
HEARD = (*ENDING, *PASSED, signal.SIGTSTP, signal.SIGCHLD)


def _hear(number: int, frame: FrameType | None) -> None:
    """Nothing: Python writes the number to the wake-up pipe before it calls this."""


class Signals:
    """Within ``with``, the signals of ``HEARD`` arrive at ``fd`` instead of interrupting."""

    tells_ends = True  #: ``fd`` is readable when a PE has ended, too

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)

    def __enter__(self) -> Self:
        self._wakeup = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        # A signal that is ignored stays so: that is what nohup and a background shell ask for.
        # SIGCHLD must not be ignored, or the kernel throws exit codes away.
        self._before = {
            number: signal.signal(number, _hear)
            for number in HEARD
            if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.fd)
        os.close(self._write_fd)

    def take(self) -> list[int]:
        """Numbers of the signals that came since the last call, in their order."""
        try:
            return list(os.read(self.fd, 4096))
        except BlockingIOError:
            return []


class Heard(Protocol):
    """What the loop of a job asks for the signals that are meant for it."""

    fd: int  #: readable when there are some; -1: none will come
    tells_ends: bool  #: whether it is when a PE has ended, too

    def take(self) -> list[int]:
        """Numbers of the signals that came since the last call, in their order."""
        ...


class Held:
    """Within ``with``, the handlers that a program has set run where ``take`` is called, or behind it.

    A handler may raise, as that of Ctrl-C does, and would do so between any two steps of starting or
    ending a job. Here it is called at one place, and what it raised asks the job to end. In threads
    beside the main one no handler runs and nothing is held; ``fd`` is -1 there.

    Attributes:
        raised: the first exception of a handler, for the caller to raise once the job has ended.
    """

    tells_ends = False

    def __init__(self) -> None:
        self.fd = self._write_fd = -1
        self.raised: BaseException | None = None
        self._came: list[int] = []
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._ignored_ends = False

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        # That of Ctrl-C first, and back last: it is the one that raises.
        for number in sorted(map(int, signal.valid_signals()), key=lambda n: n != signal.SIGINT):
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
        try:
            for number in self._handlers:
                signal.signal(number, self._note)
            # Where ends of children are ignored, the kernel throws their exit codes away.
            if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
                self._ignored_ends = True
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.fd, self._write_fd = os.pipe()
            os.set_blocking(self.fd, False)
            os.set_blocking(self._write_fd, False)
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._let_go()
        while self._came:  # behind the last call of take
            number = self._came.pop(0)
            self._handlers[number](number, sys._getframe())

    def _let_go(self) -> None:
        read_fd, write_fd = self.fd, self._write_fd
        self.fd = self._write_fd = -1  # before its number may be another file's
        with contextlib.ExitStack() as stack:  # the last first, whatever a handler raises meanwhile
            for number, handler in self._handlers.items():
                stack.callback(signal.signal, number, handler)
            if self._ignored_ends:
                stack.callback(_forget_ended_children)
                stack.callback(signal.signal, signal.SIGCHLD, signal.SIG_IGN)
            for fd in (read_fd, write_fd):
                if fd >= 0:
                    stack.callback(os.close, fd)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append(number)
        with contextlib.suppress(OSError):  # full: it is readable already
            os.write(self._write_fd, b"!")

    def take(self) -> list[int]:
        """Call the handlers of the signals that came; SIGINT for each that raised."""
        with contextlib.suppress(OSError):
            os.read(self.fd, 4096)
        came, self._came = self._came, []
        asked: list[int] = []
        for number in came:
            if number == signal.SIGCHLD:  # its handler may wait for PEs
                self._came.append(number)
                continue
            try:
                self._handlers[number](number, sys._getframe())
            except BaseException as error:
                self.raised = self.raised or error
                asked.append(signal.SIGINT)
        return asked


def _forget_ended_children() -> None:
    """Wait for what ended while ends were not ignored, as the kernel would have done."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def stop_here() -> None:
    """Stop the launcher itself, as the terminal asked; returns when it is continued."""
    signal.raise_signal(signal.SIGSTOP)
