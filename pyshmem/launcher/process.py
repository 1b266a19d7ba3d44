# SPDX-License-Identifier: BSD-3-Clause
"""One PE as the launcher sees it: a process, its group, its output, how it ended."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from . import binding, leftovers
from .output import report
from .output.streams import Sink, Stream
from .output.tracebacks import Alike, Gathered
from .spec import JobSpec

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up here: nothing is to load after fork


def _die_with(launcher: int) -> Callable[[], None]:
    """What a new PE does before it starts the program: ask to be killed with its launcher."""

    def prepare() -> None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != launcher:  # it died before we asked
            os._exit(1)

    return prepare


@contextlib.contextmanager
def files_of(n_pes: int) -> Iterator[None]:
    """Let this process, and the PEs that it starts meanwhile, have as many open files as a job takes.

    The launcher has some for each PE, and a PE one for each peer. What the system allows by default,
    1,024, is a soft limit; where the hard one is too low, starting a PE says so.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10 * n_pes + 256
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        yield
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Process:
    """A running PE. It leads a process group, so that what it starts can be ended with it.

    The PE that reads a terminal is the exception: only a process of the terminal's foreground group
    may read it, so that PE stays in the launcher's group, and the terminal's signals reach it
    directly.
    """

    def __init__(
        self,
        pe: int,
        spec: JobSpec,
        control_fd: int,
        output: tuple[int | Sink | None, int | Sink],
        alike: Alike,
        may_wait: Callable[[], bool] = lambda: True,
    ) -> None:
        """Start ``pe``; ``output`` is where stdout (None: the launcher's own) and stderr go.

        ``may_wait`` is asked while nobody reads it there.
        """
        self.pe = pe
        #: Whether it had failed by itself and the launcher's signal ended it on its way out.
        self.cut_short = False
        reads = pe == spec.reader
        self.in_foreground = reads and os.isatty(0)
        stdout, stderr = output
        tag = spec.label(pe)
        in_gdb = spec.debugged.get(pe) == "gdb"  # which has the terminal
        out: int | None = subprocess.PIPE
        if in_gdb or not (tag or callable(stdout)):
            out = None if callable(stdout) else stdout
        try:
            with binding.bound(spec.share_of(pe)):
                self._process = subprocess.Popen(
                    spec.command_of(pe),
                    env=spec.environment(pe, control_fd),
                    stdin=None if reads else subprocess.DEVNULL,
                    stdout=out,
                    stderr=None if in_gdb else subprocess.PIPE,
                    bufsize=0,
                    pass_fds=(control_fd, *spec.descriptors(pe)),
                    process_group=None if self.in_foreground else 0,
                    preexec_fn=None if spec.minds_launcher else _die_with(os.getpid()),
                )
        except OSError as error:
            error.add_note(f"while starting PE {pe}")
            if error.errno == errno.EMFILE:
                error.add_note("(raise the hard limit of open files, ulimit -Hn)")
            raise
        #: None while it runs; minus the number of the signal that killed it; ``UNKNOWN``.
        self.returncode: int | None = None
        self._answered = functools.partial(spec.answered, pe)
        #: The process itself, which its number may not be any more once it has ended.
        self.target: leftovers.Target | None = None
        with contextlib.suppress(ProcessLookupError):
            self.target = leftovers.Target(self._process.pid)
        self.streams: list[Stream] = []
        stream = functools.partial(Stream, tag=tag, may_wait=may_wait)
        if self._process.stderr is not None:
            more = self._gathering(spec, alike)
            self.streams.append(stream(self._process.stderr, stderr, **more))
        if self._process.stdout is not None:
            self.streams.append(stream(self._process.stdout, 1 if stdout is None else stdout))

    def _gathering(self, spec: JobSpec, alike: Alike) -> dict[str, Any]:
        """How stderr keeps tracebacks whole, where several PEs write to one place."""
        if spec.n_pes == 1 or spec.output_dir is not None:
            return {}
        if (
            spec.sinks is not None and not spec.tells_alike
        ):  # of launch, whose report is an exception
            return {"gathered": Gathered()}
        return {"gathered": Gathered(), "is_shown": functools.partial(alike.is_shown, self.pe)}

    @property
    def end_fd(self) -> int:
        """Readable once the process has ended; -1 where the kernel has no such thing."""
        return -1 if self.target is None else self.target.fd

    def close(self) -> None:
        """Forget the process, which has ended, and close its streams."""
        with contextlib.ExitStack() as stack:
            if self.target is not None:
                stack.callback(self.target.close)
            for stream in self.streams:
                stack.callback(stream.close)

    def last_lines(self) -> list[str]:
        """The last lines that the PE wrote to stderr, as far as they went through the launcher."""
        return self.streams[0].last_lines() if self._process.stderr is not None else []

    @property
    def pid(self) -> int:
        return self._process.pid

    def how_it_ended(self) -> str:
        if self.cut_short and any(line.startswith("Traceback (most") for line in self.last_lines()):
            return "failed"  # by what it has written, and the launcher shows
        if self.cut_short:
            return "failed, and was ended because it took too long to leave"
        return report.how_it_ended(self.returncode or 0)

    def exit_status(self) -> int:
        """The status a shell would show: 1 where only the launcher's signal is known, or nothing."""
        unclear = self.cut_short or self.returncode == report.UNKNOWN
        return 1 if unclear else report.exit_status(self.returncode or 0)

    def poll(self) -> bool:
        """Whether it has ended since the last call."""
        if self.returncode is not None:
            return False
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:  # the program ignores SIGCHLD, or waits for all of its children
            self.returncode = 0 if self._answered() else report.UNKNOWN
        else:
            if not pid:
                return False
            self.returncode = os.waitstatus_to_exitcode(status)
        self._process.returncode = self.returncode  # or it would wait too, when it is forgotten
        return True

    def signal(self, number: int) -> None:
        """Send a signal to the PE and what it started; nothing when it has ended."""
        self._send(number, group=not self.in_foreground)

    def signal_alone(self, number: int) -> None:
        """Send a signal to the PE and not to what it started, which may not expect it."""
        self._send(number, group=False)

    def _send(self, number: int, *, group: bool) -> None:
        if self.returncode is None and self.target is not None:
            leftovers.send(self.target, number, group=group)
