# SPDX-License-Identifier: BSD-3-Clause
"""The life of a job on several hosts: start an agent on each, pass on what they say, end the rest."""

from __future__ import annotations

import secrets
import selectors
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..._core import library
from ..._core.errors import LaunchError
from ..job import TIMED_OUT, say
from ..output import report
from ..output.streams import write_all
from ..process import files_of
from ..signals import ENDING, PASSED, Signals, stop_here
from .ending import Ending, conclusion
from .frames import Broken, Kind, fields_of
from .places import Place
from .remote import SSH, Remote, State

_AT_A_TIME = 64  # of ssh that have not connected yet: sshd and this host have limits
_TURN = 0.25  # seconds
_READERS_PATIENCE = 2.0  # seconds that a job which is being ended waits for who reads its output
#: Seconds beyond those that PEs are given, after which a host whose PEs have not ended is let go of.
_LENIENCE = 8.0
_TO_FAIL = 2.0  # what agents give their PEs when one has failed


@dataclass(frozen=True)
class Wanted:
    """A job on several hosts."""

    places: Sequence[Place]
    command: Sequence[str]
    folder: Path  #: of the PEs, on all hosts
    environment: dict[str, str] = field(
        default_factory=dict
    )  #: of the agents and PEs, besides their own
    device: str = "auto"
    ssh: str = SSH
    timeout: float = 0.0  #: as of ``JobSpec``
    grace: float = 10.0
    tag: bool = False
    bind: str | None = None
    ports: range = field(default_factory=lambda: range(0))  #: where PE 0 listens; empty: any

    @property
    def n_pes(self) -> int:
        """Of all hosts."""
        return sum(place.n_pes for place in self.places)


def run_on(wanted: Wanted) -> int:
    """Run a job to its end; the exit status is as of ``run_job``, and 1 where a host was lost.

    Raises: LaunchError (a host could not be started; then no PE was).
    """
    with Signals() as signals:
        job = Head(wanted, signals)
        job.run()
        status, lines = conclusion(job.remotes, job.ending)
    if job.refused:
        raise LaunchError(job.refused)
    if lines:
        say(lines)
    return status


class Head:
    """A job on several hosts while it runs.

    Args:
        wanted: what to run.
        signals: the signals to this command; inside ``with`` already.
    """

    def __init__(self, wanted: Wanted, signals: Signals) -> None:
        self.wanted = wanted
        self.remotes = _remotes(wanted.places)
        self.ending: Ending | None = None
        self.refused = ""  #: why no PE was started
        self._signals = signals
        self._deadline = float("inf")
        self._to_start = float("inf")
        self._job = secrets.token_hex(8)
        self._device = ""
        self._stood_still = (
            0.0  # seconds that this process was kept from running, at most at a time
        )

    def run(self) -> None:
        """Start the agents and see all of them off; nothing of them is left here."""
        with ExitStack() as stack:
            stack.enter_context(files_of(len(self.remotes)))
            self.selector = stack.enter_context(selectors.DefaultSelector())
            self.selector.register(self._signals.fd, selectors.EVENT_READ)
            for remote in self.remotes:
                stack.callback(remote.stop)
            stack.callback(self._close_inputs)
            if seconds := library.setting_number("INIT_TIMEOUT") / 1e9:
                self._to_start = time.monotonic() + seconds
            self._begin()
            self._watch()

    def _close_inputs(self) -> None:
        for remote in self.remotes:
            remote.close_input()

    def _begin(self) -> None:
        """Start agents, as many at a time as is good."""
        starting = sum(remote.state is State.STARTING for remote in self.remotes)
        for remote in [each for each in self.remotes if each.state is State.WAITING]:
            if starting >= _AT_A_TIME:
                return
            starting += 1
            try:
                remote.begin(self.wanted.ssh, time.monotonic())
            except LaunchError as error:
                self._refuse(str(error))
                return
            self.selector.register(remote.source, selectors.EVENT_READ, (remote, False))
            self.selector.register(remote.errors, selectors.EVENT_READ, (remote, True))
            remote.say(
                Kind.PREPARE,
                folder=str(self.wanted.folder),
                environment=self.wanted.environment,
                n_here=remote.place.n_pes,
            )

    # ---- the loop ------------------------------------------------------------------------

    def _watch(self) -> None:
        turned = time.monotonic()
        while not self.refused and not all(remote.is_over for remote in self.remotes):
            ready = self.selector.select(_TURN)
            now = time.monotonic()
            self._give_back(max(0.0, now - turned - _TURN))
            turned = now
            for key, _ in ready:
                if key.data is not None:
                    remote, of_stderr = key.data
                    self._read(remote, of_stderr, now)
            for number in self._signals.take():
                self._hear(number)
            if not self._keep_time(time.monotonic()):
                return
        self._read_last_words()

    def _give_back(self, seconds: float) -> None:
        """Leave out what passed while this process stood still, or waited for who reads its output."""
        self._stood_still = max(self._stood_still, seconds)
        for remote in self.remotes:
            remote.heard_at += seconds
        if self.ending is not None:
            self.ending.limit += seconds

    def _keep_time(self, now: float) -> bool:
        """Show life, and heed deadlines; False: there is nothing more to wait for."""
        for remote in self.remotes:
            remote.show_life(now)
            remote.flush()
            if remote.is_silent(now):
                self._lose(remote, f"nothing was heard of it for {now - remote.heard_at:.0f} s")
        if now > self._to_start and (late := self._not_yet(State.WAITING, State.STARTING)):
            self._refuse(f"host {late[0].name} was not ready within PYSHMEM_INIT_TIMEOUT")
        if now >= self._deadline and self.ending is None:
            what = f"job still running after {self.wanted.timeout:g} s"
            self._end(Ending(what, TIMED_OUT, now + _TO_FAIL + _LENIENCE), abort=True)
        if self.ending is not None:
            if self._not_yet(State.WAITING, State.STARTING, State.READY):
                return False
            if now > self.ending.limit:
                for remote in self._not_yet(State.RUNNING):
                    remote.lose("its PEs did not end in time", now)
        return True

    def _not_yet(self, *states: State) -> list[Remote]:
        return [remote for remote in self.remotes if remote.state in states]

    def _may_wait(self) -> bool:
        """While nobody reads what PEs write: hear signals, show life, and whether to give that up."""
        for number in self._signals.take():
            self._hear(number)
        now = time.monotonic()
        for remote in self.remotes:
            remote.show_life(now)
        return self.ending is None or now - self.ending.since < _READERS_PATIENCE

    # ---- what hosts say ------------------------------------------------------------------

    def _read(self, remote: Remote, of_stderr: bool, now: float) -> None:
        if remote.state is State.LOST:
            self._forget(remote)
        elif of_stderr:
            self._read_words(remote)
        else:
            try:
                found = remote.frames(now)
                for kind, payload in found or ():
                    self._take(remote, kind, payload, now)
            except Broken as error:
                self._lose(remote, f"what it says is not of this job: {error}")
                return
            if found is None:
                self._forget(remote)
                self._read_words(remote)
                if remote.state is not State.DONE:
                    self._lose(remote, remote.why_it_ended(self._stood_still))

    def _forget(self, remote: Remote) -> None:
        for fd in (remote.source, remote.errors):
            if fd in self.selector.get_map():
                self.selector.unregister(fd)

    def _read_words(self, remote: Remote) -> None:
        """Of its launcher and ssh: passed on once it runs; before, kept for when it fails."""
        found = remote.lines()
        if found is None:
            if remote.errors in self.selector.get_map():
                self.selector.unregister(remote.errors)
        elif remote.state in (State.RUNNING, State.DONE):
            for line in found:
                self._write(2, f"host {remote.name}: {line}\n".encode(errors="replace"))

    def _read_last_words(self) -> None:
        for remote in self._not_yet(State.DONE):
            self._read_words(remote)

    def _write(self, stream: int, data: bytes) -> None:
        write_all(stream, data, self._may_wait)

    def _take(self, remote: Remote, kind: Kind, payload: bytes, now: float) -> None:
        if kind is Kind.OUTPUT and payload[:1] in (b"\1", b"\2"):
            self._write(payload[0], payload[1:])
        elif kind is Kind.READY:
            remote.told = fields_of(payload, name=str, device=str)
            remote.state = State.READY
            self._begin()
            if all(each.state is State.READY for each in self.remotes):
                self._have_pe_0_listen()
        elif kind is Kind.LISTENS:
            self._start(fields_of(payload, address=str, rendezvous=str, port=int))
        elif kind is Kind.ENDING:
            why = fields_of(payload, why=str, quiet=bool)["why"]
            remote.ended_at = min(remote.ended_at, now)
            if self.ending is None:
                what = f"{why}, on host {remote.name}" if why else ""
                self._end(Ending("", 1, now + _TO_FAIL + _LENIENCE, what), abort=bool(why))
        elif kind is Kind.DONE:
            numbers = dict.fromkeys(("status", "rank"), int)
            remote.told = fields_of(payload, **numbers, lines=list, standing=list, zero=bool)
            remote.state = State.DONE
            remote.close_input()
        elif kind is Kind.REFUSED:
            self._refuse(f"host {remote.name}: {fields_of(payload, why=str)['why']}")
        else:
            raise Broken(f"a frame {kind.name} when it should not come")

    # ---- start ---------------------------------------------------------------------------

    def _have_pe_0_listen(self) -> None:
        devices = {remote.told["device"]: remote.name for remote in reversed(self.remotes)}
        if len(devices) > 1:
            found = ", ".join(f"{device} on {name}" for device, name in devices.items())
            self._refuse(f"the hosts differ in what kernels run on, so give --device: {found}")
            return
        (self._device,) = devices
        others = [remote.place.host for remote in self.remotes if not remote.place.is_here]
        ports = self.wanted.ports
        first = self.remotes[0]
        others = [host for host in others if host != first.place.host]
        first.say(Kind.LISTEN, others=others, ports=[ports.start, ports.stop])

    def _start(self, met: dict[str, Any]) -> None:
        secret = secrets.token_hex(16)
        for remote in self.remotes:
            remote.state = State.RUNNING
            remote.say(
                Kind.START,
                **met,
                secret=secret,
                device=self._device,
                job=self._job,
                command=list(self.wanted.command),
                n_pes=self.wanted.n_pes,
                n_here=remote.place.n_pes,
                first=remote.first,
                number=remote.number,
                grace=self.wanted.grace,
                tag=self.wanted.tag,
                bind=self.wanted.bind,
            )
        self._to_start = float("inf")
        if self.wanted.timeout:
            self._deadline = time.monotonic() + self.wanted.timeout

    # ---- the end -------------------------------------------------------------------------

    def _refuse(self, why: str) -> None:
        """Nothing was started, or what was is ended by the end of what the head says."""
        self.refused = self.refused or why

    def _lose(self, remote: Remote, why: str) -> None:
        now = time.monotonic()
        before = remote.state
        self._forget(remote)
        remote.lose(why, now)
        if before in (State.STARTING, State.READY):
            self._refuse(f"host {remote.name}: {why}")
        elif self.ending is None:
            what = f"host {remote.name} was lost: {why}"
            self._end(Ending("", 1, now + _TO_FAIL + _LENIENCE, what), abort=True)

    def _end(self, ending: Ending, *, abort: bool) -> None:
        """Have all hosts end their PEs, those that do not already."""
        self.ending = ending
        what = ending.what or ending.why
        for remote in self._not_yet(State.RUNNING):
            remote.say(Kind.END, what=what, status=ending.status, abort=abort)

    def _hear(self, number: int) -> None:
        if number == signal.SIGTSTP:
            self._suspend()
        elif number in (*PASSED, *ENDING):
            if number in ENDING and self.ending is None:
                now = time.monotonic()
                what = f"ended by {report.signal_name(number)}"
                limit = now + self.wanted.grace + _LENIENCE
                self.ending = Ending(what, 128 + number, limit, asked=number, since=now)
            for remote in self.remotes:
                remote.pass_on(number)

    def _suspend(self) -> None:
        """Stop all PEs and this command, as the terminal's stop key asks; then go on."""
        for remote in self.remotes:
            remote.pass_on(signal.SIGTSTP)
        stop_here()
        now = time.monotonic()
        for remote in self.remotes:
            remote.heard_at = now
            if remote.state is State.RUNNING:
                remote.say(Kind.GO_ON)


def _remotes(places: Sequence[Place]) -> list[Remote]:
    """By place; one whose name another has too is told by its number besides."""
    names = [place.host for place in places]
    found, first = [], 0
    for number, place in enumerate(places):
        name = place.host if names.count(place.host) == 1 else f"{place.host} (#{number})"
        found.append(Remote(number, name, place, first))
        first += place.n_pes
    return found
