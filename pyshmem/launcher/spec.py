# SPDX-License-Identifier: BSD-3-Clause
"""What to run: the command of each PE, its device, its CPUs and its environment."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .._core.errors import LaunchError
from . import torchrun_names
from .binding import Share, cpus_together
from .output.streams import Sink

__all__ = ["JobSpec", "LaunchError", "under_debugger"]


#: What the launcher tells each PE of its place; nobody else's to set.
PLACE = tuple(
    f"PYSHMEM_{name}"
    for name in (
        "PE",
        "N_PES",
        "LOCAL_PE",
        "CORES",
        "JOB",
        "CONTROL_FD",
        "CHECK_FD",
        "CHECK_TURNS_FD",
    )
)
#: What it tells them besides where they are on several hosts.
MEETING = tuple(f"PYSHMEM_{name}" for name in ("HOST", "RENDEZVOUS", "RENDEZVOUS_FD", "SECRET"))


@dataclass(frozen=True)
class JobSpec:
    """A job to run on this host."""

    n_pes: int
    command: Sequence[str]
    device: str = "none"  #: ``cuda``, ``sim`` or ``none``: decided once, so that all PEs agree
    timeout: float = 0.0  #: seconds the job may take; 0: any
    grace: float = 10.0  #: seconds from a signal that ends the job to SIGKILL
    tag: bool = False  #: begin each line of output with the number of its PE
    output_dir: Path | None = None  #: where each PE's output goes to a file of its own
    settings: Mapping[str, str] = field(default_factory=dict)  #: more ``PYSHMEM_*`` for the PEs
    shares: Sequence[Share] = ()  #: CPUs and threads by PE; empty: as the launcher's
    port: int = 0  #: of the host, at which PEs may meet, as PyTorch's do; 0: none
    debugged: Mapping[int, str] = field(default_factory=dict)  #: PEs under ``gdb`` or ``attach``
    records: Sequence[int] = ()  #: descriptors for PYSHMEM_CHECK=order, by PE
    turns: Sequence[int] = ()  #: a descriptor for PYSHMEM_CHECK=deliver
    job: str = field(default_factory=lambda: secrets.token_hex(8))

    #: Whether the program itself sees to it that it dies with the launcher.
    minds_launcher = False
    #: Where output goes: a function a stream instead of the launcher's own descriptors.
    sinks: tuple[Sink, Sink] | None = None
    #: Whether tracebacks of PEs that are alike are passed on once, though output goes to ``sinks``.
    tells_alike = False

    def command_of(self, pe: int) -> Sequence[str]:
        """What ``pe`` runs."""
        how = self.debugged.get(pe)
        return self.command if how is None else under_debugger(how, self.command)

    def descriptors(self, pe: int) -> tuple[int, ...]:
        """More descriptors that ``pe`` inherits."""
        return (self.records[pe], *self.turns) if self.records else ()

    def answered(self, pe: int) -> bool:
        """Whether ``pe``, whose exit code is not known, did what it was to do."""
        return True

    @property
    def pes(self) -> range:
        """The PEs that this launcher starts."""
        return range(self.n_pes)

    @property
    def mark(self) -> str:
        """What is in the environment of all that the job started here, see ``leftovers.py``."""
        return self.job

    def share_of(self, pe: int) -> Share | None:
        """The CPUs and threads of ``pe``; None: as the launcher's."""
        return self.shares[pe - self.pes.start] if self.shares else None

    def place_of(self, pe: int, environment: Mapping[str, str]) -> dict[str, str]:
        """The place of ``pe`` by PyTorch's names, as far as ``environment`` does not say it."""
        return torchrun_names.variables(pe, self.n_pes, self.port, environment)

    @property
    def reader(self) -> int | None:
        """The PE that reads the launcher's standard input: one under gdb, else the first."""
        return next((pe for pe, how in self.debugged.items() if how == "gdb"), 0)

    def environment(self, pe: int, control_fd: int) -> dict[str, str]:
        """The environment of ``pe``: the launcher's, and the job's."""
        variables = dict(os.environ)
        if share := self.share_of(pe):
            variables |= share.variables(variables)
        variables |= self.place_of(pe, variables)
        variables.update({f"PYSHMEM_{name}": value for name, value in self.settings.items()})
        variables.update(
            PYSHMEM_PE=str(pe),
            PYSHMEM_N_PES=str(self.n_pes),
            PYSHMEM_LOCAL_PE=str(pe - self.pes.start),
            PYSHMEM_CORES=str(cpus_together(self.shares)),
            PYSHMEM_JOB=self.job,
            PYSHMEM_CONTROL_FD=str(control_fd),
            PYSHMEM_DEVICE=self.device,
        )
        if self.records:
            variables["PYSHMEM_CHECK_FD"] = str(self.records[pe])
        for fd in self.turns:
            variables["PYSHMEM_CHECK_TURNS_FD"] = str(fd)
        if self.debugged:  # the others wait for the one that somebody steps through
            variables.setdefault("PYSHMEM_INIT_TIMEOUT", "0")
        # A crash in native code shows the Python lines that led to it.
        variables.setdefault("PYTHONFAULTHANDLER", "1")
        if self.tag or self.output_dir is not None:
            variables["PYTHONUNBUFFERED"] = "1"
        if self.device in ("sim", "cpu"):
            variables["NUMBA_ENABLE_CUDASIM"] = "1"
            variables.setdefault("TRITON_INTERPRET", "1")
        elif self.device == "cuda":
            variables.pop("NUMBA_ENABLE_CUDASIM", None)
            variables.pop("TRITON_INTERPRET", None)
            # A module that is loaded lazily waits for the GPU, which waits for the module.
            variables["CUDA_MODULE_LOADING"] = "EAGER"
        return variables

    def label(self, pe: int) -> str:
        """The tag of a line of ``pe``; empty when lines are not tagged."""
        return f"[{pe:>{len(str(self.n_pes - 1))}}] " if self.tag else ""


def under_debugger(how: str, command: Sequence[str]) -> list[str]:
    """``command`` under ``gdb``, or stopped until a debugger is there (``attach``)."""
    if how == "attach":
        # The process stops before the program starts; a debugger follows it into the program.
        return ["/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *command]
    gdb = shutil.which("gdb")
    if gdb is None:
        raise LaunchError(
            "--gdb: there is no gdb on the PATH: install it (Debian: apt install gdb)"
        )
    return [gdb, "-q", "--args", *command]
