# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over the PEs of a team: each operation in four forms, from one table.

``<op>_reduce`` leaves the whole result on every PE (an all-reduce), ``<op>_reduce_scatter``
a block of it on each (an extension); the ``_nb`` forms begin one and return a request (``nonblocking``).
All combine in PE order, so that every PE gets the same bits: PE m's block is block m of the all-reduce.

Few bytes go one-shot: each PE writes to all, with the flag in the data (LL), and all reduce. More go
two-shot: a reduce-scatter, then an all-gather. Between nodes it is a pipelined chain.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, SupportsIndex, TypeVar

from ..._core.arrays.checks import StreamLike
from ..._core.arrays.types import AnyArray
from ..._core.library import lib
from ..fast_calls import fast
from ..teams.team import TEAM_WORLD, Channel, Team
from . import arguments as arguments
from .arguments import REDUCE
from .dispatch import do
from .requests import Request, begin

_F = TypeVar("_F", bound=Callable[..., Any])


class Reduction(Protocol):
    """A blocking form, as type checkers see it."""

    def __call__(
        self, dest: AnyArray, source: AnyArray, *, nelems: SupportsIndex | None = None,
        team: Team | Channel = TEAM_WORLD, stream: StreamLike = None,
    ) -> None: ...  # fmt: skip


class ReductionNb(Protocol):
    """A form that begins one."""

    def __call__(
        self, dest: AnyArray, source: AnyArray, *, nelems: SupportsIndex | None = None,
        team: Team = TEAM_WORLD,
    ) -> Request: ...  # fmt: skip


class _Operation(NamedTuple):
    does: str
    dtypes: str
    rounding: str = ""


_BITS, _ORDERED = "integer or bool", "integer, real floating-point or bool"
_SUMMED = "integer, floating-point or complex"
_WIDE = "\n\nfloat16 and bfloat16 accumulate in float32. Integers wrap around."
_OPERATIONS = {
    "and": _Operation("Bitwise and", _BITS), "or": _Operation("Bitwise or", _BITS),
    "xor": _Operation("Bitwise exclusive or", _BITS), "max": _Operation("Largest", _ORDERED),
    "min": _Operation("Smallest", _ORDERED), "sum": _Operation("Sum", _SUMMED, _WIDE),
    "prod": _Operation("Product", _SUMMED, _WIDE),
}  # fmt: skip
_BLOCKING = """\
    team: the PEs that take part.
    stream: stream to do it in the order of, both arrays on the device heap; see ``streams``.

Completes: ``dest`` of this PE on return, and ``source`` may be changed.
Raises: TypeError (dtype), ValueError (nelems, layout, not symmetric), PeerDied, ShmemTimeout,
    NotInitialized, ShmemError."""


def public(function: _F, name: str, **words: str) -> _F:
    """``function`` under its public name, with these words in what it says on itself."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "pyshmem"
    function.__doc__ = inspect.cleandoc(function.__doc__ or "").format(
        name=name, blocking=_BLOCKING, **words
    )
    return function


def _public(name: str, op: str, function: _F) -> _F:
    row = _OPERATIONS[op]
    return public(function, name, op=op, began=row.does.lower(), **row._asdict())


def _whole(op: str) -> tuple[Reduction, ReductionNb]:
    """The two that leave the whole result on every PE."""

    def reduce(
        dest: AnyArray, source: AnyArray, *, nelems: SupportsIndex | None = None,
        team: Team | Channel = TEAM_WORLD, stream: StreamLike = None,
    ) -> None:  # fmt: skip
        """{does} over all PEs of the team of each element of ``source``, into ``dest``.{rounding}

        Args:
            dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be
                ``source`` itself.
            source: symmetric array, contiguous, of an {dtypes} dtype.
            nelems: elements to reduce; default ``source.size``; equal on all PEs.
        {blocking}
        Example: ``pyshmem.{op}_reduce(dest, source)``
        Spec: shmem_{op}_reduce (OpenSHMEM 1.5).
        """
        do("reduce", 3, arguments.reduce(op, dest, source, nelems, team), stream)

    def reduce_nb(
        dest: AnyArray, source: AnyArray, *, nelems: SupportsIndex | None = None,
        team: Team = TEAM_WORLD,
    ) -> Request:  # fmt: skip
        """Begin ``{op}_reduce``, with its arguments: {began} over all PEs of the team of each element.

        Completes: as ``nonblocking`` says.
        Raises: what the blocking routine does, and MismatchError.
        Example: ``pyshmem.{op}_reduce_nb(dest, source).wait()``
        Extension.
        """
        given = arguments.reduce(op, dest, source, nelems, team)
        return begin(lib.ishmemx_reduce_nb, given, (dest, source), f"{op}_reduce_nb")

    return (
        fast("reduce", REDUCE[op])(_public(f"{op}_reduce", op, reduce)),
        _public(f"{op}_reduce_nb", op, reduce_nb),
    )


def _blocks(op: str) -> tuple[Reduction, ReductionNb]:
    """The two that leave a block of it on each."""

    def scatter(
        dest: AnyArray, source: AnyArray, *, nelems: SupportsIndex | None = None,
        team: Team | Channel = TEAM_WORLD, stream: StreamLike = None,
    ) -> None:  # fmt: skip
        """{does} over all PEs of the team of the caller's block of ``source``, into ``dest``.{rounding}

        Args:
            dest: symmetric array of the dtype of ``source``, at least ``nelems`` elements; may be the
                caller's own block of ``source``.
            source: symmetric array, contiguous, of an {dtypes} dtype: a block a PE.
            nelems: elements of a block; default ``source.size // team.n_pes()``; equal on all PEs.
        {blocking}
        Example: ``pyshmem.{op}_reduce_scatter(dest, source)``
        Extension.
        """
        do("reduce_scatter", 3, arguments.reduce_scatter(op, dest, source, nelems, team), stream)

    def scatter_nb(
        dest: AnyArray, source: AnyArray, *, nelems: SupportsIndex | None = None,
        team: Team = TEAM_WORLD,
    ) -> Request:  # fmt: skip
        """Begin ``{op}_reduce_scatter``, with its arguments.

        Completes: as ``nonblocking`` says.
        Raises: what the blocking routine does, and MismatchError.
        Example: ``pyshmem.{op}_reduce_scatter_nb(dest, source).wait()``
        Extension.
        """
        given = arguments.reduce_scatter(op, dest, source, nelems, team)
        return begin(
            lib.ishmemx_reduce_scatter_nb, given, (dest, source), f"{op}_reduce_scatter_nb"
        )

    return (
        fast("reduce_scatter", REDUCE[op])(_public(f"{op}_reduce_scatter", op, scatter)),
        _public(f"{op}_reduce_scatter_nb", op, scatter_nb),
    )


# A line a name: what a reader greps for, and what editors and type checkers see.
and_reduce, and_reduce_nb = _whole("and")
and_reduce_scatter, and_reduce_scatter_nb = _blocks("and")
or_reduce, or_reduce_nb = _whole("or")
or_reduce_scatter, or_reduce_scatter_nb = _blocks("or")
xor_reduce, xor_reduce_nb = _whole("xor")
xor_reduce_scatter, xor_reduce_scatter_nb = _blocks("xor")
max_reduce, max_reduce_nb = _whole("max")
max_reduce_scatter, max_reduce_scatter_nb = _blocks("max")
min_reduce, min_reduce_nb = _whole("min")
min_reduce_scatter, min_reduce_scatter_nb = _blocks("min")
sum_reduce, sum_reduce_nb = _whole("sum")
sum_reduce_scatter, sum_reduce_scatter_nb = _blocks("sum")
prod_reduce, prod_reduce_nb = _whole("prod")
prod_reduce_scatter, prod_reduce_scatter_nb = _blocks("prod")
