# SPDX-License-Identifier: BSD-3-Clause
"""Non-blocking collectives: each begins the one of its name without ``_nb`` and returns a request.

    request = pyshmem.sum_reduce_nb(total, part)
    ...  # work that leaves total and part alone
    request.wait()

All PEs of a team begin the same ones in the same order, with blocking collectives between them alike.
The arguments, and what becomes of ``dest``, are those of the blocking routine; reductions give the same
bits. Eight requests of a team may be under way: a further call waits until the oldest is complete.
Requests are waited for in any order, on any number of teams. A PE moves its requests on while it is in
``test``, in ``wait``, in a call that begins another one, and in whatever else of pyshmem waits
(``barrier_all``, ``wait_until``, blocking collectives, ``finalize``): a PE that only computes keeps the
others waiting.

All complete at ``Request.wait``, or ``Request.test`` that tells True. Before that ``dest`` and
``source`` belong to the request, and may not be used in another one. All raise on the call what the
blocking routine raises for its arguments; with PYSHMEM_CHECK what PEs disagree about is a MismatchError
of ``wait`` and ``test``, on all PEs. ShmemTimeout is raised by a call that waits for the oldest request.
"""

from __future__ import annotations

from typing import SupportsIndex

from ..._core.arrays.types import AnyArray
from ..._core.library import lib
from ..teams.team import TEAM_WORLD, Team, team_of
from . import arguments as arguments
from .requests import Request, begin


def sync_nb(team: Team = TEAM_WORLD) -> Request:
    """Begin ``team.sync``: complete when all PEs of the team have begun it.

    Args:
        team: the PEs that take part.

    Completes: as the module says; this PE's and the others' stores to their own memory.
    Raises: ValueError (team was destroyed), PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Example: ``pyshmem.sync_nb().wait()``
    Extension.
    """
    return begin(lib.ishmemx_sync_nb, (team_of(team).handle,), (), "sync_nb")


def barrier_nb(team: Team = TEAM_WORLD) -> Request:
    """Begin a barrier: ``quiet`` of the default context, which may wait for data, then ``sync_nb``.

    Args:
        team: the PEs that take part.

    Completes: as the module says; what all PEs of the team issued before they began it.
    Raises: ValueError (team was destroyed), PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Example: ``pyshmem.barrier_nb().wait()``
    Extension.
    """
    return begin(lib.ishmemx_barrier_nb, (team_of(team).handle,), (), "barrier_nb")


def broadcast_nb(
    dest: AnyArray,
    source: AnyArray,
    root: int,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``broadcast``: copy ``source`` of ``root`` into ``dest`` of all PEs of the team.

    Args:
        dest: symmetric array of the dtype of ``source``, contiguous, at least ``nelems`` elements.
        source: symmetric array, contiguous.
        root: PE of the team that has the data; equal on all PEs.
        nelems: elements to copy; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: as the module says.
    Raises: TypeError (dtypes differ), ValueError (root, nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, MismatchError, NotInitialized, ShmemError.
    Example: ``pyshmem.broadcast_nb(dest, source, 0).wait()``
    Extension.
    """
    given = arguments.broadcast(dest, source, root, nelems, team)
    return begin(lib.ishmemx_broadcast_nb, given, (dest, source), "broadcast_nb")


def fcollect_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``fcollect``: concatenate ``source`` of all PEs into ``dest`` of each.

    Args:
        dest: symmetric array of the dtype of ``source``, contiguous, ``nelems`` elements a PE.
        source: symmetric array, contiguous.
        nelems: elements that each PE gives; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: as the module says.
    Raises: TypeError (dtypes differ), ValueError (nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, MismatchError, NotInitialized, ShmemError.
    Example: ``pyshmem.fcollect_nb(whole, source).wait()``
    Extension.
    """
    given = arguments.fcollect(dest, source, nelems, team)
    return begin(lib.ishmemx_fcollect_nb, given, (dest, source), "fcollect_nb")


def collect_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``collect``: concatenate as many elements as each PE gives.

    Args:
        dest: symmetric array of the dtype of ``source``, contiguous, with room for all; else
            ``wait`` and ``test`` raise ValueError on all PEs.
        source: symmetric array, contiguous.
        nelems: elements that this PE gives; default ``source.size``; PEs may differ.
        team: the PEs that take part.

    Completes: as the module says.
    Raises: TypeError (dtypes differ), ValueError (nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, MismatchError, NotInitialized, ShmemError.
    Example: ``pyshmem.collect_nb(whole, source[:2]).wait()``
    Extension.
    """
    given = arguments.collect(dest, source, nelems, team)
    return begin(lib.ishmemx_collect_nb, given, (dest, source), "collect_nb")


def alltoall_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``alltoall``: give block ``pe`` of ``source`` to each PE.

    Args:
        dest: symmetric array of the dtype of ``source``, contiguous, ``nelems`` elements a PE.
        source: symmetric array, contiguous.
        nelems: elements of a block; default ``source.size // team.n_pes()``; equal on all PEs.
        team: the PEs that take part.

    Completes: as the module says.
    Raises: TypeError (dtypes differ), ValueError (nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, MismatchError, NotInitialized, ShmemError.
    Example: ``pyshmem.alltoall_nb(dest, source).wait()``
    Extension.
    """
    given = arguments.alltoall(dest, source, nelems, team)
    return begin(lib.ishmemx_alltoall_nb, given, (dest, source), "alltoall_nb")


def alltoalls_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    dst: SupportsIndex = 1,
    sst: SupportsIndex = 1,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``alltoalls``: ``alltoall`` of elements at a distance.

    Args:
        dest: symmetric array of the dtype of ``source``, contiguous, ``nelems`` elements a PE,
            ``dst`` apart.
        source: symmetric array, contiguous.
        dst: distance of the elements in ``dest``, at least 1; equal on all PEs.
        sst: the same in ``source``.
        nelems: elements of a block; default as of ``alltoalls``; equal on all PEs.
        team: the PEs that take part.

    Completes: as the module says.
    Raises: TypeError (dtypes differ), ValueError (dst, sst, nelems, layout, not symmetric),
        PeerDied, ShmemTimeout, MismatchError, NotInitialized, ShmemError.
    Example: ``pyshmem.alltoalls_nb(dest, source, dst=2, sst=1, nelems=1).wait()``
    Extension.
    """
    given = arguments.alltoalls(dest, source, dst, sst, nelems, team)
    return begin(lib.ishmemx_alltoalls_nb, given, (dest, source), "alltoalls_nb")
