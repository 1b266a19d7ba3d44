# SPDX-License-Identifier: BSD-3-Clause
"""Signals to the launcher, as bytes in a pipe that its loop reads."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Self

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


class Unheard:
    """In place of ``Signals`` in a program of the user's, which has handlers of its own."""

    fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def take(self) -> list[int]:
        """None: signals go where the program has them."""
        return []


def stop_here() -> None:
    """Stop the launcher itself, as the terminal asked; returns when it is continued."""
    os.kill(os.getpid(), signal.SIGSTOP)
