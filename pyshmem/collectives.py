# SPDX-License-Identifier: BSD-3-Clause
"""Collective data movement and reductions. All PEs of the team make the same call.

Decisions that depend on arguments use only those that are equal on all PEs. Reductions combine in
PE order, so all PEs get the same bits.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

from ._arrays import bytes_of, pair, place
from ._dtypes import unsupported_dtype
from ._lib import check, lib
from ._types import ELEMENTS, REDUCE_OPS
from .teams import TEAM_WORLD, Team

_NAMES = ("source", "dest")
_REDUCE = {name: number for number, name in enumerate(REDUCE_OPS)}
#: The family of types of each reduction, see _types.FAMILIES.
_FAMILY = {"and": "t", "or": "t", "xor": "t", "max": "m", "min": "m", "sum": "s", "prod": "s"}
#: The numbers of the elements of each reduction.
_ELEMENTS = {
    op: {number for number, element in enumerate(ELEMENTS) if family in element.families}
    for op, family in _FAMILY.items()
}


def broadcast(
    dest: Any,
    source: Any,
    root: int,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> None:
    """Copy ``source`` of ``root`` into ``dest`` of all PEs of the team, the root's too.

    Args:
        dest: symmetric array, contiguous, at least ``nelems`` elements.
        source: symmetric array of the same dtype; its elements matter on the root.
        root: PE of the team that has the data, ``0 <= root < team.n_pes()``; equal on all PEs.
        nelems: elements to copy; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (root, nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, NotInitialized, ShmemError.
    Spec: shmem_broadcast (OpenSHMEM 1.5).
    """
    source_address, dest_address, nbytes = pair(source, dest, nelems, _NAMES)
    check(lib.ishmemx_broadcast(team.handle, dest_address, source_address, nbytes, root))


def fcollect(
    dest: Any,
    source: Any,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> None:
    """Concatenate ``source`` of all PEs of the team, in PE order, into ``dest`` of each.

    Args:
        dest: symmetric array, contiguous, at least ``nelems * team.n_pes()`` elements.
        source: symmetric array of the same dtype, at least ``nelems`` elements.
        nelems: elements that each PE gives; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, NotInitialized, ShmemError.
    Spec: shmem_fcollect (OpenSHMEM 1.5).
    """
    given = place(source, "source", symmetric=True)
    result = place(dest, "dest", symmetric=True, writable=True)
    nbytes = bytes_of(given, result, nelems, _NAMES, team.n_pes())
    check(lib.ishmemx_fcollect(team.handle, result[0], given[0], nbytes))


def _reduce(op: str, dest: Any, source: Any, nelems: SupportsIndex | None, team: Team) -> None:
    source_address, dest_address, nbytes = pair(source, dest, nelems, _NAMES)
    kind = place(source, "source", symmetric=True)[2]
    if kind.element not in _ELEMENTS[op]:
        raise unsupported_dtype(f"{op}_reduce", kind, _FAMILY[op])
    nreduce = nbytes // kind.dtype.itemsize
    check(
        lib.ishmemx_reduce(
            team.handle, _REDUCE[op], kind.element, dest_address, source_address, nreduce
        )
    )


def and_reduce(
    dest: Any, source: Any, *, nelems: SupportsIndex | None = None, team: Team = TEAM_WORLD
) -> None:
    """Bitwise and over all PEs of the team of each element of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer or bool dtype.
        nelems: elements to reduce; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Spec: shmem_and_reduce (OpenSHMEM 1.5).
    """
    _reduce("and", dest, source, nelems, team)


def or_reduce(
    dest: Any, source: Any, *, nelems: SupportsIndex | None = None, team: Team = TEAM_WORLD
) -> None:
    """Bitwise or over all PEs of the team of each element of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer or bool dtype.
        nelems: elements to reduce; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Spec: shmem_or_reduce (OpenSHMEM 1.5).
    """
    _reduce("or", dest, source, nelems, team)


def xor_reduce(
    dest: Any, source: Any, *, nelems: SupportsIndex | None = None, team: Team = TEAM_WORLD
) -> None:
    """Bitwise exclusive or over all PEs of the team of each element of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer or bool dtype.
        nelems: elements to reduce; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Spec: shmem_xor_reduce (OpenSHMEM 1.5).
    """
    _reduce("xor", dest, source, nelems, team)


def max_reduce(
    dest: Any, source: Any, *, nelems: SupportsIndex | None = None, team: Team = TEAM_WORLD
) -> None:
    """Largest over all PEs of the team of each element of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer, real floating-point or bool dtype.
        nelems: elements to reduce; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Spec: shmem_max_reduce (OpenSHMEM 1.5).
    """
    _reduce("max", dest, source, nelems, team)


def min_reduce(
    dest: Any, source: Any, *, nelems: SupportsIndex | None = None, team: Team = TEAM_WORLD
) -> None:
    """Smallest over all PEs of the team of each element of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer, real floating-point or bool dtype.
        nelems: elements to reduce; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Spec: shmem_min_reduce (OpenSHMEM 1.5).
    """
    _reduce("min", dest, source, nelems, team)


def sum_reduce(
    dest: Any, source: Any, *, nelems: SupportsIndex | None = None, team: Team = TEAM_WORLD
) -> None:
    """Sum over all PEs of the team of each element of ``source``, into ``dest``.

    float16 and bfloat16 accumulate in float32. Integers wrap around.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer, floating-point or complex dtype.
        nelems: elements to reduce; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Spec: shmem_sum_reduce (OpenSHMEM 1.5).
    """
    _reduce("sum", dest, source, nelems, team)


def prod_reduce(
    dest: Any, source: Any, *, nelems: SupportsIndex | None = None, team: Team = TEAM_WORLD
) -> None:
    """Product over all PEs of the team of each element of ``source``, into ``dest``.

    float16 and bfloat16 accumulate in float32. Integers wrap around.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer, floating-point or complex dtype.
        nelems: elements to reduce; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Spec: shmem_prod_reduce (OpenSHMEM 1.5).
    """
    _reduce("prod", dest, source, nelems, team)
