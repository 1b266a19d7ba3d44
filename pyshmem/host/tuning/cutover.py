# SPDX-License-Identifier: BSD-3-Clause
"""The cutover table: from how many bytes a kernel's put or get leaves its stores for a copy engine.

Extension. A shape is the threads that share a call and the blocks of its grid; both fall into four
buckets. Each entry comes from the first of these that has one:

1. ``PYSHMEM_CUTOVER_PUT``, ``_GET``, ``_REDUCE``, ``_LL``: ``64K`` for all shapes, ``never``, or
   ``threads:blocks=size`` for some of them (``1024:1=256K,1024:8=never``);
2. ``set()`` in this program;
3. what ``python -m pyshmem tune`` measured, or ships with pyshmem, for such GPUs with such a link;
4. the same for the nearest kind (``kinds.py`` has the rule, ``table.py`` the files);
5. never; for ``"ll"`` 16 KiB, shared among the other PEs that a PE sends to.

All PEs must go one way: ``init`` gives them PE 0's entries for ``reduce`` and ``ll``.

``stream_rows`` and ``set_stream_rows`` are the table of collectives on streams: see ``streams.py``.
``docs/tuning.md`` has examples. Where kernels do not reach peers (``PYSHMEM_P2P=0``) nothing is read.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ..._core.dtypes import integer
from ..._core.library import check, finished, lib, parse_size, setting, text_of_file
from ..job import runtime
from . import gpus, old_files, table
from . import streams as on_streams
from .old_files import BLOCKS, THREADS
from .streams import set_stream_rows, stream_rows
from .table import NEVER, tune_file

__all__ = [
    "BLOCKS", "NEVER", "OPERATIONS", "SHAPED", "THREADS", "Origin", "forced", "get", "gpu_name",
    "origin", "parse_override", "reset", "set", "set_stream_rows", "stream_rows", "tune_file",
]  # fmt: skip

#: Operations with a size for each shape, and those with one size.
SHAPED = old_files.SHAPED
OPERATIONS = tuple(old_files.WAYS)
#: Of ``"ll"`` by default, all that a PE sends: a piece of 16 bytes for each thread of a block of 1,024.
_LL_BYTES, _LL_LEAST = 16384, 2048

Shape = tuple[int, int]
Sizes = dict[Shape, int]  # bucket's (threads, blocks) -> bytes; "reduce" and "ll" have only _ANY
_ANY: Shape = (0, 0)


class Origin(NamedTuple):
    """Bytes of one entry, and its source: a variable, ``"set"``, a file, or ``"never"``."""

    nbytes: int
    origin: str


@dataclass(frozen=True, eq=False)
class _Forced:
    op: str
    nbytes: int


_set: dict[str, Sizes] = {op: {} for op in OPERATIONS}
_table: dict[str, dict[Shape, Origin]] = {}  # what counts, from all places
_COMMON = ("reduce", "ll")  # that all PEs must have alike
_VARIABLE = "PYSHMEM_"  # with which the origin of an entry of the environment begins
_agreed = False  # whether ``table`` has what PE 0 has, of the operations that all must have alike
_forced: list[_Forced] = []  # by the ``forced`` that are open, the innermost last


def _bucket(value: int, bounds: tuple[int, ...], what: str) -> int:
    if integer(what, value) < 1:
        raise ValueError(f"{what} is {value}; a shape has at least one")
    return next((bound for bound in bounds if value <= bound), bounds[-1])


def _shapes(op: str, threads: int | None, blocks: int | None) -> list[Shape]:
    """The buckets that are meant; None means all."""
    if op not in OPERATIONS:
        raise ValueError(f"op is {op!r}; the operations are {', '.join(OPERATIONS)}")
    if op not in SHAPED:
        if threads is not None or blocks is not None:
            raise ValueError(f"{op} has one size for all shapes: leave threads and blocks out")
        return [_ANY]
    rows = THREADS if threads is None else (_bucket(threads, THREADS, "threads"),)
    columns = BLOCKS if blocks is None else (_bucket(blocks, BLOCKS, "blocks"),)
    return list(product(rows, columns))


# ---- what users call ---------------------------------------------------------------------------


def get(op: str, threads: int = 1024, blocks: int = 1) -> int:
    """From how many bytes a call of this shape takes the other way; ``NEVER`` when none does.

    Args:
        op: ``"put"``, ``"get"``; ``"reduce"``: bytes from which each PE of a device reduction
            combines its share instead of everything; ``"ll"``: bytes a PE from which a block's or
            a grid's collective sends data and then flags instead of data with flags in it, a warp's
            from a quarter of that, a thread's from a sixty-fourth. Threads and blocks do not
            matter to these two.
        threads: threads that share one call: 1, 32 for a warp, or those of the block.
        blocks: blocks of the grid.

    Raises: ValueError.
    Extension.
    """
    return _entry(op, threads, blocks).nbytes


def origin(op: str, threads: int = 1024, blocks: int = 1) -> str:
    """Where the entry comes from: a variable, ``"set"``, a file's path, ``"default"`` or ``"never"``.

    Args and errors: as ``get``.
    Extension.
    """
    return _entry(op, threads, blocks).origin


def _entry(op: str, threads: int, blocks: int) -> Origin:
    (shape,) = _shapes(op, threads, blocks) if op in SHAPED else _shapes(op, None, None)
    if not _table:
        _apply()
    return _table[op][shape]


def set(
    op: str, nbytes: int | str, *, threads: int | None = None, blocks: int | None = None
) -> None:
    """Set an entry, or those of all threads or blocks that are left out.

    Kernels launched afterwards see it; running kernels of this PE are waited for. It stays until
    ``reset``, also in later jobs, and gives way to the variables of the environment. ``"reduce"``
    and ``"ll"`` must be the same on all PEs: set them on all, with no device collective under way.

    Args:
        op: ``"put"``, ``"get"``, ``"reduce"`` or ``"ll"``.
        nbytes: bytes, a text such as ``"256K"``, ``"never"`` or ``NEVER``; 0: always.
        threads: threads that share one call; default all.
        blocks: blocks of the grid; default all.

    Raises: ValueError.
    Extension.
    """
    value = _parse(nbytes)
    for shape in _shapes(op, threads, blocks):
        _set[op][shape] = value
    _apply()


def reset(op: str | None = None) -> None:
    """Forget what ``set`` has set, for one operation or all.

    Raises: ValueError.
    Extension.
    """
    for name in OPERATIONS if op is None else (op,):
        _shapes(name, None, None)
        _set[name].clear()
    _apply()


@contextlib.contextmanager
def forced(op: str, nbytes: int | str) -> Iterator[None]:
    """Inside, ``op`` has this size for all shapes, whatever the environment says: to measure a path.

    The inner of two for one ``op`` counts; ``get`` and ``origin`` do not see it.

    Args and errors: as ``set``.
    Extension.
    """
    _shapes(op, None, None)
    mine = _Forced(op, _parse(nbytes))
    try:
        _forced.append(mine)
        _apply()
        yield
    finally:
        finished(lambda: _end_forced(mine))


def _end_forced(ended: _Forced) -> None:
    _forced[:] = [one for one in _forced if one is not ended]
    _apply()


# ---- where entries come from -------------------------------------------------------------------


def _parse(nbytes: int | str) -> int:
    if isinstance(nbytes, str) and nbytes.strip().lower() == "never":
        return NEVER
    return min(parse_size(nbytes.strip() if isinstance(nbytes, str) else nbytes), NEVER)


def parse_override(op: str, text: str) -> Sizes:
    """The entries that the text of ``PYSHMEM_CUTOVER_<OP>`` names.

    Raises: ValueError.
    """
    sizes: Sizes = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        shape, equals, size = item.rpartition("=")
        try:
            threads, blocks = (int(n) for n in shape.split(":")) if equals else (None, None)
            sizes |= dict.fromkeys(_shapes(op, threads, blocks), _parse(size))
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"PYSHMEM_CUTOVER_{op.upper()}: '{item}' is not a size, 'never' or "
                f"threads:blocks=size, such as 1024:1=256K ({error})"
            ) from error
    return sizes


def gpu_name() -> str:
    """What tables of this PE are filed under: its GPU's name, or ``"simulator"``."""
    return gpus.of_this_pe().name


def row_name(op: str, shape: Shape) -> str:
    """What the rows of an entry are called in tables: ``put 8x1024``, blocks x threads."""
    return f"{op} {shape[1]}x{shape[0]}" if op in SHAPED else op


def size_of(op: str, rows: table.Rows) -> int:
    """From how many bytes rows of a table go the other way.

    Raises: ValueError (they go there and back, or there is no such way).
    """
    below, beyond = old_files.WAYS[op]
    ways = [way for _, way, *_ in rows]
    if rows[-1][0] != NEVER or ways not in ([below], [beyond], [below, beyond]):
        raise ValueError(
            f"{op} goes {below!r} up to some bytes and {beyond!r} from there on, once; not {rows}"
        )
    return NEVER if ways == [below] else rows[0][0] + 1 if len(ways) == 2 else 0


def rows_of_size(op: str, nbytes: int | None) -> table.Rows:
    """The reverse; None is never."""
    return table.as_rows(op, old_files.rows_of_cut(op, nbytes))


def read_tables(text: str, where: str) -> list[table.Table]:
    """The tables of a file, with rows of this module and of collectives on streams as they must be.

    Raises: ValueError.
    """
    tables = table.read(text, where)
    names = {row_name(op, s): op for op in OPERATIONS for s in _shapes(op, None, None)}
    for one in tables:
        for name in one.rows.keys() & names.keys():
            try:
                size_of(names[name], one.rows[name])
            except ValueError as error:
                raise ValueError(f"{where} is no table of choices ({error})") from None
        on_streams.check_rows(one.rows, where)
    return tables


def check_settings() -> None:
    """Refuse texts of this file's settings, and a file that one names, as ``init`` would.

    Raises: ValueError.
    """
    for op in OPERATIONS:
        check_setting(f"CUTOVER_{op.upper()}", setting(f"CUTOVER_{op.upper()}")[0])
    for name in ("CUTOVER_STREAMS", "TUNE_FILE"):
        check_setting(name, setting(name)[0])


def check_setting(name: str, text: str) -> None:
    """Refuse ``text`` as the value of a setting, if it is one of this file's.

    Raises: ValueError.
    """
    op = name.removeprefix("CUTOVER_").lower()
    if name == "TUNE_FILE" and text:
        read_tables(text_of_file(Path(text), "PYSHMEM_TUNE_FILE"), text)
    elif name == "CUTOVER_STREAMS":
        on_streams.parse_rows(text)
    elif name == f"CUTOVER_{op.upper()}" and op in OPERATIONS:
        parse_override(op, text)


def _default(op: str) -> Origin:
    """What counts where nobody has measured or set anything."""
    if op != "ll":
        return Origin(NEVER, "never")
    others = max(1, runtime.n_pes() - 1) if runtime.initialized() else 1
    return Origin(max(_LL_LEAST, _LL_BYTES // others), "default")


def _measured() -> dict[str, table.Choice]:
    """What counts of tables, and of PE 0's variables once PEs have agreed, in a job with kernels."""
    if not runtime.initialized() or runtime.device_name() == "none":
        return {}
    names = [row_name(op, shape) for op in OPERATIONS for shape in _shapes(op, None, None)]
    return {name: found for name in names if (found := table.choice(name))}


def _resolve() -> dict[str, dict[Shape, Origin]]:
    """The table that counts, from all places."""
    measured, resolved = _measured(), {}
    for op in OPERATIONS:
        text, variable = setting(f"CUTOVER_{op.upper()}")
        ruled = {shape: Origin(size, variable) for shape, size in parse_override(op, text).items()}
        row = dict.fromkeys(_shapes(op, None, None), _default(op))
        for shape in row:
            if not (found := measured.get(row_name(op, shape))):
                continue
            row[shape] = Origin(size_of(op, found.rows), found.origin)
            if op in _COMMON and _agreed:  # own variables count as far as PE 0 has them
                ruled = {shape: row[shape]} if found.origin.startswith(_VARIABLE) else {}
        row |= {shape: Origin(size, "set") for shape, size in _set[op].items()}
        resolved[op] = row | ruled
    return resolved


# ---- to the kernels ----------------------------------------------------------------------------


def _apply() -> None:
    """Resolve the table again, and give it to the kernels if there is a job."""
    resolved = _resolve()
    _table.clear()
    _table.update(resolved)
    if runtime.initialized():
        sizes = {op: {shape: e.nbytes for shape, e in row.items()} for op, row in resolved.items()}
        for one in _forced:
            sizes[one.op] = dict.fromkeys(sizes[one.op], one.nbytes)
        _write(sizes)


def _agree() -> None:
    """At ``init``: PEs with other GPUs or other files would go other ways, and wait for ever."""
    global _agreed
    _agreed = False
    if runtime.device_name() == "none":
        _apply()
        return
    found = table.of_job()
    table.settle(found)
    own = {name: one for name, one in found.items() if not name.startswith(SHAPED)}
    own |= on_streams.own_choices(own)
    for op, row in _resolve().items():
        if op in _COMMON and (entry := row[_ANY]).origin != "set":
            cut = None if entry.nbytes >= NEVER else entry.nbytes
            own[op] = table.Choice(rows_of_size(op, cut), entry.origin)
    common = table.of_first_pe(own)
    _tell_differences(own, common)
    table.settle({name: one for name, one in found.items() if name not in own} | common)
    _agreed = True
    _apply()
    on_streams.agree(common)


def _tell_differences(own: Mapping[str, table.Choice], common: Mapping[str, table.Choice]) -> None:
    """Where a variable of this PE's or of PE 0's says what the other has otherwise."""
    for name, mine in own.items():
        first = common[name]
        variable = next((o for o in (mine.origin, first.origin) if o.startswith(_VARIABLE)), None)
        if variable and tuple(mine.rows) != tuple(first.rows):
            warnings.warn(
                f"{name!r} by {mine.origin} on PE {runtime.my_pe()}, by {first.origin} on PE 0, "
                f"with other sizes: all PEs take PE 0's; set {variable} alike on all",
                RuntimeWarning,
                stacklevel=2,
            )


def _write(sizes: Mapping[str, Sizes]) -> None:
    places = {"put": lib.ISHMEMX_STATE_CUTOVER_PUT, "get": lib.ISHMEMX_STATE_CUTOVER_GET}
    least = {"put": lib.ISHMEMX_STATE_CUTOVER_PUT_MIN, "get": lib.ISHMEMX_STATE_CUTOVER_GET_MIN}
    for op, first in places.items():
        words = list(sizes[op].values())  # rows of threads, as the state block has them
        check(lib.ishmemx_cutover_set(first, len(words), words))
        check(lib.ishmemx_cutover_set(least[op], 1, [min(words)]))
    for op, number in (("reduce", lib.ISHMEMX_CUTOVER_REDUCE), ("ll", lib.ISHMEMX_CUTOVER_LL)):
        word = lib.ISHMEMX_STATE_CUTOVER_COLL + number
        check(lib.ishmemx_cutover_set(word, 1, [sizes[op][_ANY]]))
    runtime.state_changed()


def _forget() -> None:
    global _agreed
    _agreed = False
    _table.clear()


runtime.on_init(_agree)
runtime.on_finalize(_forget)
