# SPDX-License-Identifier: BSD-3-Clause
"""Names use the field's words: which ones have gone from which folders, and what stands in their place.

A row is a word, as a part of an identifier, the folders in which no identifier has it, what is said in
its place there, and what it goes on to mean elsewhere. Names of the contract, whose hash is of them,
stay.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import pyshmem

PACKAGE = Path(pyshmem.__file__).parent
#: Has names of the contract.
CONTRACT = PACKAGE / "triton" / "runtime" / "constants.py"


class Word(NamedTuple):
    """A word that has gone: from ``folders`` below the package, "" is all of it."""

    folders: tuple[str, ...]
    instead: str
    elsewhere: str = ""


WORDS = {
    "road": Word(("",), "algorithm"),
    "roads": Word(("",), "algorithms"),
    "stamp": Word(("",), "completion word, stage mark"),
    "beside": Word(("fused",), "side_stream", "adjective: what lies or runs next to another"),
    "links": Word(
        ("fused",), "channels: copies by engines", "_foreign, host/tuning: NVLink, linkers"
    ),
    "link": Word(
        ("fused",), "channel (CopyChannel)", "_foreign, device/jit, host/tuning: NVLink, linkers"
    ),
    "lane": Word(
        ("fused/_shared", "fused/exchange", "fused/matmul", "triton"),
        "program",
        "a thread of a group",
    ),
    "chosen": Word(("device", "fused"), "backend", "a participle"),
    "meeting": Word(
        ("fused", "host", "triton", "device/team", "device/api"),
        "sync, barrier",
        "launcher: where PEs join a job",
    ),
    "bundle": Word(
        ("fused", "host", "triton", "device"), "LL line", "stream_kernels: 12 of 16 bytes"
    ),
    "lean": Word(("fused", "device", "triton"), "small, LL", "a name of the contract"),
    "meet": Word(
        ("fused", "triton", "gluon", "interop", "launcher", "device/team", "device/api"),
        "sync (a team), program_barrier (a program's threads)",
        "check: threads of a history that come together",
    ),
    "piece": Word(("fused",), "chunk"),
    "pieces": Word(("fused",), "chunks"),
    "near": Word(
        ("fused", "triton", "gluon", "interop", "device/team", "device/ring"),
        "p2p: peers' memory is mapped",
        "device/leaf: this GPU's memory",
    ),
    "far": Word(("fused", "triton", "gluon", "interop"), "by_proxy", "PEs beyond loads and stores"),
    "lists": Word(("fused/moe/dispatch.py",), "routing table", "members' lists in the table"),
    "travel": Word(("",), "move"),
    "travels": Word(("",), "move"),
}


def parts(name: str) -> set[str]:
    """The words of an identifier, in snake case or camel case."""
    return {each.lower() for each in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


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
            for name, line in identifiers(ast.parse(path.read_text(encoding="utf-8"))):
                where = f"{path.relative_to(PACKAGE)}:{line}: {name}"
                assert word not in parts(name), f"{where}; say {WORDS[word].instead}"


@pytest.mark.parametrize("folder", ["fused", "triton", "host"])
def test_files_are_called_by_what_is_known(folder: str) -> None:
    """No module has the name of a word that has gone from its folder."""
    gone = {
        word for word, row in WORDS.items() if any(each in ("", folder) for each in row.folders)
    }
    assert not [path for path in (PACKAGE / folder).rglob("*.py") if parts(path.stem) & gone]
