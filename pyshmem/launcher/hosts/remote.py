# SPDX-License-Identifier: BSD-3-Clause
"""One host of a job as the head sees it: the ssh that reaches it, what it says, how it was lost."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from enum import Enum
from typing import Any

from ..._core import library
from ..._core.errors import LaunchError
from .. import leftovers
from ..output.report import signal_name
from .frames import (
    BANNER,
    HERE,
    PING,
    PROTOCOL,
    SECRET_BYTES,
    SILENCE,
    UNHEARD,
    Kind,
    Reader,
    Writer,
)
from .places import Place

#: No question that nobody could answer, and no connection that is gone and not told of.
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=2"

_AGENT = "pyshmem.launcher.hosts.agent"
#: What Python needs to find this package at all, before the head can say anything.
_FOR_PYTHON = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
_NO_SUCH_PROGRAM = 127  # of a shell
_PATIENCE = 3.0  # seconds for an agent to leave once its PEs have
_WORDS = 20  # lines of its stderr that are kept for a message


class State(Enum):
    """How far a host is."""

    WAITING = 0
    STARTING = 1
    READY = 2
    RUNNING = 3
    DONE = 4
    LOST = 5


class Remote:
    """A host of the job.

    Args:
        number: among the job's hosts.
        name: by which it is told of.
        place: its name, and how many PEs it has.
        first: the first of them.
    """

    def __init__(self, number: int, name: str, place: Place, first: int) -> None:
        self.number = number
        self.name = name
        self.place = place
        self.first = first
        self.state = State.WAITING
        self.told: dict[str, Any] = {}  #: of READY, then of DONE
        self.ended_at = float("inf")  #: when its PEs began to be ended, or it was lost
        self.lost = ""  #: why
        self.words: deque[str] = deque(maxlen=_WORDS)  #: of its stderr
        self.heard_at = self.spoke_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._target: leftovers.Target | None = None
        self._unsaid = bytearray()
        secret = secrets.token_bytes(SECRET_BYTES)
        self._secret = secret
        self._writer = Writer(secret, b"head")
        self._reader = Reader(secret, b"agent", BANNER)
        self._rest = b""

    @property
    def lives(self) -> bool:
        """Whether there is an agent that speaks and hears."""
        return self.state in (State.READY, State.RUNNING)

    @property
    def is_over(self) -> bool:
        return self.state in (State.DONE, State.LOST)

    @property
    def source(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def errors(self) -> int:
        assert self._process is not None
        assert self._process.stderr is not None
        return self._process.stderr.fileno()

    # ---- start ---------------------------------------------------------------------------

    def begin(self, ssh: str, now: float) -> None:
        """Start its agent. Raises: LaunchError (there is no such command here)."""
        command = self._command(ssh)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                # The terminal's signals are for the head, which passes them on.
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(
                f"host {self.name}: cannot run {command[0]}: {error.strerror}"
            ) from error
        with contextlib.suppress(ProcessLookupError):
            self._target = leftovers.Target(self._process.pid)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self.state = State.STARTING
        self.heard_at = now
        greeting = {
            "protocol": PROTOCOL,
            "version": library.__version__,
            "secret": self._secret.hex(),
        }
        self._put(json.dumps(greeting).encode() + b"\n", now)

    def _command(self, ssh: str) -> list[str]:
        python = [sys.executable, "-P", "-m", _AGENT]
        if self.place.is_here:
            return [*python, HERE]
        told = [f"{name}={os.environ[name]}" for name in _FOR_PYTHON if os.environ.get(name)]
        line = "exec " + shlex.join([*(["env", *told] if told else []), *python])
        return [*shlex.split(ssh), self.place.host.strip("[]"), line]

    # ---- what goes there -----------------------------------------------------------------

    def say(self, kind: Kind, **fields: Any) -> None:
        """Say it; nothing where there is nobody."""
        if not self.is_over:
            self._put(self._writer.told(kind, **fields), time.monotonic())

    def pass_on(self, number: int) -> None:
        """Pass a signal on."""
        if self.state is State.RUNNING:
            self._put(self._writer.frame(Kind.SIGNAL, bytes([number])), time.monotonic())

    def show_life(self, now: float) -> None:
        """Say that the head is there, once a second."""
        if self.lives and now - self.spoke_at >= PING:
            self._put(self._writer.frame(Kind.ALIVE), now)

    def _put(self, data: bytes, now: float) -> None:
        self._unsaid += data
        self.spoke_at = now
        self.flush()

    def flush(self) -> None:
        """Write what is to be said, as far as that needs no waiting."""
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        with contextlib.suppress(BlockingIOError):
            try:
                while self._unsaid:
                    del self._unsaid[
                        : os.write(self._process.stdin.fileno(), self._unsaid[: 1 << 16])
                    ]
            except BrokenPipeError:  # its end is seen where it is read
                self._unsaid.clear()

    # ---- what comes from there -----------------------------------------------------------

    def frames(self, now: float) -> list[tuple[Kind, bytes]] | None:
        """What it has said since; None: it will say nothing more. Raises: Broken."""
        try:
            data = os.read(self.source, 1 << 18)
        except BlockingIOError:
            return []
        if not data:
            return None
        self.heard_at = now
        return [found for found in self._reader.feed(data) if found[0] is not Kind.ALIVE]

    def lines(self) -> list[str] | None:
        """What it wrote to stderr since, in whole lines; None: nothing more comes."""
        try:
            data = os.read(self.errors, 1 << 16)
        except BlockingIOError:
            return []
        whole, _, self._rest = (self._rest + data).rpartition(b"\n")
        if not data:
            whole, self._rest = self._rest, b""
        found = [line.rstrip("\r") for line in whole.decode(errors="replace").split("\n")]
        found = [line for line in found if line]
        self.words += found
        return found if found or data else None

    def is_silent(self, now: float) -> bool:
        """Whether nothing has been heard of it for too long; one of this host is seen to end."""
        return self.lives and not self.place.is_here and now - self.heard_at > SILENCE

    # ---- the end -------------------------------------------------------------------------

    def lose(self, why: str, now: float) -> None:
        """Count it as lost, for this reason, and let go of it."""
        self.lost = why
        self.ended_at = min(self.ended_at, now)
        self.state = State.LOST
        self._signal(signal.SIGKILL)

    def why_it_ended(self, stood_still: float) -> str:
        """Its command has ended before it should: how, with its last words.

        ``stood_still``: seconds that this process was kept from running, at most at a time.
        """
        code = self._waited(1.0)
        what = self._what
        if code is None:
            return f"{what} closed its output"
        if code == _NO_SUCH_PROGRAM and self.state is State.STARTING:
            where = "pyshmem and Python have to be at the same path on all hosts"
            how = f"there is no {sys.executable}, or it does not start: {where}"
        elif code < 0:
            how = f"{what} was killed by {signal_name(-code)}"
        else:
            how = f"{what} ended with exit code {code}"
        if any(word.endswith(UNHEARD) for word in self.words):
            if stood_still > SILENCE / 2:
                load = f"the machine did not let it run for {stood_still:.0f} s, and is busy"
            else:
                load = "the link was cut, or this machine is busy"
            return f"it ended its PEs, as it had heard nothing of this command for {SILENCE:g} s: {load}"
        last = next((word for word in reversed(self.words) if word.strip()), "")
        return f"{how}: {last.strip()}" if last else how

    @property
    def _what(self) -> str:
        if self.place.is_here:
            return "its launcher"
        assert self._process is not None
        return os.path.basename(str(self._process.args[0]))  # type: ignore[index]

    def stop(self) -> None:
        """Let its agent leave, and its ssh; nothing of either is left here."""
        if self._process is None:
            return
        with contextlib.ExitStack() as stack:
            if self._target is not None:
                stack.callback(self._target.close)
            for pipe in (self._process.stdout, self._process.stderr):
                assert pipe is not None
                stack.callback(pipe.close)
            assert self._process.stdin is not None
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            if self._waited(_PATIENCE if self.state is not State.LOST else 0.0) is None:
                self._signal(signal.SIGKILL)
                self._process.wait()

    def close_input(self) -> None:
        """Tell its agent that nothing more comes: it ends what it has, and leaves."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _waited(self, seconds: float) -> int | None:
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _signal(self, number: int) -> None:
        """To the command and what it started, such as the one that ssh reaches a host through."""
        if self._target is not None and self._process is not None and self._process.poll() is None:
            leftovers.send(self._target, number, group=True)
