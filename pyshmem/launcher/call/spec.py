# SPDX-License-Identifier: BSD-3-Clause
"""The job that a call of ``pyshmem.launch`` is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..spec import JobSpec
from . import answers


@dataclass(frozen=True)
class CallSpec(JobSpec):
    """PEs that find what to call in a descriptor, and write what comes of it to another."""

    call: int = -1
    results: Sequence[int] = ()  #: by PE
    variables: Mapping[str, str] = field(default_factory=dict)  #: the caller's, for the PEs

    minds_launcher = True

    @property
    def reader(self) -> None:
        """Nobody: the program that called may read its standard input itself."""
        return None

    def descriptors(self, pe: int) -> tuple[int, ...]:
        """Where the call is, and where the result goes."""
        return self.call, self.results[pe], *super().descriptors(pe)

    def answered(self, pe: int) -> bool:
        """Whether the function returned there."""
        return "value" in answers.answer_in(self.results[pe])

    def environment(self, pe: int, control_fd: int) -> dict[str, str]:
        """As of any job, and the caller's variables."""
        where = f"{self.call},{self.results[pe]},{os.getpid()}"
        wanted = super().environment(pe, control_fd) | dict(self.variables)
        return wanted | {"PYSHMEM_CALL": where, "PYSHMEM_DEVICE": self.device}
