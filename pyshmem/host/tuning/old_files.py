# SPDX-License-Identifier: BSD-3-Clause
"""Files of ``tune`` and ``tune fused`` from before there was one format: users have some.

A table of cutovers had ``n_pes`` and, by operation, bytes from which calls go the other way: of put
and get a line for each number of threads with a column for each number of blocks. One of collectives on
streams was ``streams`` in it. A table of fused operations had ``rows``. None said its link.
"""

from __future__ import annotations

from itertools import product
from typing import Any

#: The largest numbers of threads and of blocks of each bucket; more belong to the last.
THREADS = (1, 32, 128, 1024)
BLOCKS = (1, 8, 32, 132)
#: Operations that go one way below a size and the other from there on, and both ways.
WAYS = {
    "put": ("stores", "engine"),
    "get": ("stores", "engine"),
    "reduce": ("one_shot", "two_shot"),
    "ll": ("ll", "simple"),
}
#: Of these, those that have a size for each shape.
SHAPED = ("put", "get")


def rows_of_cut(op: str, nbytes: int | None) -> list[list[Any]]:
    """Rows of an operation that goes the other way from ``nbytes`` on; None: never.

    Raises: ValueError.
    """
    below, beyond = WAYS[op]
    if nbytes is None:
        return [[None, below]]
    if not isinstance(nbytes, int) or nbytes < 0:
        raise ValueError(f"{nbytes!r} is not a number of bytes")
    last = [None, beyond]
    return [[nbytes - 1, below], last] if nbytes else [last]


def as_table(old: dict[str, Any]) -> dict[str, Any]:
    """The same in today's format.

    Raises: KeyError, ValueError, TypeError (it is none of those).
    """
    rows = _fused(old) if "rows" in old else _cutovers(old)
    if not (isinstance(old["n_pes"], int) and old["n_pes"] >= 1):
        raise ValueError("a table without its number of PEs")
    key = {"gpu": old["gpu"], "link": "", "peers": old["n_pes"] - 1}
    return {**key, "source": old.get("source", ""), "rows": rows}


def _fused(old: dict[str, Any]) -> dict[str, Any]:
    return {f"fused {op}": rows for op, rows in old["rows"].items()}


def _cutovers(old: dict[str, Any]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for op, (i, threads), (j, blocks) in product(SHAPED, enumerate(THREADS), enumerate(BLOCKS)):
        rows[f"{op} {blocks}x{threads}"] = rows_of_cut(op, old[op][i][j])
    rows["reduce"] = rows_of_cut("reduce", old.get("reduce"))
    if "ll" in old:
        rows["ll"] = rows_of_cut("ll", old["ll"])
    return rows | {f"stream {op}": given for op, given in old.get("streams", {}).items()}
