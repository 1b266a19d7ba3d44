# SPDX-License-Identifier: BSD-3-Clause
"""Reductions whose result is scattered: each PE of the team gets a block of it. An extension.

The order is that of reductions, and so are the bits: PE m gets what ``<op>_reduce`` leaves in block m of
``dest``. The ``_nb`` routines begin one and return a request, as ``nonblocking`` says.
"""

from __future__ import annotations

from typing import SupportsIndex

from ..._core.array_types import AnyArray
from ..._core.arrays import StreamLike
from ..._core.library import lib
from ..fast_calls import fast
from ..teams import TEAM_WORLD, Channel, Team
from . import arguments as arguments
from .arguments import REDUCE
from .dispatch import do
from .requests import Request, begin


def _scatter(
    op: str,
    dest: AnyArray,
    source: AnyArray,
    nelems: SupportsIndex | None,
    team: Team | Channel,
    stream: StreamLike,
) -> None:
    do("reduce_scatter", 3, arguments.reduce_scatter(op, dest, source, nelems, team), stream)


def _scatter_nb(
    op: str, dest: AnyArray, source: AnyArray, nelems: SupportsIndex | None, team: Team
) -> Request:
    given = arguments.reduce_scatter(op, dest, source, nelems, team)
    return begin(lib.ishmemx_reduce_scatter_nb, given, (dest, source), f"{op}_reduce_scatter_nb")


@fast("reduce_scatter", REDUCE["and"])
def and_reduce_scatter(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Bitwise and over all PEs of the team of the caller's block of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be the
            caller's own block of ``source``.
        source: symmetric array, contiguous, of an integer or bool dtype: a block a PE.
        nelems: elements of a block; default ``source.size // team.n_pes()``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Extension.
    """
    _scatter("and", dest, source, nelems, team, stream)


def and_reduce_scatter_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``and_reduce_scatter``, with its arguments.

    Completes: as ``nonblocking`` says.
    Raises: what the blocking routine does, and MismatchError.
    Extension.
    """
    return _scatter_nb("and", dest, source, nelems, team)


@fast("reduce_scatter", REDUCE["or"])
def or_reduce_scatter(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Bitwise or over all PEs of the team of the caller's block of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be the
            caller's own block of ``source``.
        source: symmetric array, contiguous, of an integer or bool dtype: a block a PE.
        nelems: elements of a block; default ``source.size // team.n_pes()``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Extension.
    """
    _scatter("or", dest, source, nelems, team, stream)


def or_reduce_scatter_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``or_reduce_scatter``, with its arguments.

    Completes: as ``nonblocking`` says.
    Raises: what the blocking routine does, and MismatchError.
    Extension.
    """
    return _scatter_nb("or", dest, source, nelems, team)


@fast("reduce_scatter", REDUCE["xor"])
def xor_reduce_scatter(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Bitwise exclusive or over all PEs of the team of the caller's block of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be the
            caller's own block of ``source``.
        source: symmetric array, contiguous, of an integer or bool dtype: a block a PE.
        nelems: elements of a block; default ``source.size // team.n_pes()``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Extension.
    """
    _scatter("xor", dest, source, nelems, team, stream)


def xor_reduce_scatter_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``xor_reduce_scatter``, with its arguments.

    Completes: as ``nonblocking`` says.
    Raises: what the blocking routine does, and MismatchError.
    Extension.
    """
    return _scatter_nb("xor", dest, source, nelems, team)


@fast("reduce_scatter", REDUCE["max"])
def max_reduce_scatter(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Largest over all PEs of the team of the caller's block of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be the
            caller's own block of ``source``.
        source: symmetric array, contiguous, of an integer, real floating-point or bool dtype: a
            block a PE.
        nelems: elements of a block; default ``source.size // team.n_pes()``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Extension.
    """
    _scatter("max", dest, source, nelems, team, stream)


def max_reduce_scatter_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``max_reduce_scatter``, with its arguments.

    Completes: as ``nonblocking`` says.
    Raises: what the blocking routine does, and MismatchError.
    Extension.
    """
    return _scatter_nb("max", dest, source, nelems, team)


@fast("reduce_scatter", REDUCE["min"])
def min_reduce_scatter(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Smallest over all PEs of the team of the caller's block of ``source``, into ``dest``.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be the
            caller's own block of ``source``.
        source: symmetric array, contiguous, of an integer, real floating-point or bool dtype: a
            block a PE.
        nelems: elements of a block; default ``source.size // team.n_pes()``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Extension.
    """
    _scatter("min", dest, source, nelems, team, stream)


def min_reduce_scatter_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``min_reduce_scatter``, with its arguments.

    Completes: as ``nonblocking`` says.
    Raises: what the blocking routine does, and MismatchError.
    Extension.
    """
    return _scatter_nb("min", dest, source, nelems, team)


@fast("reduce_scatter", REDUCE["sum"])
def sum_reduce_scatter(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Sum over all PEs of the team of the caller's block of ``source``, into ``dest``.

    float16 and bfloat16 accumulate in float32. Integers wrap around.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be the
            caller's own block of ``source``.
        source: symmetric array, contiguous, of an integer, floating-point or complex dtype: a
            block a PE.
        nelems: elements of a block; default ``source.size // team.n_pes()``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Extension.
    """
    _scatter("sum", dest, source, nelems, team, stream)


def sum_reduce_scatter_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``sum_reduce_scatter``, with its arguments.

    Completes: as ``nonblocking`` says.
    Raises: what the blocking routine does, and MismatchError.
    Extension.
    """
    return _scatter_nb("sum", dest, source, nelems, team)


@fast("reduce_scatter", REDUCE["prod"])
def prod_reduce_scatter(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team | Channel = TEAM_WORLD,
    stream: StreamLike = None,
) -> None:
    """Product over all PEs of the team of the caller's block of ``source``, into ``dest``.

    float16 and bfloat16 accumulate in float32. Integers wrap around.

    Args:
        dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be the
            caller's own block of ``source``.
        source: symmetric array, contiguous, of an integer, floating-point or complex dtype: a
            block a PE.
        nelems: elements of a block; default ``source.size // team.n_pes()``; equal on all PEs.
        team: the PEs that take part.
        stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

    Completes: ``dest`` of this PE on return, and ``source`` may be changed.
    Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
        NotInitialized, ShmemError.
    Extension.
    """
    _scatter("prod", dest, source, nelems, team, stream)


def prod_reduce_scatter_nb(
    dest: AnyArray,
    source: AnyArray,
    *,
    nelems: SupportsIndex | None = None,
    team: Team = TEAM_WORLD,
) -> Request:
    """Begin ``prod_reduce_scatter``, with its arguments.

    Completes: as ``nonblocking`` says.
    Raises: what the blocking routine does, and MismatchError.
    Extension.
    """
    return _scatter_nb("prod", dest, source, nelems, team)
