# SPDX-License-Identifier: BSD-3-Clause
"""Kernels name each constant of a group before they use it.

The oldest Triton that pyshmem takes, 3.6, hands out plain numbers and texts from a group that is a
constant. Where a routine of Triton, or a function of ours, wants a constant, such a number has no type:
"'int' object has no attribute 'type'". ``NAME: tl.constexpr = GROUP.NAME`` makes one of it; newer
versions need it not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pyshmem

PACKAGE = Path(pyshmem.__file__).parent


def _constants(function: ast.FunctionDef) -> set[str]:
    """Parameters that are constants."""
    given = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return {
        each.arg
        for each in given
        if each.annotation and "constexpr" in ast.unparse(each.annotation)
    }


def used_unnamed(text: str) -> Iterator[str]:
    """Where a field of a group of constants is read but to name it."""
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef) or not function.decorator_list:
            continue
        groups = _constants(function)
        naming = {
            id(node.value)
            for node in ast.walk(function)
            if isinstance(node, ast.AnnAssign) and "constexpr" in ast.unparse(node.annotation)
        }
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in groups
                and node.value.id.isupper()
                and id(node) not in naming
            ):
                yield f"{function.name}, line {node.lineno}: {ast.unparse(node)}"


WRONG = """
@triton.jit
def kernel(x, TILE: tl.constexpr):
    VEC: tl.constexpr = TILE.VEC
    for k in tl.static_range(TILE.K):
        x += VEC
"""


def test_the_walk_sees_what_is_not_named() -> None:
    assert list(used_unnamed(WRONG)) == ["kernel, line 5: TILE.K"]


def test_constants_of_groups_are_named_first() -> None:
    found = {
        str(path.relative_to(PACKAGE)): wrong
        for path in (PACKAGE / "fused").rglob("*kernels.py")
        if (wrong := list(used_unnamed(path.read_text(encoding="utf-8"))))
    }
    assert not found
