# SPDX-License-Identifier: BSD-3-Clause
"""Source lines, and what elements of an array are called in a report."""

from __future__ import annotations

import ast
import functools
import linecache
import os
from typing import NamedTuple

from .engine import Block


class Site(NamedTuple):
    """A line of the program."""

    file: str
    line: int
    function: str


class Sites:
    """Source lines of all PEs: those of one file and line are one."""

    def __init__(self) -> None:
        self.of: list[Site] = []
        self._numbers: dict[Site, int] = {}
        self._of_pe: dict[tuple[int, int], int] = {}

    def add(self, pe: int, number: int, file: str, line: int, function: str) -> None:
        """A PE's number of a line."""
        site = Site(file, line, function)
        if site not in self._numbers:
            self._numbers[site] = len(self.of)
            self.of.append(site)
        self._of_pe[pe, number] = self._numbers[site]

    def number(self, pe: int, number: int) -> int:
        """The job's number of a line, by the PE's."""
        return self._of_pe[pe, number]


def elements(sites: Sites, block: Block | None, low: int, high: int) -> str:
    """Bytes of a heap as indices of the array that they belong to."""
    if block is None:
        return f"bytes {low:#x} to {high:#x} of the heap"
    name = _name_of(sites.of[block.site])
    first, end = (low - block.low) // block.itemsize, -(-(high - block.low) // block.itemsize)
    if len(block.shape) < 2:
        return f"{name}[{first}]" if end == first + 1 else f"{name}[{first}:{end}]"
    where = f"{name}[{_unravelled(first, block.shape)}]"
    return where if end == first + 1 else f"{where} to [{_unravelled(end - 1, block.shape)}]"


def _unravelled(index: int, shape: tuple[int, ...]) -> str:
    places = []
    for n in reversed(shape):
        places.append(index % n)
        index //= n
    return ", ".join(map(str, reversed(places)))


def _name_of(site: Site) -> str:
    """What the program calls an array, from the line that made it, if that is known."""
    if not site.line:
        return f"(array of {os.path.basename(site.file)})"
    line = linecache.getline(site.file, site.line).strip()
    try:
        made = [one for one in ast.parse(line).body if isinstance(one, ast.Assign | ast.AnnAssign)]
    except (SyntaxError, ValueError):
        made = []
    if len(made) == 1:  # of several nobody knows which
        target = made[0].targets[0] if isinstance(made[0], ast.Assign) else made[0].target
        if not isinstance(target, ast.Tuple):
            return ast.unparse(target)
    return f"(array of {os.path.basename(site.file)}:{site.line})"


#: Methods and functions of NumPy that store to the array.
_STORE = frozenset(("fill", "sort", "put", "itemset", "partition", "resize", "copyto", "place"))


@functools.cache
def _stores(file: str) -> dict[str, tuple[list[int], list[int]]]:
    """By variable, of a file: the lines that make one of that name, and those that store to it."""
    found: dict[str, tuple[list[int], list[int]]] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return found

    def note(node: ast.AST | None, is_store: bool) -> None:
        while isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
            node, is_store = node.value, True
        for one in node.elts if isinstance(node, ast.Tuple | ast.List) else ():
            note(one, False)
        if isinstance(node, ast.Name):
            found.setdefault(node.id, ([], []))[is_store].append(node.lineno)

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                note(target, False)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            note(node.target, isinstance(node, ast.AugAssign))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _STORE:
            for one in (getattr(node.func, "value", None), *node.args[:1]):
                note(one, True)
    return found


def lines_of(name: str, file: str, call: int, now: int) -> tuple[int, int]:
    """Of an array by its variable's name: the line that made it, and the last that stored to it.

    That one was at work since the line ``call``, before the line ``now``; where the program does not say
    so in plain words, these two.
    """
    made, stored = _stores(file).get(name, ([], []))
    before = [line for line in made if line <= call]
    since = [line for line in stored if (call < line <= now if call < now else line <= now)]
    return max(before, default=call), max(since or stored, default=now)


def shown(site: Site) -> str:
    """File and line."""
    if not site.line:
        return site.file
    near = os.path.relpath(site.file)
    return f"{site.file if near.startswith('..') else near}:{site.line}"
