# SPDX-License-Identifier: BSD-3-Clause
"""One host's part of a job on several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .. import torchrun_names
from ..output.streams import Sink
from ..spec import JobSpec


@dataclass(frozen=True)
class HostSpec(JobSpec):
    """The PEs ``first`` to ``first + n_here - 1`` of a job."""

    first: int = 0
    n_here: int = 0
    number: int = 0  #: of the host, among the job's
    address: str = ""  #: of PE 0's host, as the others reach it
    rendezvous: str = ""  #: the address with a port, where PE 0 listens
    secret: str = ""  #: of the PEs, for that
    listener: int = -1  #: what listens there, for PE 0
    sinks: tuple[Sink, Sink] | None = None

    tells_alike = True

    @property
    def pes(self) -> range:
        """The PEs of this host."""
        return range(self.first, self.first + self.n_here)

    @property
    def mark(self) -> str:
        """Of this host's part alone: another part may be on the same machine."""
        return f"{self.job}.{self.number}"

    @property
    def reader(self) -> None:
        """Nobody: the agent's standard input is the head's."""
        return None

    def place_of(self, pe: int, environment: Mapping[str, str]) -> dict[str, str]:
        """Where PE 0 meets the others is on its host, and not on each."""
        return torchrun_names.variables(
            pe, self.n_pes, self.port, environment, here=self.pes, address=self.address
        )

    def descriptors(self, pe: int) -> tuple[int, ...]:
        """PE 0 has the socket at which it meets the others."""
        listens = (self.listener,) if pe == 0 else ()
        return *listens, *super().descriptors(pe)

    def environment(self, pe: int, control_fd: int) -> dict[str, str]:
        """As of any job, and how the PEs of several hosts meet."""
        variables = super().environment(pe, control_fd)
        variables.update(
            PYSHMEM_HOST=self.mark,
            PYSHMEM_RENDEZVOUS=self.rendezvous,
            PYSHMEM_SECRET=self.secret,
        )
        if pe == 0:
            variables["PYSHMEM_RENDEZVOUS_FD"] = str(self.listener)
        return variables
