# SPDX-License-Identifier: BSD-3-Clause
"""Collective data movement. All PEs of the team make the same call.

Decisions that depend on arguments use only those that are equal on all PEs.
"""

from __future__ import annotations

from typing import SupportsIndex

from ..._core.arrays.checks import StreamLike
from ..._core.arrays.types import AnyArray
from ..fast_calls import fast
from ..teams.team import TEAM_WORLD, Channel, Team
from . import arguments as arguments
from .dispatch import do


@fast("broadcast")
def broadcast(
    dest: AnyArray,
    source: AnyArray,
    root: int,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Copy ``source`` of ``root`` into ``dest`` of all PEs of the team, the root's too.

    Args:
        dest: symmetric array, contiguous, at least ``nelems`` elements.
        source: symmetric array of the same dtype; its elements matter on the root.
        root: PE of the team that has the data, ``0 <= root < team.n_pes()``; equal on all PEs.
        nelems: elements to copy; default ``source.size``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (root, nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, NotInitialized, ShmemError.
    Example: ``pyshmem.broadcast(dest, source, 0)``
    Spec: shmem_broadcast (OpenSHMEM 1.5).
    """
    do("broadcast", 1, arguments.broadcast(dest, source, root, nelems, team), stream)


@fast("fcollect")
def fcollect(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Concatenate ``source`` of all PEs of the team, in PE order, into ``dest`` of each.

    Args:
        dest: symmetric array, contiguous, at least ``nelems * team.n_pes()`` elements.
        source: symmetric array of the same dtype, at least ``nelems`` elements.
        nelems: elements that each PE gives; default ``source.size``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, NotInitialized, ShmemError.
    Example: ``pyshmem.fcollect(whole, source)``
    Spec: shmem_fcollect (OpenSHMEM 1.5).
    """
    do("fcollect", 1, arguments.fcollect(dest, source, nelems, team), stream)


def collect(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Concatenate ``source`` of all PEs of the team, as many elements as each gives, into ``dest``.

    Args:
        dest: symmetric array, contiguous, with room for the elements of all PEs together.
        source: symmetric array of the same dtype, at least ``nelems`` elements.
        nelems: elements that this PE gives, also 0; default ``source.size``; PEs may differ.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (nelems, layout, not symmetric; a dest of one PE
        that does not hold all elements raises on all, and nothing is written), PeerDied,
        ShmemTimeout, NotInitialized, ShmemError.
    Example: ``pyshmem.collect(whole, source[:2])``
    Spec: shmem_collect (OpenSHMEM 1.5).
    """
    do("collect", 1, arguments.collect(dest, source, nelems, team), stream)


@fast("alltoall")
def alltoall(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Give block ``pe`` of ``source`` to each PE; ``dest`` gets the blocks in PE order.

    Args:
        dest: symmetric array, contiguous, at least ``nelems * team.n_pes()`` elements.
        source: symmetric array of the same dtype, at least as many elements.
        nelems: elements of a block; default ``source.size // team.n_pes()``, without rest; equal
            on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, NotInitialized, ShmemError.
    Example: ``pyshmem.alltoall(dest, source)``
    Spec: shmem_alltoall (OpenSHMEM 1.5).
    """
    do("alltoall", 1, arguments.alltoall(dest, source, nelems, team), stream)


def alltoalls(
    dest: AnyArray,
    source: AnyArray,
    *,
    dst: SupportsIndex = 1,
    sst: SupportsIndex = 1,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """``alltoall`` of elements at a distance: block ``pe`` starts at ``pe * nelems * stride``.

    Args:
        dest: symmetric array, contiguous.
        source: symmetric array of the same dtype.
        dst: distance of the elements in ``dest``, at least 1; equal on all PEs.
        sst: the same in ``source``.
        nelems: elements of a block; default what ``source`` has at its distance, divided by
            ``team.n_pes()``, without rest; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (dst, sst, nelems, layout, not symmetric),
        PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Example: ``pyshmem.alltoalls(dest, source, dst=2, sst=1, nelems=1)``
    Spec: shmem_alltoalls (OpenSHMEM 1.5).
    """
    do("alltoalls", 1, arguments.alltoalls(dest, source, dst, sst, nelems, team), stream)
