# SPDX-License-Identifier: BSD-3-Clause
"""How collectives on a stream are done, by their bytes: rows of the cutover table.

Extension. Broadcasts, fcollects, alltoalls, reductions and reduce_scatters have rows, of which the first
counts whose bytes are enough. Bytes are those that a PE sends to the others together, so that rows hold
for teams of any size. A row says the way and the grid:

- ``"ll"``: flags in the data, for few bytes (more than fit a member's slot go ``direct``);
- ``"direct"``: loads and stores of the peers' arrays, between two meetings of the blocks;
- ``"engine"``: copies by copy engines between two meetings of a warp; not of reductions. The grid of
  such a row does not matter.

Each operation's rows come from the first of these that has some:

1. ``PYSHMEM_CUTOVER_STREAMS``: ``op:size=way:blocksxthreads`` with commas between, ``never`` as the last
   size: ``reduce:64K=ll:32x64,reduce:never=direct:64x512``;
2. ``set_stream_rows()`` in this program;
3. what ships with pyshmem, or stands in the file of ``tune``, for such GPUs: ``"streams"`` of a table;
4. defaults, from bare CUDA programs on H200.

All PEs must go one way: ``init`` gives them the rows of PE 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from .._core.contract import STREAM_KERNEL
from .._core.library import check, ffi, lib, owned, parse_size, setting
from .._core.type_table import ELEMENT_NUMBER, REDUCE_OPS
from . import runtime
from .teams import TEAM_WORLD

_NEVER = 2**63 - 1
WAYS = ("ll", "direct", "engine")
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
_WORDS = 4  # of a row


class Row(NamedTuple):
    """``nbytes``: up to so many that a PE sends; ``blocks`` at most, fewer where they had no work."""

    nbytes: int
    way: str
    blocks: int
    threads: int


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
    """The rows of an operation, as ``(nbytes, way, blocks, threads)``.

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
        rows: ``(nbytes, way, blocks, threads)`` each, 1 to 16 of them, alike on all PEs; bytes as a
            number, a text such as ``"64K"``, or ``"never"`` in the last; None: forget what was set.

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
        made = tuple(Row(_size(size), way, int(b), int(t)) for size, way, b, t in rows)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where}: {error}; a row is (size, way, blocks, threads)") from None
    if not 1 <= len(made) <= MAX_ROWS or made[-1].nbytes != _NEVER:
        raise ValueError(f"{where}: give 1 to {MAX_ROWS} rows, of which the last is for 'never'")
    if any(a.nbytes >= b.nbytes for a, b in pairwise(made)):
        raise ValueError(f"{where}: the sizes of rows must rise")
    for row in made:
        ways = WAYS if op in _MOVES else WAYS[:-1]
        if row.way not in ways:
            raise ValueError(f"{where}: the way is {row.way!r}; the ways are {', '.join(ways)}")
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
            way, grid = shape.split(":")
            blocks, threads = (int(n) for n in grid.split("x"))
            _check_op(op)
            found.setdefault(op, []).append((size, way, blocks, threads))
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"PYSHMEM_CUTOVER_STREAMS: '{item}' is not op:size=way:blocksxthreads, such as "
                f"reduce:64K=ll:32x64 ({error})"
            ) from error
    return {op: _checked(op, rows, "PYSHMEM_CUTOVER_STREAMS") for op, rows in found.items()}


def rows_of_table(table: Mapping[str, Any]) -> dict[str, tuple[Row, ...]]:
    """The rows of a table of ``cutover.json``; it need not have any.

    Raises: ValueError.
    """
    rows = table.get("streams", {})
    for op in rows:
        _check_op(op)
    return {op: _checked(op, given, f"streams of {table.get('gpu')}") for op, given in rows.items()}


def _default() -> tuple[Row, ...]:
    simulated = runtime.initialized() and runtime.device_name() == "sim"
    return _SIMULATOR if simulated else _GPU


# ---- to the library ------------------------------------------------------------------------------


def _words(rows: Iterable[Row]) -> list[int]:
    return [w for row in rows for w in (row[0], WAYS.index(row.way), row.blocks, row.threads)]


def _write(op: str, rows: tuple[Row, ...]) -> None:
    cut = [row._replace(blocks=min(row.blocks, _most)) for row in rows]
    check(lib.ishmemx_stream_rows_set(KINDS[op], len(rows), _words(cut)))


def agree(tables: Iterable[Mapping[str, Any]]) -> None:
    """At ``init``: PEs with other rows would wait for ever. PE 0's count, cut to the smallest GPU.

    ``tables``: those of ``cutover.json`` that fit, the weakest first.
    """
    _agreed.clear()
    if runtime.device_name() == "none":
        return
    own = dict.fromkeys(OPERATIONS, _default())
    for table in tables:
        own |= rows_of_table(table)
    own |= parse_rows(setting("CUTOVER_STREAMS")[0])
    words = [number for op in OPERATIONS for number in (len(own[op]), *_words(own[op]))]
    block, blocks = owned(lib.end_block), ffi.new("int *")
    check(lib.ishmemx_stream_blocks(blocks))
    if runtime.n_pes() == 1:
        _take(words, blocks[0])
        return
    room = 1 + len(OPERATIONS) * (1 + MAX_ROWS * _WORDS)  # the first word is that of the blocks
    check(lib.ishmemx_malloc(lib.ISHMEMX_HEAP_HOST, 8 * (room + 1), 16, 1, block))
    shared = ffi.cast("int64_t *", block[0])
    shared[0] = blocks[0]
    for k, word in enumerate(words, 1):
        shared[k] = word
    least, kind = REDUCE_OPS.index("min"), ELEMENT_NUMBER["int64"]
    try:
        args = TEAM_WORLD.handle, block[0], block[0], 8 * room, 0
        most = block[0] + 8 * room
        check(lib.ishmemx_reduce(TEAM_WORLD.handle, least, kind, most, block[0], 1))
        check(lib.ishmemx_broadcast(*args))
        _take([int(shared[k]) for k in range(1, room)], int(shared[room]))
    finally:
        check(lib.free_block(block))


def _take(words: list[int], most: int) -> None:
    global _most
    _most, at = most, 0
    for op in OPERATIONS:
        count, at = words[at], at + 1
        rows = [words[at + _WORDS * k : at + _WORDS * (k + 1)] for k in range(count)]
        at += _WORDS * count
        _agreed[op] = tuple(Row(size, WAYS[way], *grid) for size, way, *grid in rows)
        _write(op, stream_rows(op))


runtime.on_finalize(_agreed.clear)
