# SPDX-License-Identifier: BSD-3-Clause
"""The cutover table: from how many bytes a kernel's put or get leaves its stores for a copy engine.

Extension. A shape is the threads that share a call and the blocks of its grid; both fall into four
buckets. Each entry comes from the first of these that has one:

1. ``PYSHMEM_CUTOVER_PUT``, ``_GET``, ``_REDUCE``, ``_LL``: ``64K`` for all shapes, ``never``, or
   ``threads:blocks=size`` for some of them (``1024:1=256K,1024:8=never``);
2. ``set()`` in this program;
3. what ``python -m pyshmem tune`` measured on such GPUs;
4. what ships with pyshmem for such GPUs, or for the nearest kind (``gpu_kinds.py`` has the rule);
5. never; for ``"ll"`` 16 KiB, shared among the other PEs that a PE sends to.

All PEs must go one way: ``init`` gives them the largest entries that one of them has for ``reduce``
and ``ll``.

``stream_rows`` and ``set_stream_rows`` are the table of collectives on streams: see ``stream_rows.py``.
``docs/tuning.md`` has examples. Where kernels do not reach peers (``PYSHMEM_P2P=0``) nothing is read.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from .._core.dtypes import integer
from .._core.library import check, ffi, lib, owned, parse_size, setting, text_of_file
from .._core.type_table import ELEMENT_NUMBER, REDUCE_OPS
from . import runtime
from .gpu_kinds import nearest
from .stream_rows import agree as agree_on_stream_rows
from .stream_rows import parse_rows, rows_of_table, set_stream_rows, stream_rows
from .teams import TEAM_WORLD

__all__ = [
    "BLOCKS", "NEVER", "OPERATIONS", "SHAPED", "THREADS", "Origin", "choose_table", "fitting_tables",
    "forced", "get", "gpu_name", "origin", "parse_override", "read_tables", "reset", "set",
    "set_stream_rows", "stream_rows", "table_files", "tune_file",
]  # fmt: skip

#: A size that no call reaches.
NEVER: int = 2**63 - 1
#: The largest numbers of threads and of blocks of each bucket; more belong to the last.
THREADS = (1, 32, 128, 1024)
BLOCKS = (1, 8, 32, 132)
#: Operations with a size for each shape, and those with one size.
SHAPED = ("put", "get")
OPERATIONS = (*SHAPED, "reduce", "ll")
#: Of ``"ll"`` by default, all that a PE sends: a piece of 16 bytes for each thread of a block of 1,024.
_LL_BYTES, _LL_LEAST = 16384, 2048

Shape = tuple[int, int]
Sizes = dict[Shape, int]  # bucket's (threads, blocks) -> bytes; "reduce" and "ll" have only _ANY
_ANY: Shape = (0, 0)


class Origin(NamedTuple):
    """Bytes of one entry, and its source: a variable, ``"set"``, a file, or ``"never"``."""

    nbytes: int
    origin: str


_set: dict[str, Sizes] = {op: {} for op in OPERATIONS}
_table: dict[str, dict[Shape, Origin]] = {}
_COMMON = ("reduce", "ll")  # that all PEs must have alike
_agreed: dict[
    tuple[str, Origin], Origin
] = {}  # for entries of these, where PEs differed at ``init``
_forced: list[tuple[str, int]] = []  # by the ``forced`` that are open, the innermost last


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
    _forced.append((op, _parse(nbytes)))
    try:
        _apply()
        yield
    finally:
        _forced.pop()
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
    job = runtime.current()
    if job.device != "cuda":
        return "simulator"
    name = ffi.new("char[]", 256)
    check(lib.ishmemx_cuda_describe(job.gpu, name, 256, ffi.new("int64_t *")))
    return str(ffi.string(name).decode())


def tune_file() -> Path:
    """The file of ``python -m pyshmem tune``: ``PYSHMEM_TUNE_FILE``, else in the user's folder."""
    if chosen := setting("TUNE_FILE")[0]:
        return Path(chosen)
    import click  # knows where settings of users belong

    return Path(click.get_app_dir("pyshmem")) / "cutover.json"


def read_tables(text: str, where: str) -> list[dict[str, Any]]:
    """The tables of a file.

    Raises: ValueError (not such a file, or one of another version).
    """
    try:
        content = json.loads(text)
        if content["format"] != 1:
            raise ValueError(f"format {content['format']} is not 1")
        for table in content["tables"]:
            _sizes_of(table)
        return list(content["tables"])
    except Exception as error:  # a file may hold anything
        named = f"PYSHMEM_TUNE_FILE: {where}" if where == setting("TUNE_FILE")[0] else where
        raise ValueError(
            f"{named} is no cutover table ({type(error).__name__}: {error}); "
            "delete it and run python -m pyshmem tune again"
        ) from error


def _sizes_of(table: Mapping[str, Any]) -> dict[str, Sizes]:
    sizes: dict[str, Sizes] = {"reduce": {_ANY: _size(table.get("reduce"))}}
    if "ll" in table:
        sizes["ll"] = {_ANY: _size(table["ll"])}
    for op in SHAPED:
        rows = table[op]
        sizes[op] = {
            (threads, blocks): _size(rows[i][j])
            for (i, threads), (j, blocks) in product(enumerate(THREADS), enumerate(BLOCKS))
        }
    rows_of_table(table)
    gpu, n_pes = table["gpu"], table["n_pes"]
    if not (isinstance(gpu, str) and gpu and isinstance(n_pes, int) and 1 <= n_pes < 1 << 31):
        raise ValueError("a table without its GPU or number of PEs")
    return sizes


def _size(value: int | None) -> int:
    """JSON has no NEVER: null."""
    if value is not None and (not isinstance(value, int) or not 0 <= value <= NEVER):
        raise ValueError(f"{value!r} is not a number of bytes")
    return NEVER if value is None else value


def choose_table(tables: list[dict[str, Any]], gpu: str, n_pes: int) -> dict[str, Any] | None:
    """The table of this GPU or of the nearest kind; for ``n_pes``, else for fewer, else the smallest."""
    name = nearest(gpu, (table["gpu"] for table in tables))
    fitting = sorted((t for t in tables if t["gpu"] == name), key=lambda t: int(t["n_pes"]))
    not_larger = [t for t in fitting if t["n_pes"] <= n_pes]
    return not_larger[-1] if not_larger else next(iter(fitting), None)


def table_files() -> Iterator[tuple[str, str]]:
    """Texts of the files that may have a table, the weakest first, and their names."""
    shipped = importlib.resources.files("pyshmem").joinpath("data").joinpath("cutover.json")
    yield shipped.read_text(encoding="utf-8"), "shipped"
    tuned = tune_file()
    if setting("TUNE_FILE")[0]:
        yield text_of_file(tuned, "PYSHMEM_TUNE_FILE"), str(tuned)
    elif tuned.is_file():
        yield text_of_file(tuned, "the user's cutover table"), str(tuned)


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
        parse_rows(text)
    elif name == f"CUTOVER_{op.upper()}" and op in OPERATIONS:
        parse_override(op, text)


def _default(op: str) -> Origin:
    """What counts where nobody has measured or set anything."""
    if op != "ll":
        return Origin(NEVER, "never")
    others = max(1, runtime.n_pes() - 1) if runtime.initialized() else 1
    return Origin(max(_LL_LEAST, _LL_BYTES // others), "default")


def fitting_tables(
    texts: Iterable[tuple[str, str]],
    read: Callable[[str, str], list[dict[str, Any]]],
) -> list[tuple[dict[str, Any], str]]:
    """The tables of the files that fit this job, and what to call each; the weakest first.

    A table of this very GPU is stronger than one of another kind, in whichever file it is. What it
    lacks is left to that of the nearest kind.

    Args:
        texts: text and name of each file, the weakest first.
        read: makes tables of a file's text.

    Raises: ValueError (``read``).
    """
    gpu, own, others = gpu_name(), [], []
    for text, where in texts:
        tables = read(text, where)
        if table := choose_table([t for t in tables if t["gpu"] == gpu], gpu, runtime.n_pes()):
            own.append((table, where))
        if table := choose_table([t for t in tables if t["gpu"] != gpu], gpu, runtime.n_pes()):
            others.append((table, f"{where}, by rule from {table['gpu']}"))
    return others + own


def _tables() -> list[tuple[dict[str, Any], str]]:
    """Those of the files that fit the job, the weakest first."""
    if not runtime.initialized() or runtime.device_name() == "none":
        return []
    return fitting_tables(table_files(), read_tables)


def _resolve() -> dict[str, dict[Shape, Origin]]:
    """The table that counts, from all places."""
    layers: list[tuple[dict[str, Sizes], str]] = []
    layers += [(_sizes_of(table), where) for table, where in _tables()]
    layers.append((_set, "set"))
    for op in OPERATIONS:
        text, variable = setting(f"CUTOVER_{op.upper()}")
        layers.append(({op: parse_override(op, text)}, variable))
    resolved: dict[str, dict[Shape, Origin]] = {}
    for op in OPERATIONS:
        row = dict.fromkeys(_shapes(op, None, None), _default(op))
        for sizes, where in layers:
            row |= {shape: Origin(size, where) for shape, size in sizes.get(op, {}).items()}
        resolved[op] = row
    for op in _COMMON:
        own = resolved[op][_ANY]
        resolved[op][_ANY] = _agreed.get((op, own), own)
    return resolved


# ---- to the kernels ----------------------------------------------------------------------------


def _apply() -> None:
    """Resolve the table again, and give it to the kernels if there is a job."""
    resolved = _resolve()
    _table.clear()
    _table.update(resolved)
    if runtime.initialized():
        sizes = {op: {shape: e.nbytes for shape, e in row.items()} for op, row in resolved.items()}
        for op, nbytes in _forced:
            sizes[op] = dict.fromkeys(sizes[op], nbytes)
        _write(sizes)


def _agree() -> None:
    """At ``init``: PEs with other GPUs or other files would go other ways, and wait for ever."""
    _agreed.clear()
    _apply()
    agree_on_stream_rows(table for table, _ in _tables())
    own = [_table[op][_ANY] for op in _COMMON]
    if runtime.n_pes() == 1 or runtime.device_name() == "none":
        return
    block, n = owned(lib.end_block), len(own)
    check(lib.ishmemx_malloc(lib.ISHMEMX_HEAP_HOST, 16 * n, 16, 1, block))
    words = ffi.cast("int64_t *", block[0])
    for k, entry in enumerate(own):
        words[k] = entry.nbytes
    most, kind = REDUCE_OPS.index("max"), ELEMENT_NUMBER["int64"]
    status = lib.ishmemx_reduce(TEAM_WORLD.handle, most, kind, block[0] + 8 * n, block[0], n)
    largest = [int(words[n + k]) for k in range(n)]
    check(status)
    check(lib.free_block(block))
    for op, entry, nbytes in zip(_COMMON, own, largest, strict=True):
        if nbytes != entry.nbytes:
            _agreed[op, entry] = Origin(nbytes, "the largest of all PEs'")
    if _agreed:
        _apply()


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


runtime.on_init(_agree)
runtime.on_finalize(_table.clear)
