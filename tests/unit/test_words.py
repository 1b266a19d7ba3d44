# SPDX-License-Identifier: BSD-3-Clause
"""Names use the field's words: which ones have gone from which folders, and what stands in their place.

A row is a word, as a part of an identifier, the folders in which no identifier has it, what is said in
its place there, and what it goes on to mean elsewhere. Names of the contract, whose hash is of them,
stay: of C's, all that begin with ``ISHMEMX_``.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import pyshmem

PACKAGE = Path(pyshmem.__file__).parent
ROOT = Path(__file__).parents[2]
#: Has names of the contract.
CONTRACT = PACKAGE / "triton" / "runtime" / "constants.py"


class Word(NamedTuple):
    """A word that has gone: from ``folders`` below the package, "" is all of it, and from those of C."""

    folders: tuple[str, ...]
    instead: str
    elsewhere: str = ""
    c: tuple[str, ...] = ()


ALL_C = ("native/src", "host_proxy")
#: Where data with flags in it is sent and received.
LL = (
    "device/team",
    "device/leaf/cuda",
    "device/leaf/cpu",
    "device/leaf/sim/packets.py",
    "stream_kernels",
)
LL += ("triton/ll_channels.py", "triton/collectives.py", "triton/primitives/gpu_packets.py")
_LANE = Word(
    ("fused", "triton", "gluon", "stream_kernels", "host", "cli", "interop"),
    "program; thread; i, indices; track (of a timeline); queue (of torch's backend)",
    "device, fiber: a thread of a group; check: the accesses of one kind by one agent, in order",
    ("native/src/accel", "native/src/stream", "host_proxy"),
)
_MEET = Word(
    (
        *("fused", "triton", "gluon", "interop", "stream_kernels", "device/team", "device/api"),
        *("host", "cli", "bench"),
    ),
    "sync (a team), program_barrier (a program's threads)",
    "check, leaf/sim, _torch/record: where histories come together; launcher, join: PEs find each other",
    ("native/src/teams", "native/src/collectives", "native/src/stream", "native/src/api"),
)
_PIECE = Word(
    ("fused", "device", "stream_kernels", "triton"),
    "chunk",
    "C: of a copy or a file that is made in several",
    ("native/src/stream/shapes.c",),
)
_UNIT = Word(LL, "packet", "what something is counted in")
_BUNDLE = Word(("",), "line: the chunks of a thread, 12 of 16 bytes a packet", "", ALL_C)
_ROAD = Word(("",), "algorithm", "", ALL_C)
_STAMP = Word(("",), "completion word; stage mark", "", ALL_C)
_TRAVEL = Word(("",), "move", "", ALL_C)
_LINK = Word(
    ("fused",), "channel (CopyChannel)", "_foreign, device/jit, host/tuning: NVLink, linkers"
)

WORDS = {
    "road": _ROAD,
    "roads": _ROAD,
    "stamp": _STAMP,
    "stamps": _STAMP,
    "beside": Word(
        ("fused",),
        "side_stream",
        "adjective: what lies or runs next to another",
        ("native/src/stream",),
    ),
    "links": _LINK,
    "link": _LINK,
    "lane": _LANE,
    "lanes": _LANE,
    "chosen": Word(("device", "fused"), "backend", "a participle"),
    "meet": _MEET,
    "meets": _MEET,
    "meeting": _MEET,
    "meetings": _MEET,
    "bundle": _BUNDLE,
    "bundles": _BUNDLE,
    "lean": Word(("",), "small, LL", "a name of the contract"),
    "piece": _PIECE,
    "pieces": _PIECE,
    "unit": _UNIT,
    "units": _UNIT,
    "few": Word(("device", "stream_kernels", "triton"), "small", "prose"),
    "near": Word(
        (
            *("fused", "triton", "gluon", "interop", "stream_kernels", "device/api", "device/team"),
            *("device/ring", "host/kernels", "host/collectives", "host/teams", "host/strided.py"),
        ),
        "p2p: peers' memory is mapped; here, local",
        "device/leaf: this GPU's memory; C: PEs of this host; how alike two things are",
    ),
    "far": Word(
        (
            *("fused", "triton", "gluon", "interop", "stream_kernels", "device/api", "device/team"),
            *("device/ring", "host/kernels", "host/collectives", "host/teams", "host/strided.py"),
        ),
        "by_proxy, by_am; remote",
        "host/messages: former names; the contract",
        ("native/src/am", "native/src/ops", "native/src/teams"),
    ),
    "lists": Word(("fused/moe/dispatch.py",), "routing table", "members' lists in the table"),
    "travel": _TRAVEL,
    "travels": _TRAVEL,
}


def parts(name: str) -> set[str]:
    """The words of an identifier, in snake case or camel case."""
    return {each.lower() for each in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


@functools.cache
def named_in(path: Path) -> list[tuple[str, int, set[str]]]:
    """What a file of Python names, where, and the words of each."""
    found = identifiers(ast.parse(path.read_text(encoding="utf-8")))
    return [(name, line, parts(name)) for name, line in found]


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What a file names: functions, classes, parameters, and what is assigned to; with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def test_the_walk_sees_words() -> None:
    source = "class RoadMap:\n    def by_road(self, wide): self.roads = broad = ROAD_OF = 1"
    found = [parts(name) & WORDS.keys() for name, _ in identifiers(ast.parse(source))]
    assert sorted(word for each in found for word in each) == ["road", "road", "road", "roads"]


@pytest.mark.parametrize("word", WORDS)
def test_words_have_gone(word: str) -> None:
    for folder in WORDS[word].folders:
        place = PACKAGE / folder
        assert place.exists(), f"{folder} has moved: so has the row"
        for path in [place] if place.is_file() else place.rglob("*.py"):
            if path == CONTRACT:
                continue
            for name, line, words in named_in(path):
                where = f"{path.relative_to(PACKAGE)}:{line}: {name}"
                assert word not in words, f"{where}; say {WORDS[word].instead}"


@functools.cache
def named_in_c(path: Path) -> dict[str, set[str]]:
    names = identifiers_of_c(path.read_text(encoding="utf-8"))
    return {name: parts(name) for name in names}


def identifiers_of_c(text: str) -> set[str]:
    """All names of a file's code, but those of the contract and of other libraries' macros."""
    code = re.sub(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', "", text, flags=re.S)
    return {name for name in re.findall(r"\b[A-Za-z_]\w*", code) if not name.startswith("ISHMEMX_")}


def test_the_walk_sees_words_of_c() -> None:
    text = '/* a road */ int road_of(const char *by); "road"; ISHMEMX_ROAD;'
    assert {name for name in identifiers_of_c(text) if "road" in parts(name)} == {"road_of"}


@pytest.mark.parametrize("word", [word for word, row in WORDS.items() if row.c])
def test_words_have_gone_from_c(word: str) -> None:
    for folder in WORDS[word].c:
        place = ROOT / folder
        assert place.exists(), f"{folder} has moved: so has the row"
        for path in [place] if place.is_file() else place.rglob("*.[ch]"):
            for name, words in named_in_c(path).items():
                where = f"{path.relative_to(ROOT)}: {name}"
                assert word not in words, f"{where}; say {WORDS[word].instead}"


@pytest.mark.parametrize("folder", ["fused", "triton", "host", "stream_kernels", "device"])
def test_files_are_called_by_what_is_known(folder: str) -> None:
    """No module has the name of a word that has gone from its folder."""
    gone = {
        word for word, row in WORDS.items() if any(each in ("", folder) for each in row.folders)
    }
    assert not [path for path in (PACKAGE / folder).rglob("*.py") if parts(path.stem) & gone]
