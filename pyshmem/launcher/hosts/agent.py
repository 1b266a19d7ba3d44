# SPDX-License-Identifier: BSD-3-Clause
"""The program on each host of a job: the launcher of that host's PEs, which the head speaks to.

``python -m pyshmem.launcher.hosts.agent``, started by ssh. What it is to do comes by its standard input
(``frames.py``); what the PEs write, and how they ended, goes by its standard output.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

from ..._core import library
from ..._core.errors import ShmemError
from ...host.job.joining.addresses import with_port
from .. import binding
from ..control import NativeControl
from ..job import AFTER_FAILURE, KILL_AT_ONCE, Job, say
from ..output import report
from ..settings import check_settings, settle_device
from .address import opened, own_address
from .frames import HERE, Broken, Kind, fields_of, texts_of
from .link import Link, Lost
from .spec import HostSpec

_LAUNCHER_GONE = ((0.0, signal.SIGTERM), (0.5, signal.SIGKILL))


class HostJob(Job):
    """The job of one host, which ends with those of the others.

    Args:
        spec: its part.
        control: where its PEs say where they stand.
        link: the head.
    """

    def __init__(self, spec: HostSpec, control: NativeControl, link: Link, listener: Any) -> None:
        sinks = (partial(self._carry, 1), partial(self._carry, 2))
        super().__init__(replace(spec, sinks=sinks), control, link)
        self._link = link
        self._listener = listener
        self._is_told = False  # that the job is being ended, by the head
        self._let_go = False

    def _carry(self, stream: int, data: bytes) -> None:
        self._link.output(stream, data, self._may_write)

    def _may_write(self) -> bool:
        """While the head does not take output: hear it, for as long as it is there."""
        self._may_wait()
        return not self._link.lost

    def _start(self, guard: Any) -> None:
        super()._start(guard)
        if self._listener is not None:
            self._listener.close()  # PE 0 has it, and closes it when all have come

    def _give_back(self, seconds: float) -> None:
        super()._give_back(seconds)
        self._link.give(max(0.0, seconds))

    def _heed_deadline(self, now: float) -> None:
        self._link.show_life(now)
        while self._link.orders:
            self._obey(*self._link.orders.popleft())
        if self._link.lost and not self._let_go:
            self._let_go = True
            if self._link.fd in self.selector.get_map():
                self.selector.unregister(self._link.fd)
            self._end_without_head(now)
        super()._heed_deadline(now)

    def _end_without_head(self, now: float) -> None:
        if self.ending is None:
            self._is_told = True
            self._end(self._link.lost, 1, _LAUNCHER_GONE, abort=self._link.lost)
        else:
            self.ending.steps[:] = [KILL_AT_ONCE, *self.ending.steps[-1:]]
            self.ending.due = now

    def _obey(self, kind: Kind, payload: bytes) -> None:
        if kind is Kind.GO_ON:
            self._link.suspended = False
            for process in self.processes:
                process.signal(signal.SIGCONT)
        elif kind is Kind.END and self.ending is None:
            order = fields_of(payload, what=str, status=int, abort=bool)
            self._is_told = True
            what = order["what"]
            self._end(what, order["status"], AFTER_FAILURE, abort=what if order["abort"] else "")

    def _suspend(self) -> None:
        self._link.suspended = True
        for process in self.processes:
            process.signal(signal.SIGSTOP)

    def _end(self, what: str, status: int, steps: Any, abort: str = "") -> Any:
        ending = super()._end(what, status, steps, abort)
        if not self._is_told:
            self._link.send(Kind.ENDING, why=abort or what, quiet=not (abort or what))
        return ending

    def account(self) -> dict[str, Any]:
        """What the head is told of how it ended."""
        status, lines = self.conclusion()
        primary = [p for p in self.failed if not report.is_secondary(p.last_lines())]
        told: dict[str, Any] = {"status": status, "lines": lines, "rank": -1, "standing": []}
        told["zero"] = all(process.returncode == 0 for process in self.processes)
        if self.ending is not None:
            told["standing"] = report.standing(self.ending.standing)
            told["killed"] = self.ending.killed
            if self.failed:
                cause = (primary or self.failed)[0]
                told["rank"] = self.how_likely(cause) if primary else 3
                told |= {"status": cause.exit_status(), "lines": self.failure_lines(cause)}
        return told


# ---- before the PEs --------------------------------------------------------------------------


def _prepared(payload: bytes) -> dict[str, Any]:
    """Do what the head says before there are PEs; what this host is. Raises what is told the head."""
    order = fields_of(payload, folder=str, environment=dict, n_here=int)
    os.environ.update({str(name): str(text) for name, text in order["environment"].items()})
    try:
        os.chdir(order["folder"])
    except OSError as error:
        raise OSError(
            error.errno, f"the folder of the job: {error.strerror}", order["folder"]
        ) from None
    check_settings()
    return {"name": socket.gethostname(), "device": settle_device(order["n_here"])}


def _met(payload: bytes, stack: ExitStack) -> tuple[str, Any, int]:
    """Open where PEs meet: the address, what listens there for pyshmem, the port for PyTorch."""
    order = fields_of(payload, others=list, ports=list)
    address = own_address(texts_of(order["others"]))
    low, high = order["ports"]
    ports = range(int(low), int(high))
    listener = stack.enter_context(closing(opened(address, ports, listening=True)))
    held = stack.enter_context(closing(opened(address, ports, listening=False)))
    return address, listener, int(held.getsockname()[1])


def _spec_of(order: dict[str, Any], listener: Any) -> HostSpec:
    device, n_here = order["device"], order["n_here"]
    return HostSpec(
        n_pes=order["n_pes"],
        command=texts_of(order["command"]),
        device=device,
        grace=float(order["grace"]),
        tag=order["tag"],
        shares=binding.shares(n_here, order.get("bind"), device, finer=True),
        port=order["port"],
        job=order["job"],
        first=order["first"],
        n_here=n_here,
        number=order["number"],
        address=order["address"],
        rendezvous=order["rendezvous"],
        secret=order["secret"],
        listener=-1 if listener is None else listener.fileno(),
    )


def _run(payload: bytes, link: Link, listener: Any) -> None:
    """Run this host's PEs, and tell how they ended."""
    texts = dict.fromkeys(("device", "job", "address", "rendezvous", "secret"), str)
    numbers = dict.fromkeys(("n_pes", "n_here", "first", "number", "port"), int)
    order = fields_of(payload, **texts, **numbers, command=list, grace=(int, float), tag=bool)
    spec = _spec_of(order, listener)
    control = NativeControl(spec.n_pes)
    try:
        job = HostJob(spec, control, link, listener)
        job.run()
        told = job.account()
    finally:
        control.close()
    if link.lost:
        say([link.lost])
    link.send(Kind.DONE, **told)


def _serve(link: Link) -> int:
    greeting = link.greet()
    version = library.__version__
    if greeting["version"] != version:
        link.send(
            Kind.REFUSED,
            why=f"pyshmem {version} is installed there, and here {greeting['version']}: "
            "all hosts have to have the same",
        )
        return 1
    listener = None
    with ExitStack() as stack:
        try:
            while True:
                kind, payload = link.next()
                if kind is Kind.PREPARE:
                    link.send(Kind.READY, **_prepared(payload))
                elif kind is Kind.LISTEN:
                    address, listener, port = _met(payload, stack)
                    there = with_port(address, listener.getsockname()[1])
                    link.send(Kind.LISTENS, address=address, rendezvous=there, port=port)
                elif kind is Kind.START:
                    _run(payload, link, listener)
                    return 0
                else:  # a signal to a head that has not started: it ends by closing this
                    raise Lost("the head gave up before the PEs were started")
        except (ShmemError, ValueError, OSError) as error:
            notes = " ".join(getattr(error, "__notes__", []))
            link.send(Kind.REFUSED, why=f"{error} {notes}".rstrip())
            return 1


def main() -> int:
    """Serve the head that started this."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    link = Link(os.dup(0), os.dup(1), here=HERE in sys.argv)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)  # whatever is printed here is no frame
    try:
        return _serve(link)
    except (Lost, Broken) as error:
        say([f"the launcher of this host ends: {error}"])
        return 1


if __name__ == "__main__":
    sys.exit(main())
