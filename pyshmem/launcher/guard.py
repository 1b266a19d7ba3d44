# SPDX-License-Identifier: BSD-3-Clause
"""The guard: a process beside the launcher, which ends a job whose launcher is gone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time

from . import leftovers

#: What the guard does not end by: a batch system signals all processes of a job alike.
_DEAF_TO = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)

_PATIENCE = 2.0  # seconds that a guard has to end by itself, and then to be gone when it was killed


class Guard:
    """``leftovers.py`` running as a program beside the launcher, in a session of its own."""

    def __init__(self, job: str) -> None:
        # The environment stays, for this Python may need its LD_LIBRARY_PATH or PYTHONHOME to start;
        # but for the name of a job that the launcher itself may be in, which would find the guard.
        environment = {
            name: text for name, text in os.environ.items() if name not in leftovers.MARKS
        }
        # What is blocked here is blocked there, for good. Not a function to call after fork: programs
        # that call ``launch`` have threads.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, _DEAF_TO)
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-S", leftovers.__file__, job],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
                bufsize=0,
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)  # it may be stopped, and not read
        self._target: leftovers.Target | None = None
        with contextlib.suppress(ProcessLookupError):
            self._target = leftovers.Target(self._process.pid)

    def watch(self, leader: leftovers.Target) -> None:
        """Have the processes of a PE's group ended too if the launcher is killed."""
        self._say(f"{leader.pid} {leader.start}")

    def dismiss(self) -> str:
        """End the guard: the launcher has left nothing. Takes no longer than some seconds.

        A guard that somebody has stopped is continued and not waited for. It stays for a second more:
        who stopped it finds it, and no other process by its number, when they continue it.

        Returns: why it did not guard, if it could not start; else nothing.
        """
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        with contextlib.ExitStack() as stack:
            if self._target is not None:
                stack.callback(self._target.close)
            stack.callback(self._process.stderr.close)
            stopped = self._is_stopped()
            self._say(leftovers.LATER if stopped else leftovers.DONE)
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._signal(signal.SIGCONT)  # somebody may have stopped it just now
            if stopped:
                threading.Thread(target=self._process.wait, daemon=True).start()
                return ""
            words = self._last_words(self._process.stderr.fileno())
            if not self._ended():
                self._signal(signal.SIGKILL)
                self._ended()
        if (self._process.returncode or 0) <= 0:
            return ""  # or somebody ended it
        return words.rpartition("\n")[2] or f"exit code {self._process.returncode}"

    def _last_words(self, fd: int) -> str:
        """What it writes until it ends, or its time is over."""
        deadline = time.monotonic() + _PATIENCE
        found = b""
        with select.epoll() as ready:  # unlike select, of any descriptor
            ready.register(fd, select.EPOLLIN)
            while ready.poll(max(0.0, deadline - time.monotonic())):
                data = os.read(fd, 1 << 16)
                if not data:
                    break
                found += data
        return found.decode(errors="replace").strip()

    def _ended(self) -> bool:
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _is_stopped(self) -> bool:
        facts = leftovers.facts_of(self._process.pid)
        return facts is not None and facts.state in (b"T", b"t")

    def _signal(self, number: int) -> None:
        if self._target is not None:
            leftovers.send(self._target, number)

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # somebody ended the guard; the job goes on without it
            self._process.stdin.write(word.encode() + b"\n")
