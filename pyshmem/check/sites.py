# SPDX-License-Identifier: BSD-3-Clause
"""Source lines, and what elements of an array are called in a report."""

from __future__ import annotations

import ast
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
    """What the program calls an array, from the line that made it."""
    line = linecache.getline(site.file, site.line).strip()
    try:
        made = ast.parse(line).body[0]
    except (SyntaxError, IndexError, ValueError):
        made = None
    if isinstance(made, ast.Assign | ast.AnnAssign):
        target = made.targets[0] if isinstance(made, ast.Assign) else made.target
        if not isinstance(target, ast.Tuple):
            return ast.unparse(target)
    return f"(array of {os.path.basename(site.file)}:{site.line})"


def shown(site: Site) -> str:
    """File and line."""
    if not site.line:
        return site.file
    near = os.path.relpath(site.file)
    return f"{site.file if near.startswith('..') else near}:{site.line}"
