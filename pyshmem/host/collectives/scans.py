# SPDX-License-Identifier: BSD-3-Clause
"""Scans: sums over the PEs before the caller, in PE order. All PEs of the team make the same call."""

from __future__ import annotations

from typing import SupportsIndex

from ..._core.arrays.checks import StreamLike
from ..._core.arrays.types import AnyArray
from ..._core.library import lib
from ..teams.team import TEAM_WORLD, Channel, Team
from . import arguments as arguments
from .dispatch import do
from .reductions import Reduction, ReductionNb, public
from .requests import Request, begin


def _forms(name: str, exclusive: int, over: str, rest: str = "") -> tuple[Reduction, ReductionNb]:
    """The blocking form, and the one that begins it (see ``nonblocking``)."""

    def scan(
        dest: AnyArray, source: AnyArray, *, nelems: SupportsIndex | None = None,
        team: Team | Channel = TEAM_WORLD, stream: StreamLike = None,
    ) -> None:  # fmt: skip
        """Sum over {over} of each element of ``source``, into ``dest``{rest}.

        Args:
            dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
                ``source`` itself.
            source: symmetric array, contiguous, of an integer, floating-point or complex dtype.
            nelems: elements to sum; default ``source.size``; equal on all PEs.
        {blocking}
        Example: ``pyshmem.{name}(dest, source)``
        Spec: shmem_{name} (OpenSHMEM 1.6).
        """
        do("sum_scan", 3, arguments.scan(name, exclusive, dest, source, nelems, team), stream)

    def scan_nb(
        dest: AnyArray, source: AnyArray, *, nelems: SupportsIndex | None = None,
        team: Team = TEAM_WORLD,
    ) -> Request:  # fmt: skip
        """Begin ``{begins}``, with its arguments: sum over {over}{rest}.

        Completes: as ``nonblocking`` says.
        Raises: what the blocking routine does, and MismatchError.
        Example: ``pyshmem.{name}(dest, source).wait()``
        Extension.
        """
        given = arguments.scan(name, exclusive, dest, source, nelems, team)
        return begin(lib.ishmemx_sum_scan_nb, given, (dest, source), f"{name}_nb")

    words = {"begins": name, "over": over, "rest": rest}
    return public(scan, name, **words), public(scan_nb, f"{name}_nb", **words)


sum_inscan, sum_inscan_nb = _forms("sum_inscan", 0, "PEs 0 to this one")
sum_exscan, sum_exscan_nb = _forms("sum_exscan", 1, "the PEs before this one", "; PE 0 gets 0")
