# SPDX-License-Identifier: BSD-3-Clause
"""Which of its algorithms an operation takes: rows of a measured table, as ``pyshmem.cutover`` has.

An operation has rows ``[size, algorithm]``, of which the first counts whose size is enough; what a
size is says the operation. They come from the first of these that has some:

1. ``algorithm=`` of the call, which has to be able to do it;
2. ``PYSHMEM_FUSED``: ``operation=algorithm`` with commas between, or ``operation:size=algorithm``,
   for rows;
3. what ``python -m pyshmem tune fused`` measured on such GPUs, or ships with pyshmem for them or for the
   nearest kind of GPU (``host/tuning/table.py``): PE 0's rows, for all;
4. the operation's default.

An algorithm that cannot do a shape is passed over for the next row's; one that is forced is refused. All
members have to take one algorithm, so the first call of an operation compares their rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._core.library import parse_size, setting
from ..._core.settings import fused_rows
from ...host.job import runtime
from ...host.tuning import table
from ...host.tuning.table import NEVER as NEVER
from .former_names import ALGORITHMS, algorithm_called
from .workspace import Workspace

#: That have algorithms.
OPERATIONS = (
    "all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce", "all_gather_group_matmul",
    "group_matmul_reduce_scatter", "all_reduce_rmsnorm", "all_to_all", "low_latency_all_gather",
    "expert_dispatch",
)  # fmt: skip

Rows = tuple[tuple[int, str], ...]
_PREFIX = "fused "  # of the names of rows in tables

_rows: dict[tuple[Any, str], Rows] = {}


def row_name(operation: str) -> str:
    """What the rows of an operation are called in tables."""
    return f"{_PREFIX}{operation}"


def rows_of(space: Workspace, operation: str, default: Rows, can: Mapping[str, str | None]) -> Rows:
    """The rows that count in this job. The first call of a team is collective.

    Raises: ValueError (``PYSHMEM_FUSED``, a table's file), MismatchError (members have others).
    """
    known = space.team, operation
    if known not in _rows:
        forced = _forced(operation)
        for _, name in forced:
            if name not in can:
                raise ValueError(
                    f"PYSHMEM_FUSED: {operation} has no algorithm {name!r}; it has {', '.join(can)}"
                )
        rows = forced or _measured(operation) or default
        space.must_agree(f"rows of {operation}: {rows}")
        _rows[known] = rows
    return _rows[known]


def choose(
    space: Workspace, operation: str, size: int, can: Mapping[str, str | None], default: Rows,
    algorithm: str | None = None,
) -> str:  # fmt: skip
    """The algorithm of a call.

    Args:
        space: the team's workspace.
        operation: its name in the tables.
        size: what its rows go by.
        can: for each algorithm None, or why it cannot do this call.
        default: rows where nobody has measured any; the algorithms of ``can`` follow them in order.
        algorithm: the one that the caller wants.

    Raises: ValueError (no such algorithm, or it cannot do this call), MismatchError (``rows_of``).
    """
    if algorithm is not None:
        if algorithm not in can:
            raise ValueError(f"{operation} has no algorithm {algorithm!r}; it has {', '.join(can)}")
        if can[algorithm]:
            others = ", ".join(name for name, why in can.items() if not why) or "none"
            raise ValueError(
                f"{operation} by {algorithm}: {can[algorithm]}; algorithms that can: {others}"
            )
        return algorithm
    rows = rows_of(space, operation, default, can)
    wanted = [name for most, name in rows if size <= most]
    for name in (*wanted, *can):
        if name in can and not can[name]:
            return name
    reasons = "; ".join(f"{name}: {why}" for name, why in can.items())
    raise ValueError(f"no algorithm of {operation} can do this call ({reasons})")


def parse(text: str) -> dict[str, Rows]:
    """The rows that a text of ``PYSHMEM_FUSED`` names.

    Raises: ValueError.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for item, operation, size, name in fused_rows(text):
        if operation not in OPERATIONS:
            raise ValueError(
                f"PYSHMEM_FUSED: no operation {operation!r} has algorithms; those that have are "
                f"{', '.join(OPERATIONS)}"
            )
        try:
            most = parse_size(size) if size not in ("", "never") else NEVER
        except ValueError as error:
            raise ValueError(f"PYSHMEM_FUSED: {error} (in '{item}')") from None
        found.setdefault(operation, []).append((most, algorithm_called(name)))
    return {operation: tuple(sorted(rows)) for operation, rows in found.items()}


def _forced(operation: str) -> Rows:
    return parse(setting("FUSED")[0] or "").get(operation, ())


def _measured(operation: str) -> Rows:
    found = table.choice(row_name(operation))
    return (
        tuple((int(most), ALGORITHMS.get(str(name), str(name))) for most, name in found.rows)
        if found
        else ()
    )


runtime.on_finalize(_rows.clear)
