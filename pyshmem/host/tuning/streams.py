# SPDX-License-Identifier: BSD-3-Clause
"""How collectives on a stream are done, by their bytes: rows of the table of choices.

Extension. Broadcasts, fcollects, alltoalls, reductions and reduce_scatters have rows, of which the first
counts whose bytes are enough. Bytes are those that a PE sends to the others together, so that rows hold
for teams of any size. A row says the algorithm and the grid:

- ``"ll"``: flags in the data, for few bytes (more than fit a member's slot go ``direct``);
- ``"direct"``: loads and stores of the peers' arrays, between two meetings of the blocks;
- ``"engine"``: copies by copy engines between two meetings of a warp; not of reductions. The grid of
  such a row does not matter.

Each operation's rows come from the first of these that has some:

1. ``PYSHMEM_CUTOVER_STREAMS``: ``op:size=algorithm:blocksxthreads`` with commas between, ``never`` as
   the last size: ``reduce:64K=ll:32x64,reduce:never=direct:64x512``;
2. ``set_stream_rows()`` in this program;
3. the table of choices, where they are rows of ``stream reduce`` and the like (``table.py``);
4. defaults, from bare CUDA programs on H200.

All PEs must go one way: ``init`` gives them the rows of PE 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ..._core.contract import STREAM_KERNEL
from ..._core.library import SIMULATED, check, ffi, lib, owned, parse_size, setting
from ..._core.type_table import ELEMENT_NUMBER, REDUCE_OPS
from ..job import runtime
from ..teams.team import TEAM_WORLD
from .table import NEVER as _NEVER
from .table import Choice, Rows

ALGORITHMS = ("ll", "direct", "engine")
_MOVES = ("broadcast", "fcollect", "alltoall")  # without a kernel's work, which engines can do
#: Operations with rows, and the kernels that they launch.
KINDS = {
    "broadcast": STREAM_KERNEL.BROADCAST,
    "fcollect": STREAM_KERNEL.FCOLLECT,
    "alltoall": STREAM_KERNEL.ALLTOALL,
    "reduce": STREAM_KERNEL.REDUCE,
    "reduce_scatter": STREAM_KERNEL.REDUCE_SCATTER,
}
OPERATIONS = tuple(KINDS)
MAX_ROWS, _MAX_BLOCKS, _MAX_THREADS = 16, 128, 512
_PREFIX = "stream "  # of the names of rows in tables


class Row(NamedTuple):
    """``nbytes``: up to so many that a PE sends; ``blocks`` at most, fewer where they had no work."""

    nbytes: int
    algorithm: str
    blocks: int
    threads: int

    @property
    def way(self) -> str:
        """What ``algorithm`` was called up to 0.1; it goes in the second release from now."""
        warnings.warn("Row.way is Row.algorithm now", DeprecationWarning, stacklevel=2)
        return self.algorithm


#: A lane sends 48 bytes, so warps and blocks are spread thin as long as that is fast; a two-shot
#: fills NVLink from 64 blocks on.
_GPU = (
    Row(64 << 10, "ll", 64, 64),
    Row(256 << 10, "ll", 128, 64),
    Row(512 << 10, "ll", 128, 128),
    Row(2 << 20, "ll", 128, 256),
    Row(8 << 20, "direct", 64, 512),
    Row(_NEVER, "direct", 128, 512),
)
_SIMULATOR = (Row(4 << 10, "ll", 2, 4), Row(_NEVER, "direct", 2, 4))

_set: dict[str, tuple[Row, ...]] = {}
_agreed: dict[str, tuple[Row, ...]] = {}  # PE 0's at ``init``, without what is in ``_set``
_most = _MAX_BLOCKS  # blocks that the smallest GPU of the job runs at a time


# ---- what users call -----------------------------------------------------------------------------


def stream_rows(op: str) -> tuple[Row, ...]:
    """The rows of an operation, as ``(nbytes, algorithm, blocks, threads)``.

    Args:
        op: ``"broadcast"``, ``"fcollect"``, ``"alltoall"``, ``"reduce"`` or ``"reduce_scatter"``.

    Raises: ValueError.
    Extension.
    """
    _check_op(op)
    ruled = parse_rows(setting("CUTOVER_STREAMS")[0])
    return (op not in ruled and _set.get(op)) or _agreed.get(op) or ruled.get(op) or _default()


def set_stream_rows(op: str, rows: Iterable[tuple[int | str, str, int, int]] | None) -> None:
    """Set the rows of an operation, for calls and captures from now on; graphs keep what they have.

    Args:
        op: as for ``stream_rows``.
        rows: ``(nbytes, algorithm, blocks, threads)`` each, 1 to 16 of them, alike on all PEs; bytes as
            a number, a text such as ``"64K"``, or ``"never"`` in the last; None: forget what was set.

    Raises: ValueError.
    Extension.
    """
    _check_op(op)
    if rows is None:
        _set.pop(op, None)
    else:
        _set[op] = _checked(op, rows, f"rows of {op}")
    if runtime.initialized():
        _write(op, stream_rows(op))


# ---- where rows come from ------------------------------------------------------------------------


def _check_op(op: str) -> None:
    if op not in KINDS:
        raise ValueError(f"op is {op!r}; the operations are {', '.join(OPERATIONS)}")


def _size(nbytes: int | str | None) -> int:
    if nbytes is None or (isinstance(nbytes, str) and nbytes.strip().lower() == "never"):
        return _NEVER
    return min(parse_size(nbytes.strip() if isinstance(nbytes, str) else nbytes), _NEVER)


def _checked(op: str, rows: Iterable[Any], where: str) -> tuple[Row, ...]:
    try:
        made = tuple(Row(_size(size), algorithm, int(b), int(t)) for size, algorithm, b, t in rows)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where}: {error}; a row is (size, algorithm, blocks, threads)") from None
    if not 1 <= len(made) <= MAX_ROWS or made[-1].nbytes != _NEVER:
        raise ValueError(f"{where}: give 1 to {MAX_ROWS} rows, of which the last is for 'never'")
    if any(a.nbytes >= b.nbytes for a, b in pairwise(made)):
        raise ValueError(f"{where}: the sizes of rows must rise")
    for row in made:
        possible = ALGORITHMS if op in _MOVES else ALGORITHMS[:-1]
        if row.algorithm not in possible:
            raise ValueError(
                f"{where}: the algorithm is {row.algorithm!r}; there are {', '.join(possible)}"
            )
        if not (1 <= row.blocks <= _MAX_BLOCKS and 1 <= row.threads <= _MAX_THREADS):
            raise ValueError(
                f"{where}: {row.blocks}x{row.threads}; give 1 to {_MAX_BLOCKS} blocks of 1 to "
                f"{_MAX_THREADS} threads"
            )
    return made


def parse_rows(text: str) -> dict[str, tuple[Row, ...]]:
    """The rows that the text of ``PYSHMEM_CUTOVER_STREAMS`` names.

    Raises: ValueError.
    """
    found: dict[str, list[tuple[str, str, int, int]]] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        try:
            op, rest = item.split(":", 1)
            size, shape = rest.split("=")
            algorithm, grid = shape.split(":")
            blocks, threads = (int(n) for n in grid.split("x"))
            _check_op(op)
            found.setdefault(op, []).append((size, algorithm, blocks, threads))
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"PYSHMEM_CUTOVER_STREAMS: '{item}' is not op:size=algorithm:blocksxthreads, such as "
                f"reduce:64K=ll:32x64{'' if 'unpack' in str(error) else f' ({error})'}"
            ) from error
    return {op: _checked(op, rows, "PYSHMEM_CUTOVER_STREAMS") for op, rows in found.items()}


def row_name(op: str) -> str:
    """What the rows of an operation are called in tables."""
    return f"{_PREFIX}{op}"


def check_rows(rows: Mapping[str, Rows], where: str) -> None:
    """Refuse rows of a table that no call could follow.

    Raises: ValueError.
    """
    for name in rows:
        if name.startswith(_PREFIX):
            op = name.removeprefix(_PREFIX)
            _check_op(op)
            _checked(op, rows[name], f"{name} of {where}")


def _default() -> tuple[Row, ...]:
    simulated = runtime.initialized() and runtime.device_name() in SIMULATED
    return _SIMULATOR if simulated else _GPU


# ---- to the library ------------------------------------------------------------------------------


def _words(rows: Iterable[Row]) -> list[int]:
    return [
        w
        for row in rows
        for w in (row[0], ALGORITHMS.index(row.algorithm), row.blocks, row.threads)
    ]


def _write(op: str, rows: tuple[Row, ...]) -> None:
    cut = [row._replace(blocks=min(row.blocks, _most)) for row in rows]
    check(lib.ishmemx_stream_rows_set(KINDS[op], len(rows), _words(cut)))


def own_choices(found: Mapping[str, Choice]) -> dict[str, Choice]:
    """This PE's rows of all operations, without what is in ``_set``.

    ``found``: the choices of tables.
    """
    ruled = parse_rows(setting("CUTOVER_STREAMS")[0])
    own = {}
    for op in OPERATIONS:
        name = row_name(op)
        if op in ruled:
            own[name] = Choice(ruled[op], "PYSHMEM_CUTOVER_STREAMS")
        else:
            own[name] = found.get(name) or Choice(_default(), "default")
    return own


def agree(common: Mapping[str, Choice]) -> None:
    """At ``init``: take the rows that all PEs have alike, cut to the smallest GPU. Collective."""
    global _most
    _agreed.clear()
    _most = _least_blocks()
    for op in OPERATIONS:
        name = row_name(op)
        _agreed[op] = _checked(op, common[name].rows, f"{name} of {common[name].origin}")
        _write(op, stream_rows(op))


def _least_blocks() -> int:
    """Blocks that the smallest GPU of the job runs at a time. Collective."""
    blocks = ffi.new("int *")
    check(lib.ishmemx_stream_blocks(blocks))
    if runtime.n_pes() == 1:
        return int(blocks[0])
    block = owned(lib.end_block)
    check(lib.ishmemx_malloc(lib.ISHMEMX_HEAP_HOST, 16, 16, 1, block))
    words = ffi.cast("int64_t *", block[0])
    words[0] = blocks[0]
    least, kind = REDUCE_OPS.index("min"), ELEMENT_NUMBER["int64"]
    try:
        check(lib.ishmemx_reduce(TEAM_WORLD.handle, least, kind, block[0] + 8, block[0], 1))
        return int(words[1])
    finally:
        check(lib.free_block(block))


runtime.on_finalize(_agreed.clear)
