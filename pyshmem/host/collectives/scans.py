# SPDX-License-Identifier: BSD-3-Clause
"""Scans: sums over the PEs before the caller, in PE order. All PEs of the team make the same call."""

from __future__ import annotations

from typing import SupportsIndex

from ..._core.arrays.checks import StreamLike
from ..._core.arrays.types import AnyArray
from ..teams.team import TEAM_WORLD, Channel, Team
from . import arguments as arguments
from .dispatch import do


def sum_inscan(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Sum over PEs 0 to this one of each element of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer, floating-point or complex dtype.
        nelems: elements to sum; default ``source.size``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Example: ``pyshmem.sum_inscan(dest, source)``
    Spec: shmem_sum_inscan (OpenSHMEM 1.6).
    """
    do("sum_scan", 3, arguments.scan("sum_inscan", 0, dest, source, nelems, team), stream)


def sum_exscan(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Sum over the PEs before this one of each element of ``source``, into ``dest``; PE 0 gets 0.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer, floating-point or complex dtype.
        nelems: elements to sum; default ``source.size``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Example: ``pyshmem.sum_exscan(dest, source)``
    Spec: shmem_sum_exscan (OpenSHMEM 1.6).
    """
    do("sum_scan", 3, arguments.scan("sum_exscan", 1, dest, source, nelems, team), stream)
