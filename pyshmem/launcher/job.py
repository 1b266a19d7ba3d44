# SPDX-License-Identifier: BSD-3-Clause
"""The life of a job: start its PEs, pass their output on, notice what ends it, end the rest."""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from ..check import files
from . import leftovers, torchrun_names
from .control import Control
from .guard import Guard
from .output import report
from .output.hints import ways_out
from .output.progress import Progress
from .output.streams import PARTIAL_AGE, Sink, Stream, write_all
from .output.tracebacks import Alike
from .process import Process, files_of
from .signals import ENDING, PASSED, Heard, Signals, stop_here
from .spec import JobSpec

# Signals to the PEs that are left, and the seconds before each: from the cause, or from the signal
# before it, however late that one was. All are gone within two.
AFTER_FAILURE = ((0.7, signal.SIGTERM), (0.5, signal.SIGKILL))  # they may report first

_PATIENCE = 1.0  # seconds after which whoever asked the job to end is told what it waits for
_READERS_PATIENCE = 2.0  # seconds that a job which is being ended waits for who reads its output
KILL_AT_ONCE = (0.0, signal.SIGKILL)
_GIVE_UP = (5.0, 0)  # on a process in an uninterruptible call of the kernel
_LEFTOVER_GRACE = 0.5  # what PEs started in the background may take to end by itself
_TURN = 0.25  # the most that a turn of the loop takes where there is time for it
_SAME_REQUEST = 0.3  # timeout(1) and the like signal a process and then its group
TIMED_OUT = 124  # as timeout(1) does
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


@dataclass
class _Ending:
    """Why the job is being ended, and the signals still to be sent."""

    what: str  # empty: a PE failed, see _Job.failed
    status: int
    standing: list[tuple[int, str]]  # where each PE stood when it began
    steps: list[tuple[float, int]]  # (seconds after the one before, signal)
    since: float
    due: float  # when the first of the steps is
    sent: bool = field(default=False)  # whether one was: deaths from here on are our doing
    asked: int = field(default=0)  # the signal to the launcher that asked for it; 0: none
    note_at: float = field(default=float("inf"))  # when the asker is to be told of the wait
    killed: list[int] = field(default_factory=list)  # PEs that did not end by themselves


def run_job(spec: JobSpec, control: Control) -> int:
    """Run a job to its end and return the exit status of the launcher.

    0 when every PE ended with 0; the status of the PE that failed first (128 + signal when it was
    killed); 124 after ``spec.timeout``; 128 + signal when the launcher was asked to end, but 0 when
    all PEs ended with 0 after a SIGTERM, as programs do that save their state for a batch system; 3
    where PYSHMEM_CHECK=order has found something.
    """
    with files.records(spec.n_pes, spec.settings) as records:
        spec = replace(spec, records=records.descriptors, turns=records.turns)
        with Signals() as signals:
            job = Job(spec, control, signals, progress=Progress())
            job.run()
        status, lines = job.conclusion()
        if lines:
            say(lines)
        found, waits = records.found(failed=status != 0)
        for text in (*found, *waits):
            say([text])
    return files.FOUND if found else status


class Job:
    """A job while it runs, and what can be told of it afterwards.

    Args:
        spec: what to run.
        control: where PEs say where they stand.
        signals: the signals to the launcher, which interrupt it nowhere; inside ``with`` already.
        progress: what a terminal is shown while nothing else is.
    """

    def __init__(
        self,
        spec: JobSpec,
        control: Control,
        signals: Heard,
        progress: Progress | None = None,
    ) -> None:
        self.spec = spec
        self.control = control
        self.processes: list[Process] = []
        self.failed: list[Process] = []  # not by our signals; the likeliest cause first
        self.ending: _Ending | None = None
        self._signals = signals
        self._progress = progress
        self._alike = Alike()
        self._files: list[int] = []  # of spec.output_dir
        self._leftovers = 0  # processes that the PEs had left
        self._deadline = float("inf")
        self._global_exit: int | None = None

    def run(self) -> None:
        """Start the PEs and see all of them off; of what it began nothing is left, whatever happens."""
        with ExitStack() as stack:
            stack.enter_context(files_of(len(self.spec.pes)))
            self.selector = stack.enter_context(selectors.DefaultSelector())
            if not self.spec.port:
                self.spec = replace(
                    self.spec, port=stack.enter_context(torchrun_names.meeting_point())
                )
            guard = Guard(self.spec.mark)
            stack.callback(self._dismiss, guard)
            stack.callback(self._look_back)
            stack.callback(self._clean_up)
            if self._signals.fd >= 0:
                self.selector.register(self._signals.fd, selectors.EVENT_READ)
            self._start(guard)
            self._watch()

    # ---- start ---------------------------------------------------------------------------

    def _start(self, guard: Guard) -> None:
        for pe in self.spec.pes:
            process = Process(
                pe, self.spec, self.control.fd, self._output_of(pe), self._alike, self._may_wait
            )
            self.processes.append(process)
            if process.target is not None and not process.in_foreground:
                guard.watch(process.target)
            for stream in process.streams:
                self.selector.register(stream.source, selectors.EVENT_READ, stream)
            if not self._signals.tells_ends and process.end_fd >= 0:
                self.selector.register(process.end_fd, selectors.EVENT_READ)
            if self.spec.debugged.get(pe) == "attach":
                say([f"PE {pe} waits for a debugger: gdb -p {process.pid}, then continue, twice"])
        if self.spec.timeout:
            self._deadline = time.monotonic() + self.spec.timeout
        if self._progress is not None:
            self._progress.begin(self.spec, time.monotonic())

    def _output_of(self, pe: int) -> tuple[int | Sink | None, int | Sink]:
        """Where stdout and stderr of ``pe`` go; None: the launcher's own, as it is."""
        if self.spec.sinks is not None:
            return self.spec.sinks
        if self.spec.output_dir is None:
            return None, 2
        width = len(str(self.spec.n_pes - 1))
        path = self.spec.output_dir / f"pe-{pe:0{width}}.txt"
        # Stdout goes to the file directly, stderr by the launcher: both at its end.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
        self._files.append(fd)
        return fd, fd

    # ---- the loop ------------------------------------------------------------------------

    def _watch(self) -> None:
        turned = time.monotonic()
        while any(process.returncode is None for process in self.processes):
            idle = self._idle_time()
            ready = self.selector.select(idle)
            now = time.monotonic()
            self._give_back(now - turned - idle)
            turned = now
            if self._progress is not None and any(key.data for key, _ in ready):
                self._progress.erase(now)
            for key, _ in ready:
                self._pump(key.data, now)
            for stream in self._streams():
                stream.flush_partial(now)
            self._tell_alike(now)
            for number in self._signals.take():
                self._hear(number)
            self._reap()
            now = time.monotonic()
            self._heed_deadline(now)
            if self._progress is not None and self.ending is None:
                self._progress.show(now, lambda: report.standing(self._standing()))
            if not self._take_steps(now):
                return

    def _may_wait(self) -> bool:
        """While nobody reads what PEs write: hear signals, and whether it is time to give that up."""
        for number in self._signals.take():
            self._hear(number)
        now = time.monotonic()
        self._heed_deadline(now)
        if self.ending is None:
            return True
        self._take_steps(now)
        return now - self.ending.since < _READERS_PATIENCE

    def _heed_deadline(self, now: float) -> None:
        if now >= self._deadline and self.ending is None:
            what = f"job still running after {self.spec.timeout:g} s"
            self._end(what, TIMED_OUT, AFTER_FAILURE)

    def _give_back(self, seconds: float) -> None:
        """Leave out what passed while this process stood still: the PEs may have stood still too."""
        for stream in self._streams():
            stream.give(max(0.0, seconds))
        if self.ending is not None:
            more = max(0.0, seconds - _TURN)
            self.ending.due += more
            self.ending.note_at += more

    def _idle_time(self) -> float:
        now = time.monotonic()
        until = now + 1.0
        if not self._signals.tells_ends and any(p.end_fd < 0 for p in self.processes):
            until = now + 0.05  # an old kernel: PEs' ends have to be looked for
        if self.ending is None:
            until = min(until, self._deadline)
        else:
            until = min(until, self.ending.due, self.ending.note_at)
        if self._alike.waits or any(stream.partial for stream in self._streams()):
            until = min(until, now + PARTIAL_AGE)
        return max(0.0, until - now)

    def _streams(self) -> Iterator[Stream]:
        return (stream for process in self.processes for stream in process.streams)

    def _tell_alike(self, now: float = float("inf")) -> None:
        for line in self._alike.told(now):
            say([line])

    def _pump(self, stream: Stream | None, now: float) -> None:
        if stream is not None and not stream.pump(now):
            self.selector.unregister(stream.source)

    def _reap(self) -> None:
        ended = [process for process in self.processes if process.poll()]
        for process in ended:
            if not self._signals.tells_ends and process.end_fd >= 0:
                self.selector.unregister(process.end_fd)
        failed = [process for process in ended if process.returncode]
        if failed and self.ending is not None and self.ending.sent:
            failed = [process for process in failed if process.pe == self.control.failed()]
            for process in failed:
                process.cut_short = process.returncode in (-signal.SIGTERM, -signal.SIGKILL)
        self.failed += failed
        if failed and self.ending is None:
            first = failed[0]
            why = f"PE {first.pe} (pid {first.pid}) {report.how_it_ended(first.returncode or 0)}"
            self._end("", 0, AFTER_FAILURE, abort=why)
        elif ended and self.ending is None and self.control.global_exit() == 0:
            self._end("", 0, AFTER_FAILURE)

    def _hear(self, number: int) -> None:
        if number == signal.SIGTSTP:
            self._suspend()
        elif number in PASSED:
            for process in self.processes:
                process.signal_alone(number)
        elif number in ENDING and self.ending is not None:
            now = time.monotonic()
            if now - self.ending.since > _SAME_REQUEST:  # asked again: no more grace
                self.ending.steps, self.ending.due = [KILL_AT_ONCE, _GIVE_UP], now
        elif number in ENDING:
            grace = self.spec.grace
            ending = self._end(
                f"ended by {report.signal_name(number)}", 128 + number, ((grace, signal.SIGKILL),)
            )
            ending.asked = number
            if grace > _PATIENCE:
                ending.note_at = ending.since + _PATIENCE
            self._signal(number)

    def _suspend(self) -> None:
        """Stop all PEs and the launcher, as the terminal's stop key asks; then go on."""
        for process in self.processes:
            process.signal(signal.SIGSTOP)
        stop_here()
        for process in self.processes:
            process.signal(signal.SIGCONT)

    # ---- the end -------------------------------------------------------------------------

    def _end(
        self, what: str, status: int, steps: tuple[tuple[float, int], ...], abort: str = ""
    ) -> _Ending:
        now = time.monotonic()
        if self._progress is not None:
            self._progress.erase(now)
        standing = self._standing()
        due = now + steps[0][0]
        self.ending = _Ending(what, status, standing, [*steps, _GIVE_UP], since=now, due=due)
        if abort or status == TIMED_OUT:
            self.control.abort(abort or what)
        return self.ending

    def _standing(self) -> list[tuple[int, str]]:
        return [(process.pe, self._where(process)) for process in self.processes]

    def _where(self, process: Process) -> str:
        if process.returncode == 0:
            stood = self.control.describe(process.pe)
            if stood == "finalised":
                return "had ended with exit code 0"
            return "had ended with exit code 0 and without finalize, as by os._exit()"
        return self.control.describe(process.pe)

    def _signal(self, number: int) -> None:
        assert self.ending is not None
        self.ending.sent = True
        for process in self.processes:
            # What comes from the terminal has reached the PE in its foreground already.
            if not (process.in_foreground and number in _FROM_TERMINAL):
                process.signal(number)

    def _take_steps(self, now: float) -> bool:
        """Send what is due; False when there is nothing more that could end the PEs."""
        if self.ending is None:
            return True
        if now >= self.ending.note_at:
            self.ending.note_at = float("inf")
            say([self._what_the_asker_waits_for()])
        if not self.ending.steps:
            return False
        if now >= self.ending.due:
            _, number = self.ending.steps.pop(0)
            if not number:
                return False
            if number == signal.SIGKILL:
                self.ending.killed = self._running()
            self._signal(number)
            self.ending.due = now + self.ending.steps[0][0]
        return True

    def _running(self) -> list[int]:
        return [process.pe for process in self.processes if process.returncode is None]

    def _what_the_asker_waits_for(self) -> str:
        assert self.ending is not None
        name = report.signal_name(self.ending.asked)
        again = "Ctrl-C again" if self.ending.asked == signal.SIGINT else "a second signal"
        return (
            f"{name} was passed on; {report.pes(self._running())} may run until "
            f"{self.spec.grace:g} s after it (--grace); {again} kills at once"
        )

    def _clean_up(self) -> None:
        """Leave no process of the job, and nothing open, whatever happened, here too."""
        with ExitStack() as stack:  # the last first
            stack.callback(self._tell_of_leftovers)
            if self._progress is not None:
                stack.callback(self._progress.erase, time.monotonic())
            stack.callback(self._tell_alike)
            for fd in self._files:
                stack.callback(os.close, fd)
            for process in self.processes:
                stack.callback(process.close)
            for stream in self._streams():
                stack.callback(stream.drain)
            stack.callback(self._wait_for_killed)
            stack.callback(self._end_leftovers)
            for process in self.processes:
                stack.callback(process.signal, signal.SIGKILL)

    def _end_leftovers(self) -> None:
        leaders = [
            process.target
            for process in self.processes
            if process.target is not None and not process.in_foreground
        ]
        grace = _LEFTOVER_GRACE if self.ending is None else 0.0
        self._leftovers = leftovers.end(self.spec.mark, leaders, grace)

    def _wait_for_killed(self) -> None:
        """PEs that were killed just now; as long as it takes a process that can end at all."""
        deadline = time.monotonic() + _GIVE_UP[0]
        for process in self.processes:
            while process.returncode is None and not process.poll():
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)

    def _tell_of_leftovers(self) -> None:
        if not leftovers.can_look():
            say(["no /proc here: processes that the PEs started and left may still run"])
        if self._leftovers and self.ending is None:
            say([f"ended {self._leftovers} process(es) that the PEs had started and left running"])

    def _look_back(self) -> None:
        self.failed.sort(key=self.how_likely)
        self._global_exit = self.control.global_exit()

    @staticmethod
    def _dismiss(guard: Guard) -> None:
        if why_not := guard.dismiss():
            say([f"had the launcher been killed, PEs' processes would stay: {why_not}"])

    # ---- the report ----------------------------------------------------------------------

    def conclusion(self) -> tuple[int, list[str]]:
        """The exit status of the launcher, and what there is to say of a job that failed."""
        if self.ending is None:
            return 0, []
        codes = {process.returncode for process in self.processes}
        if self.ending.asked == signal.SIGTERM and codes == {0}:
            return 0, []
        if self.ending.what:
            lines = [self.ending.what]
            if self.ending.asked and self.ending.killed:
                lines.append(f"  {report.pes(self.ending.killed)} did not end and had to be killed")
            lines += [f"  {line}" for line in report.standing(self.ending.standing)]
            return self.ending.status, lines
        # By themselves; what others failed of is how they heard of global_exit(0).
        primary = [p for p in self.failed if not report.is_secondary(p.last_lines())]
        if not primary and self._global_exit == 0:
            return 0, []
        cause = (primary or self.failed)[0]
        return cause.exit_status(), self.failure_lines(cause)

    def how_likely(self, process: Process) -> int:
        """Where it stands among the causes; those that ended while we did not look have no order."""
        by_signal = (process.returncode or 0) < 0 and not process.cut_short
        if by_signal and process.returncode != -signal.SIGABRT:
            return 0  # it had no choice
        return 1 if process.pe == self.control.failed() else 2

    def failure_lines(self, cause: Process) -> list[str]:
        assert self.ending is not None
        places = dict(self.ending.standing)
        lines = [f"PE {cause.pe} (pid {cause.pid}) {cause.how_it_ended()}"]
        lines += [f"    {line.strip()}" for line in report.last_words(cause.last_lines())]
        hints = ways_out(cause.last_lines(), self.spec.command)
        lines += [f"  {line}" for line in hints]
        if (
            place := places.pop(cause.pe)
        ) != "finalised":  # a PE that fails leaves the job on its way out
            lines.append(f"  PE {cause.pe} was: {place}")
        for other in self.failed:
            if places.get(other.pe) == "finalised":
                places[other.pe] = "failed"
        others = [
            (other.pe, f"{other.how_it_ended()} too")
            for other in self.failed
            if other is not cause and not report.is_secondary(other.last_lines())
        ]
        # How it ended says more of a PE than that it failed.
        told = {pe for pe, _ in others if places.get(pe) in ("failed", "not initialised")}
        standing = [(pe, place) for pe, place in places.items() if pe not in told]
        lines += [f"  {line}" for line in [*report.standing(standing), *report.alike(others)]]
        return lines


def say(lines: list[str]) -> None:
    """Tell the user, by the launcher's own stderr."""
    if sys.stdout is not None:  # closed before the launcher began
        sys.stdout.flush()
    text = "\n".join(lines)
    write_all(2, f"pyshmem: {text}\n".encode(errors="replace"))
