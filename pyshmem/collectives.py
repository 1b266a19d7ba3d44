# SPDX-License-Identifier: BSD-3-Clause
"""Collective data movement and reductions. All PEs of the team make the same call.

Decisions that depend on arguments use only those that are equal on all PEs. Reductions combine in
PE order, so all PEs get the same bits.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

from ._arrays import Place, bytes_of, pair, place
from ._calls import fast
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


@fast("broadcast")
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


@fast("fcollect")
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


def collect(
    dest: Any,
    source: Any,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> None:
    """Concatenate ``source`` of all PEs of the team, as many elements as each gives, into ``dest``.

    Args:
        dest: symmetric array, contiguous, with room for the elements of all PEs together.
        source: symmetric array of the same dtype, at least ``nelems`` elements.
        nelems: elements that this PE gives, also 0; default ``source.size``; PEs may differ.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (nelems, layout, not symmetric; a dest of one PE
        that does not hold all elements raises on all, and nothing is written), PeerDied,
        ShmemTimeout, NotInitialized, ShmemError.
    Spec: shmem_collect (OpenSHMEM 1.5).
    """
    source_address, dest_address, nbytes = pair(source, dest, nelems, _NAMES)
    check(lib.ishmemx_collect(team.handle, dest_address, dest.nbytes, source_address, nbytes))


def alltoall(
    dest: Any,
    source: Any,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> None:
    """Give block ``pe`` of ``source`` to each PE; ``dest`` gets the blocks in PE order.

    Args:
        dest: symmetric array, contiguous, at least ``nelems * team.n_pes()`` elements.
        source: symmetric array of the same dtype, at least as many elements.
        nelems: elements of a block; default ``source.size // team.n_pes()``, without rest; equal
            on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (nelems, layout, not symmetric), PeerDied,
        ShmemTimeout, NotInitialized, ShmemError.
    Spec: shmem_alltoall (OpenSHMEM 1.5).
    """
    given = place(source, "source", symmetric=True)
    result = place(dest, "dest", symmetric=True, writable=True)
    n_pes, width = team.n_pes(), given[2].dtype.itemsize
    count = _block(given[1] // width, n_pes, nelems)
    nbytes = bytes_of(given, result, count * n_pes, _NAMES) // n_pes
    check(lib.ishmemx_alltoall(team.handle, result[0], given[0], nbytes))


def alltoalls(
    dest: Any,
    source: Any,
    *,
    dst: SupportsIndex = 1,
    sst: SupportsIndex = 1,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
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

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtypes differ), ValueError (dst, sst, nelems, layout, not symmetric),
        PeerDied, ShmemTimeout, NotInitialized, ShmemError.
    Spec: shmem_alltoalls (OpenSHMEM 1.5).
    """
    given = place(source, "source", symmetric=True)
    result = place(dest, "dest", symmetric=True, writable=True)
    bytes_of(given, result, 0, _NAMES)
    steps = operator.index(dst), operator.index(sst)
    n_pes, width = team.n_pes(), given[2].dtype.itemsize
    for name, step in zip(("dst", "sst"), steps, strict=True):
        if step < 1:
            raise ValueError(f"{name} is {step}; give 1 or more")
    count = _block(_spaced(given, steps[1]), n_pes, nelems)
    for name, side, step in (("source", given, steps[1]), ("dest", result, steps[0])):
        if count * n_pes > _spaced(side, step):
            raise ValueError(
                f"nelems is {count}, so {name} needs {(count * n_pes - 1) * step + 1} elements, "
                f"{step} apart, but it has {side[1] // width}"
            )
    check(lib.ishmemx_alltoalls(team.handle, result[0], given[0], *steps, count, width))


def _spaced(side: Place, step: int) -> int:
    """How many elements at a distance of ``step`` an array has."""
    return -(-(side[1] // side[2].dtype.itemsize) // step)


def _block(available: int, n_pes: int, nelems: SupportsIndex | None) -> int:
    """The elements of a block of ``alltoall``."""
    if nelems is not None:
        count = operator.index(nelems)
        if count < 0:
            raise ValueError(f"nelems is {count}; give 0 or more")
        return count
    if available % n_pes:
        raise ValueError(
            f"source has {available} elements, which {n_pes} PEs cannot share evenly; pass nelems="
        )
    return available // n_pes


def _typed(
    routine: str, op: str, dest: Any, source: Any, nelems: SupportsIndex | None
) -> tuple[int, int, int, int]:
    """Element type, addresses of dest and source, and number of elements."""
    source_address, dest_address, nbytes = pair(source, dest, nelems, _NAMES)
    kind = place(source, "source", symmetric=True)[2]
    if kind.element not in _ELEMENTS[op]:
        raise unsupported_dtype(routine, kind, _FAMILY[op])
    return kind.element, dest_address, source_address, nbytes // kind.dtype.itemsize


def sum_inscan(
    dest: Any, source: Any, *, nelems: SupportsIndex | None = None, team: Team = TEAM_WORLD
) -> None:
    """Sum over PEs 0 to this one of each element of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer, floating-point or complex dtype.
        nelems: elements to sum; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Spec: shmem_sum_inscan (OpenSHMEM 1.6).
    """
    typed = _typed("sum_inscan", "sum", dest, source, nelems)
    check(lib.ishmemx_sum_scan(team.handle, 0, *typed))


def sum_exscan(
    dest: Any, source: Any, *, nelems: SupportsIndex | None = None, team: Team = TEAM_WORLD
) -> None:
    """Sum over the PEs before this one of each element of ``source``, into ``dest``; PE 0 gets 0.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
            ``source`` itself.
        source: symmetric array, contiguous, of an integer, floating-point or complex dtype.
        nelems: elements to sum; default ``source.size``; equal on all PEs.
        team: the PEs that take part.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Spec: shmem_sum_exscan (OpenSHMEM 1.6).
    """
    typed = _typed("sum_exscan", "sum", dest, source, nelems)
    check(lib.ishmemx_sum_scan(team.handle, 1, *typed))


def _reduce(op: str, dest: Any, source: Any, nelems: SupportsIndex | None, team: Team) -> None:
    typed = _typed(f"{op}_reduce", op, dest, source, nelems)
    check(lib.ishmemx_reduce(team.handle, _REDUCE[op], *typed))


@fast("reduce", _REDUCE["and"])
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


@fast("reduce", _REDUCE["or"])
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


@fast("reduce", _REDUCE["xor"])
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


@fast("reduce", _REDUCE["max"])
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


@fast("reduce", _REDUCE["min"])
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


@fast("reduce", _REDUCE["sum"])
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


@fast("reduce", _REDUCE["prod"])
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
