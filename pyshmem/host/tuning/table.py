# SPDX-License-Identifier: BSD-3-Clause
"""The table of measured choices: its files, which of its rows count in this job, and what PEs agree on.

An operation has rows ``(bytes, choice, ...)``: the first counts whose bytes are enough. Which choices
there are says who asks: ``cutover.py`` (``put 8x1024``, ``get 8x1024`` with the grid's blocks x threads,
``reduce``, ``ll``), ``streams.py`` (``stream reduce``) and ``fused/_shared`` (``fused all_to_all``). A
table has a key: the GPU's name, the kind of its link to peers, the number of peers.

Of each operation those rows count that the strongest table has: one that was measured on such a GPU with
such a link, else that of the nearest kind (``kinds.py`` has the rule). Among tables as near, users'
files beat the shipped one, and that beats the file of ``tune quick``; then the number of peers counts:
as many, else the next smaller number, else the smallest. A table for more peers than there are is weaker
than one of a GPU of quite the same kind.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ..._core.library import (
    cache_folder,
    check,
    ffi,
    lib,
    owned,
    setting,
    setting_number,
    text_of_file,
)
from ..job import runtime
from ..teams.team import TEAM_WORLD
from . import gpus, kinds, old_files

NEVER = 2**63 - 1

Rows = tuple[tuple[Any, ...], ...]


class Table(NamedTuple):
    """Rows by operation, and their key. An empty ``link`` is that of whoever has this GPU."""

    gpu: str
    link: str
    peers: int
    source: str
    rows: dict[str, Rows]

    @property
    def key(self) -> tuple[str, str, int]:
        """What it was measured on."""
        return self.gpu, self.link, self.peers


class Choice(NamedTuple):
    """Rows that count, and where they come from: a file, by rule or not, or a variable."""

    rows: Rows
    origin: str


#: By operation, what counts in this job; filled when somebody asks.
_found: dict[str, Choice] = {}


# ---- files -------------------------------------------------------------------------------------


def tune_file() -> Path:
    """The file of ``python -m pyshmem tune``: ``PYSHMEM_TUNE_FILE``, else in the user's folder."""
    if chosen := setting("TUNE_FILE")[0]:
        return Path(chosen)
    return _users("tuning.json")


def _users(name: str) -> Path:
    import click  # knows where settings of users belong

    return Path(click.get_app_dir("pyshmem")) / name


def quick_file() -> Path:
    """The file of ``python -m pyshmem tune quick``, beside compiled kernels: made again in a second."""
    return cache_folder() / "calibration.json"


def files() -> Iterator[tuple[str, str]]:
    """Texts of the files that may have tables, the weakest first, and their names.

    Raises: ValueError (``PYSHMEM_TUNE_FILE``, or a file of the user's own, cannot be read).
    """
    if setting_number("CALIBRATION") and (quick := quick_file()).is_file():
        yield text_of_file(quick, "the file of tune quick"), str(quick)
    shipped = importlib.resources.files("pyshmem").joinpath("data").joinpath("tuning.json")
    yield shipped.read_text(encoding="utf-8"), "shipped"
    tuned = tune_file()
    if setting("TUNE_FILE")[0]:
        older = [tuned.parent / "fused.json"]
    else:
        older = [_users(name) for name in ("cutover.json", "fused.json")]
    for path in older:
        if path.is_file() and path != tuned:
            yield text_of_file(path, "the user's table of choices"), str(path)
    if setting("TUNE_FILE")[0]:
        yield text_of_file(tuned, "PYSHMEM_TUNE_FILE"), str(tuned)
    elif tuned.is_file():
        yield text_of_file(tuned, "the user's table of choices"), str(tuned)


def read(text: str, where: str) -> list[Table]:
    """The tables of a file, also of those that were written before there was one format.

    Raises: ValueError (not such a file, or one of another version).
    """
    try:
        content = json.loads(text)
        made = content["tables"]
        if content["format"] == 1:
            made = [old_files.as_table(table) for table in made]
        elif content["format"] != 2:
            raise ValueError(f"format {content['format']} is neither 1 nor 2")
        return [_checked(table) for table in made]
    except Exception as error:  # a file may hold anything
        named = f"PYSHMEM_TUNE_FILE: {where}" if where == setting("TUNE_FILE")[0] else where
        raise ValueError(
            f"{named} is no table of choices ({type(error).__name__}: {error}); "
            "delete it and run python -m pyshmem tune again"
        ) from error


def _checked(table: dict[str, Any]) -> Table:
    gpu, link, peers = table["gpu"], table["link"], table["peers"]
    if not (isinstance(gpu, str) and gpu and isinstance(link, str)):
        raise ValueError("a table without its GPU or its link")
    if not (isinstance(peers, int) and 0 <= peers < 1 << 31):
        raise ValueError("a table without its number of peers")
    rows = {str(op): as_rows(op, given) for op, given in table["rows"].items()}
    return Table(gpu, link, peers, str(table.get("source", "")), rows)


def as_rows(operation: str, given: Sequence[Sequence[Any]]) -> Rows:
    """Rows of a file, in which null stands for no limit.

    Raises: ValueError.
    """
    made = tuple((NEVER if row[0] is None else row[0], *row[1:]) for row in given)
    for nbytes, choice, *numbers in made:
        if not (isinstance(nbytes, int) and 0 <= nbytes <= NEVER and isinstance(choice, str)):
            raise ValueError(f"{operation}: {nbytes!r}, {choice!r} are no bytes and no choice")
        if not all(isinstance(number, int) for number in numbers):
            raise ValueError(f"{operation}: {numbers} are no numbers")
    if not made or any(a[0] >= b[0] for a, b in pairwise(made)):
        raise ValueError(f"{operation}: the bytes of rows must rise, and there must be one")
    return made


def merged(tables: Iterable[Table], new: Table) -> list[Table]:
    """``tables`` with ``new``, whose operations they lose where their key is the same.

    A key without a link, of an older file, is the same as that with one.
    """
    kept = []
    for old in tables:
        if (old.gpu, old.peers) == (new.gpu, new.peers) and old.link in ("", new.link):
            old = old._replace(rows={op: r for op, r in old.rows.items() if op not in new.rows})
        if old.rows:
            kept.append(old)
    return [*kept, new]


def text_of(tables: Iterable[Table]) -> str:
    """The text of a file with these tables, a line an operation."""
    return '{"format": 2, "tables": [\n' + ",\n".join(map(_text_of, tables)) + "\n]}\n"


def _text_of(table: Table) -> str:
    head = [
        f" {json.dumps(name)}: {json.dumps(getattr(table, name))}"
        for name in ("gpu", "link", "peers", "source")
    ]
    lines = []
    for op, rows in table.rows.items():
        shown = [[None if row[0] >= NEVER else row[0], *row[1:]] for row in rows]
        lines.append(f"  {json.dumps(op)}: {json.dumps(shown)}")
    return "{" + ",\n".join(head).lstrip() + ',\n "rows": {\n' + ",\n".join(lines) + "}}"


# ---- which rows count --------------------------------------------------------------------------


def choices(gpu: gpus.Gpu, peers: int, texts: Iterable[tuple[str, str]]) -> dict[str, Choice]:
    """By operation, the rows that count for a GPU with so many peers.

    Args:
        gpu: the GPU, or ``gpus.SIMULATOR``.
        peers: the other PEs of the job.
        texts: text and name of each file, the weakest first.

    Raises: ValueError (``read``).
    """
    ranked = []
    for strength, (text, where) in enumerate(texts):
        for table in read(text, where):
            if (table.gpu == "simulator") != (gpu.name == "simulator"):
                continue
            many = table.peers > peers
            near = (int(many), table.peers if many else peers - table.peers)
            rank, origin = _rank(gpu, table, where, many)
            ranked.append(((*rank, -strength, *near, table.gpu), origin, table))
    found: dict[str, Choice] = {}
    for _, origin, table in sorted(ranked, key=lambda one: one[0]):
        for operation, rows in table.rows.items():
            found.setdefault(operation, Choice(rows, origin))
    return found


def _rank(gpu: gpus.Gpu, table: Table, where: str, many: bool) -> tuple[tuple[float, ...], str]:
    """How near a table's kind is, and what to call it: by its file, and by the rule if it is by that.

    ``many``: it is for more peers than there are.
    """
    same = table.gpu == gpu.name
    if same and table.link in ("", gpu.kind.link):
        return (2 if many else 0, 0, 0, 0), where
    other = kinds.kind_of(table.gpu)
    link = table.link or other.link
    if link != other.link:
        other = kinds.Kind(other.architecture, link, kinds.bandwidth(other.architecture, link))
    told = f"{where}, by rule from {table.gpu}" + (f" ({link})" if same else "")
    distance = kinds.distance(gpu.kind, other)
    return (3 if many or any(distance) else 1, *distance), told


def of_job() -> dict[str, Choice]:
    """By operation, the rows that count in the running job, before PEs have agreed on any."""
    return choices(gpus.of_this_pe(), runtime.n_pes() - 1, files())


def choice(operation: str) -> Choice | None:
    """What counts for an operation in the running job; None: nobody has measured it."""
    if not _found:
        _found.update(of_job())
    return _found.get(operation)


def settle(found: dict[str, Choice]) -> None:
    """From now on these count, until the job ends."""
    _found.clear()
    _found.update(found)


# ---- what PEs agree on -------------------------------------------------------------------------

_ROOM = 8192  # bytes of one broadcast


def of_first_pe(own: dict[str, Choice]) -> dict[str, Choice]:
    """PE 0's choices. PEs with others would go other ways and wait for ever. Collective, at ``init``."""
    if runtime.n_pes() == 1:
        return own
    text = json.dumps(own).encode()
    block = owned(lib.end_block)
    check(lib.ishmemx_malloc(lib.ISHMEMX_HEAP_HOST, _ROOM, 16, 1, block))
    room = ffi.buffer(ffi.cast("char *", block[0]), _ROOM)
    try:
        parts, received, left = 0, b"", 1
        while left > 0:  # each part begins with the number of bytes that are still to come
            size = _ROOM - 8
            if runtime.my_pe() == 0:
                left = len(text) - parts * size
                room[:8] = left.to_bytes(8, "little", signed=True)
                part = text[parts * size : (parts + 1) * size]
                room[8 : 8 + len(part)] = part
            check(lib.ishmemx_broadcast(TEAM_WORLD.handle, block[0], block[0], _ROOM, 0))
            left = int.from_bytes(room[:8], "little", signed=True)
            received += bytes(room[8 : 8 + min(left, size)])
            left, parts = left - size, parts + 1
            if left > 0:  # the next part lands where everybody has read this one
                check(lib.ishmemx_team_sync(TEAM_WORLD.handle))
    finally:
        check(lib.free_block(block))
    return {
        op: Choice(tuple(tuple(row) for row in rows), origin)
        for op, (rows, origin) in json.loads(received).items()
    }


runtime.on_finalize(_found.clear)
