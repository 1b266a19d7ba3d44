# SPDX-License-Identifier: BSD-3-Clause
"""The arguments of collectives: what users give, checked, as the library takes it.

Each function is for the routine of its name, blocking or not, and raises what that routine's
docstring says.
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

from ..._core.arrays.checks import Place, bytes_of, pair, place
from ..._core.arrays.types import AnyArray
from ..._core.dtypes import Kind, integer, nelems_of, pe_number, unsupported_dtype
from ..._core.type_table import ELEMENTS, REDUCE_OPS
from ..teams.team import Channel, Team, team_of

_NAMES = ("source", "dest")
#: The numbers of the reductions.
REDUCE = {name: number for number, name in enumerate(REDUCE_OPS)}
#: The family of types of each reduction, see type_table.FAMILIES.
_FAMILY = {"and": "t", "or": "t", "xor": "t", "max": "m", "min": "m", "sum": "s", "prod": "s"}
#: The numbers of the elements of each reduction.
_ELEMENTS = {
    op: {number for number, element in enumerate(ELEMENTS) if family in element.families}
    for op, family in _FAMILY.items()
}

Nelems = SupportsIndex | None


def broadcast(
    dest: AnyArray, source: AnyArray, root: int, nelems: Nelems, team: Team | Channel
) -> tuple[int, ...]:
    """Team, addresses of dest and source, bytes, root."""
    source_address, dest_address, nbytes = pair(source, dest, nelems, _NAMES)
    return team_of(team).handle, dest_address, source_address, nbytes, pe_number(root, "root")


def fcollect(
    dest: AnyArray, source: AnyArray, nelems: Nelems, team: Team | Channel
) -> tuple[int, ...]:
    """Team, addresses of dest and source, bytes of a PE."""
    given = place(source, "source", symmetric=True, writable=False)
    result = place(dest, "dest", symmetric=True, writable=True)
    nbytes = bytes_of(given, result, nelems, _NAMES, team_of(team).n_pes())
    return team.handle, result[0], given[0], nbytes


def collect(
    dest: AnyArray, source: AnyArray, nelems: Nelems, team: Team | Channel
) -> tuple[int, ...]:
    """Team, address of dest and its bytes, address of source, bytes of this PE."""
    given = place(source, "source", symmetric=True, writable=False)
    result = place(dest, "dest", symmetric=True, writable=True)
    bytes_of(given, result, 0, _NAMES)  # their dtypes
    # Only against the source: a dest that is too small is found by the library, for all PEs.
    nbytes = bytes_of(given, given, nelems, _NAMES)
    return team_of(team).handle, result[0], result[1], given[0], nbytes


def alltoall(
    dest: AnyArray, source: AnyArray, nelems: Nelems, team: Team | Channel
) -> tuple[int, ...]:
    """Team, addresses of dest and source, bytes of a block."""
    given = place(source, "source", symmetric=True, writable=False)
    result = place(dest, "dest", symmetric=True, writable=True)
    n_pes, width = team_of(team).n_pes(), given[2].dtype.itemsize
    count = _block(given[1] // width, n_pes, nelems)
    for name, side in (("source", given), ("dest", result)):
        if count * n_pes > (has := side[1] // side[2].dtype.itemsize):
            raise ValueError(
                f"nelems is {count} for each of {n_pes} PEs, so {name} needs {count * n_pes} elements, "
                f"but has {has}"
            )
    nbytes = bytes_of(given, result, count * n_pes, _NAMES) // n_pes
    return team.handle, result[0], given[0], nbytes


def alltoalls(
    dest: AnyArray,
    source: AnyArray,
    dst: SupportsIndex,
    sst: SupportsIndex,
    nelems: Nelems,
    team: Team | Channel,
) -> tuple[int, ...]:
    """Team, addresses of dest and source, their strides, elements of a block, bytes of each."""
    given = place(source, "source", symmetric=True, writable=False)
    result = place(dest, "dest", symmetric=True, writable=True)
    bytes_of(given, result, 0, _NAMES)
    steps = integer("dst", dst, np.int64), integer("sst", sst, np.int64)
    n_pes, width = team_of(team).n_pes(), given[2].dtype.itemsize
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
    return team.handle, result[0], given[0], *steps, count, width


def scan(
    routine: str,
    exclusive: int,
    dest: AnyArray,
    source: AnyArray,
    nelems: Nelems,
    team: Team | Channel,
) -> tuple[int, ...]:
    """Team, whether exclusive, element type, addresses of dest and source, elements."""
    return team_of(team).handle, exclusive, *_typed(routine, "sum", dest, source, nelems)


def reduce(
    op: str, dest: AnyArray, source: AnyArray, nelems: Nelems, team: Team | Channel
) -> tuple[int, ...]:
    """Team, number of the operation, element type, addresses of dest and source, elements."""
    return team_of(team).handle, REDUCE[op], *_typed(f"{op}_reduce", op, dest, source, nelems)


def reduce_scatter(
    op: str, dest: AnyArray, source: AnyArray, nelems: Nelems, team: Team | Channel
) -> tuple[int, ...]:
    """Team, number of the operation, element type, addresses of dest and source, elements of a block."""
    given = place(source, "source", symmetric=True, writable=False)
    result = place(dest, "dest", symmetric=True, writable=True)
    n_pes, kind = team_of(team).n_pes(), given[2]
    count = _block(given[1] // kind.dtype.itemsize, n_pes, nelems)
    bytes_of(result, given, count, ("dest", "source"), n_pes)
    element = element_of(op, kind, f"{op}_reduce_scatter")
    return team.handle, REDUCE[op], element, result[0], given[0], count


def element_of(op: str, kind: Kind, routine: str = "") -> int:
    """The number of a dtype's element in the reduction ``op``.

    Raises: TypeError (the reduction does not take the dtype).
    """
    if kind.element not in _ELEMENTS[op]:
        raise unsupported_dtype(routine or f"{op}_reduce", kind, _FAMILY[op])
    return kind.element


def _spaced(side: Place, step: int) -> int:
    """How many elements at a distance of ``step`` an array has."""
    return -(-(side[1] // side[2].dtype.itemsize) // step)


def _block(available: int, n_pes: int, nelems: Nelems) -> int:
    """The elements of a block of ``alltoall``."""
    if nelems is not None:
        count = nelems_of("nelems", nelems)
        if count < 0:
            raise ValueError(f"nelems is {count}; give 0 or more")
        return count
    if available % n_pes:
        raise ValueError(
            f"source has {available} elements, which {n_pes} PEs cannot share evenly; pass nelems="
        )
    return available // n_pes


def _typed(
    routine: str, op: str, dest: AnyArray, source: AnyArray, nelems: Nelems
) -> tuple[int, int, int, int]:
    """Element type, addresses of dest and source, and number of elements."""
    source_address, dest_address, nbytes = pair(source, dest, nelems, _NAMES)
    kind = place(source, "source", symmetric=True, writable=False)[2]
    return (
        element_of(op, kind, routine),
        dest_address,
        source_address,
        nbytes // kind.dtype.itemsize,
    )
