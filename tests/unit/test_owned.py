# SPDX-License-Identifier: BSD-3-Clause
"""What the library makes for Python has an owner before Python code runs behind the call.

A call writes a block, a team, a context, a request, a stream or a graph into a cell of ``owned()``.
These tests walk the package for calls that make something and for plain cells, so that a new one is
told.
"""

from __future__ import annotations

import gc
import re
import warnings
from pathlib import Path

import pytest

from pyshmem._core.library import ffi, lib, owned
from pyshmem.host.collectives.requests import Request
from pyshmem.host.streams import Graph, Stream
from pyshmem.host.teams.contexts import Context
from pyshmem.host.teams.team import Team

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "pyshmem").rglob("*.py"))

#: Calls that write an address or a handle and make nothing: they only look.
LOOKS = {
    "ishmemx_ptr", "ishmemx_team_ptr", "ishmemx_heap_range", "ishmemx_ctx_get_team",
    "ishmemx_static_range",
}  # fmt: skip
#: Where a plain cell is made: for what only looks, and for what the library made by itself.
PLAIN = {
    ("_core/arrays/checks.py", 1),  # ishmemx_heap_range
    ("_core/library.py", 1),  # owned() itself
    ("check/memory.py", 2),  # ishmemx_heap_range, ishmemx_ptr
    ("host/teams/contexts.py", 1),  # the default context
    ("host/memory/heap.py", 1),  # ishmemx_heap_range
    ("host/query.py", 1),  # ishmemx_ptr
    ("host/teams/team.py", 4),  # ishmemx_team_ptr, and the three predefined teams
}
#: Files whose calls that make something all go by a function of another file, which has the cell.
BY = {
    "host/collectives/nonblocking.py": "begin(",
    "host/collectives/reductions.py": "begin(",
    "host/collectives/scans.py": "begin(",
    "host/teams/made_by_members.py": "owned(",
}


def calls_that_make() -> set[str]:
    """Of the public headers: the last argument is where a handle or an address goes."""
    text = "".join(path.read_text() for path in (ROOT / "native" / "include").glob("ishmemx*.h"))
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    out = r"(void \*\*|ishmemx_(team|ctx|request)_t \*)\w+"
    found = set(re.findall(r"\b(ishmemx_\w+)\([^;]*?" + out + r"(,[^;]*)?\);", text))
    return {name for name, *_ in found} - LOOKS


def test_the_headers_have_such_calls() -> None:
    assert {
        "ishmemx_malloc_as", "ishmemx_malloc_filled", "ishmemx_realloc_as", "ishmemx_team_split_2d",
        "ishmemx_team_begin", "ishmemx_ctx_create", "ishmemx_stream_create", "ishmemx_capture_end",
        "ishmemx_broadcast_nb",
    } <= calls_that_make()  # fmt: skip


def test_plain_cells_are_those_of_calls_that_only_look() -> None:
    found = {
        (str(path.relative_to(ROOT / "pyshmem")), count)
        for path in FILES
        if (count := path.read_text().count('ffi.new("uintptr_t *"'))
    }
    assert found == PLAIN, "what a call makes goes into a cell of owned()"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_who_calls_for_something_new_has_an_owner_for_it(path: Path) -> None:
    text = path.read_text()
    makes = [name for name in calls_that_make() if re.search(rf"lib\.{name}\b", text)]
    wanted = BY.get(str(path.relative_to(ROOT / "pyshmem")), "owned(")
    assert not makes or wanted in text, makes


def test_a_cell_that_is_dropped_gives_back_what_it_holds_once() -> None:
    ended = []
    cell = owned(lambda of: ended.append(of[0]))
    cell[0] = 7
    del cell
    gc.collect()
    assert ended == [7]


@pytest.mark.parametrize("end", [name for name in dir(lib) if name.startswith("end_")])
def test_an_empty_cell_holds_nothing(end: str) -> None:
    cell = ffi.new("uintptr_t *")
    getattr(lib, end)(cell)
    assert cell[0] == 0


@pytest.mark.parametrize("kind", [Team, Context, Stream, Graph, Request])
def test_half_made_objects_can_be_shown_and_dropped(kind: type) -> None:
    """As those are whose making was interrupted: none of their attributes is set."""
    half = kind.__new__(kind)
    assert repr(half)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del half
        gc.collect()
