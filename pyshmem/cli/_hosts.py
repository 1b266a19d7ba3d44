# SPDX-License-Identifier: BSD-3-Clause
"""The options of ``run`` for a job on several hosts."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import click

from .._core import library
from .._core.errors import LaunchError
from ..check.options import as_one
from ..launcher.hosts import environment
from ..launcher.hosts.head import Wanted, run_on
from ..launcher.hosts.oshrun import run_by_oshrun
from ..launcher.hosts.places import Place, check_ports, places, places_in
from ..launcher.hosts.remote import SSH
from ..launcher.output.streams import occupy_standard_streams
from ..launcher.settings import settle_device
from ..launcher.spec import JobSpec

_MOST_PORT = 65535


class Over(NamedTuple):
    """Which hosts a job is to run on, and how they are reached."""

    hosts: str | None
    hostfile: Path | None
    ssh: str
    env: tuple[str, ...]
    ports: range

    @property
    def is_asked(self) -> bool:
        """Whether the job is one of several hosts."""
        return self.hosts is not None or self.hostfile is not None

    def check(self, n_pes: int | None) -> None:
        """Raises: UsageError (nothing says how many PEs the job has)."""
        if n_pes is None and not self.is_asked:
            text = "Missing option '-n' / '--n-pes', before the script: run -n 4 script.py"
            raise click.UsageError(text, click.get_current_context())

    def set_here(self) -> None:
        """Set what --env asks for, where no other host is to be told. Raises: LaunchError."""
        given = environment.given(self.env, os.environ)
        if not self.is_asked:
            os.environ.update(given)

    def run(
        self, n_pes: int | None, here_only: Collection[str], *, bind: str | None, **job: Any
    ) -> int:
        """Run it; the exit status.

        Raises: LaunchError, also for options that are given and that only a job on this host has.
        """
        refused = [f"--{name}" for name in here_only]
        found = self.places(n_pes)
        given = environment.given(self.env, os.environ)
        if library.setting("CONDUIT")[0].lower() == "openshmem":
            os.environ.update(given)
            total = sum(place.n_pes for place in found)
            spec = JobSpec(n_pes=total, device=settle_device(total), **job)
            run_by_oshrun(spec, found, [*refused, *(["--bind"] if bind else [])])
        if refused:
            raise LaunchError(f"{', '.join(refused)} and --hosts: only a job on this host has that")
        occupy_standard_streams()
        told = environment.exported(os.environ) | given
        if self.ports:  # of UCX too, which is what PEs of several hosts speak by
            own = f"{self.ports.start}-{self.ports.stop - 1}"
            of_ucx = told.setdefault("UCX_TCP_PORT_RANGE", own) == own
            check_ports(self.ports, found, of_ucx)
        return run_on(
            Wanted(
                found,
                folder=Path.cwd(),
                environment=told,
                ssh=self.ssh,
                bind=bind,
                ports=self.ports,
                **job,
            )
        )

    def places(self, n_pes: int | None) -> list[Place]:
        """The hosts, and how many PEs each has. Raises: LaunchError."""
        if self.hostfile is None:
            return places(self.hosts or "", n_pes)
        if self.hosts is not None:
            raise LaunchError("--hosts and --hostfile: give one of them")
        return places_in(self.hostfile, n_pes)


class _Ports(click.ParamType[range]):
    """``LO-HI``."""

    name = "ports"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        if isinstance(value, range) or not value:
            return value or range(0)
        low, _, high = str(value).partition("-")
        if not (low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high) <= _MOST_PORT):
            self.fail(f"{value!r}: give two ports as in 20000-20100", param, ctx)
        return range(int(low), int(high) + 1)


_OPTIONS = (
    click.option(
        "--hosts",
        metavar="A:N,B:N",
        help="Run on these hosts: a:2,b:6, or a,b for even shares of -n. localhost takes no ssh; given "
        "twice, this machine counts as two hosts.",
    ),
    click.option(
        "--hostfile",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The same by a file with a line a host: a slots=4.",
    ),
    click.option(
        "--ssh",
        default=SSH,
        metavar="COMMAND",
        help="What reaches a host: it is given the name and a command line, as ssh is.  "
        "Default: ssh, which asks for no password.",
    ),
    click.option(
        "--env",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="A variable for the PEs, on all hosts, besides PATH and those that begin with PYSHMEM, "
        "UCX, NUMBA, TRITON or PYTHON. May be given again.",
    ),
    click.option(
        "--ports",
        type=_Ports(),
        default="",
        metavar="LO-HI",
        help="TCP ports by which PEs of several hosts meet and speak; default: any.",
    ),
)


host_options = as_one("over", Over, _OPTIONS)
