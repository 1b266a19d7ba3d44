# SPDX-License-Identifier: BSD-3-Clause
"""Each fused operation says whether its bits depend on the batch: in info, in the docs, by a test.

Sources are read, and torch is not needed; ``tests/pytorch`` runs the tests that are named here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyshmem.cli.facts import BATCH_INVARIANT

ROOT = Path(__file__).parents[2]
#: What has no rows whose bits could depend on others.
NO_ROWS = {"expert_mask", "replace_norms", "share_of_rows"}
STATED = {name: how for names, how in BATCH_INVARIANT for name in names.split(", ")}


def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def fused_operations() -> set[str]:
    """The functions among ``pyshmem.fused.__all__``; classes have capitals."""
    for node in tree_of("pyshmem/fused/__init__.py").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {name for name in ast.literal_eval(node.value) if name.islower()}
    raise AssertionError("pyshmem.fused has no __all__")


def named_by_cases() -> Iterator[str]:
    """Operations that the property tests call: the first arguments of ``Case``."""
    for node in ast.walk(tree_of("tests/pytorch/programs/batch_cases.py")):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Case", "turned"):
            for given in node.args[:2]:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield from given.value.split(", ")


def test_every_fused_operation_has_a_statement() -> None:
    """A new one is added to ``BATCH_INVARIANT``, with its rule in docs/semantics.md and its case."""
    assert len(fused_operations()) > 12
    assert fused_operations() - NO_ROWS - set(STATED) == set()
    assert not NO_ROWS & set(STATED)
    assert sum(len(names.split(", ")) for names, _ in BATCH_INVARIANT) == len(STATED)


@pytest.mark.parametrize("name", STATED)
def test_every_statement_stands_in_the_docs(name: str) -> None:
    page = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    section = page.split("## The same bits in any batch")[1].split("\n## ")[0]
    short = name.removeprefix("interop.").removesuffix(".use")
    assert re.search(rf"\b{re.escape(short)}\b", section), name


@pytest.mark.parametrize("name", STATED)
def test_every_operation_that_holds_it_is_tried_with_drawn_batches(name: str) -> None:
    if STATED[name] == "no" or name.startswith("interop."):
        assert name not in set(named_by_cases())  # models and plug-ins have programs of their own
    else:
        assert name in set(named_by_cases())


def test_all_kinds_of_cases_are_drawn_and_split() -> None:
    """In the interpreter all of ``KINDS``; on GPUs those that the test of random splits names."""
    text = (ROOT / "tests/pytorch/programs/batch_cases.py").read_text(encoding="utf-8")
    kinds = ast.literal_eval(re.search(r"^KINDS = (\(.*\))$", text, re.M)[1])  # type: ignore[index]
    names = {
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns) == "list[Case]"
    }
    assert names - {"cases"} == set(kinds)
    tests = (ROOT / "tests/pytorch/test_batch_invariant.py").read_text(encoding="utf-8")
    split = re.search(r'"kinds", \[(.*)\]\)', tests)[1]  # type: ignore[index]
    assert set(re.findall(r"\w+", split)) == set(kinds)
