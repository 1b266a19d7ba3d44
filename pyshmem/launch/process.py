# SPDX-License-Identifier: BSD-3-Clause
"""One PE as the launcher sees it: a process, its group, its output."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from .streams import Stream

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up here: nothing is to load after fork


def _die_with(launcher: int) -> Callable[[], None]:
    """What a new PE does before it starts the program: ask to be killed with its launcher."""

    def prepare() -> None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != launcher:  # it died before we asked
            os._exit(1)

    return prepare


class Process:
    """A running PE. It leads a process group, so that what it starts can be ended with it.

    PE 0 on a terminal is the exception: only a process of the terminal's foreground group may read
    it, so that PE stays in the launcher's group, and the terminal's signals reach it directly.
    """

    def __init__(
        self,
        pe: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        control_fd: int,
        tag: str = "",
    ) -> None:
        self.pe = pe
        self.in_foreground = pe == 0 and os.isatty(0)
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=None if pe == 0 else subprocess.DEVNULL,
                stdout=subprocess.PIPE if tag else None,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=(control_fd,),
                process_group=None if self.in_foreground else 0,
                preexec_fn=_die_with(os.getpid()),
            )
        except OSError as error:
            error.add_note(f"while starting PE {pe}")
            raise
        assert self._process.stderr is not None
        self.errors = Stream(self._process.stderr, 2, tag)
        self.streams = [self.errors]
        if self._process.stdout is not None:
            self.streams.append(Stream(self._process.stdout, 1, tag))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the number of the signal that killed it."""
        return self._process.returncode

    def poll(self) -> bool:
        """Whether it has ended since the last call."""
        return self._process.returncode is None and self._process.poll() is not None

    def signal(self, number: int) -> None:
        """Send a signal to the PE and what it started; nothing when it has ended."""
        self._send(os.kill if self.in_foreground else os.killpg, number)

    def signal_alone(self, number: int) -> None:
        """Send a signal to the PE and not to what it started, which may not expect it."""
        self._send(os.kill, number)

    def _send(self, send: Callable[[int, int], None], number: int) -> None:
        if self._process.returncode is not None:
            return  # reaped: the number may belong to somebody else by now
        with contextlib.suppress(ProcessLookupError):
            send(self.pid, number)
